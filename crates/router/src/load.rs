//! What engines say of their load, brought to the board as it comes: the ledger of this process knows nothing of what
//! other clients of the same engines have sent. Apart from requests, which neither do this nor wait for it.

use std::collections::BTreeMap;
use std::time::Duration;

use tito_fleet::{LOAD_HOLDS, Target, TargetId, ToldLoad};
use tito_policy::{Reported, Slot};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::Route;
use crate::route::Shared;

/// Between two looks at all targets, so that a large fleet costs no more than a small one talks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The number of the last report of each target that has one.
type Seen = BTreeMap<TargetId, u64>;

impl Route {
    /// Keeps what engines say of their load on the board, for ever. `loads` changes whenever one said something. Where
    /// none ever does, or without this, the ledger counts alone.
    pub async fn follow_loads(&self, mut loads: watch::Receiver<()>) {
        let mut seen = Seen::new();
        loop {
            let news = async {
                if loads.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            if seen.is_empty() {
                news.await;
            } else {
                // What is said no more is to be forgotten.
                let _ = timeout(LOAD_HOLDS, news).await;
            }
            seen = self.shared.look(&seen);
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Shared {
    /// Tells the board what is new since the last look.
    fn look(&self, seen: &Seen) -> Seen {
        let view = self.sync();
        let mut now = Seen::new();
        let mut news: Vec<(Slot, Option<Reported>)> = Vec::new();
        for (id, place) in &view.places {
            let report = place.target.told_load();
            if let Some(report) = report {
                now.insert(*id, report.number);
            }
            if report.map(|report| report.number) != seen.get(id).copied() {
                news.push((place.slot, report.map(|report| reported(&place.target, report))));
            }
        }
        let mut desk = self.desk();
        for (slot, reported) in news {
            desk.board.report(slot, reported);
        }
        now
    }
}

fn reported(target: &Target, ToldLoad { load, .. }: ToldLoad) -> Reported {
    Reported {
        continuations: u64::from(load.running) + u64::from(load.waiting),
        tokens: (load.kv_usage * target.capacity_tokens as f64) as u64,
    }
}
