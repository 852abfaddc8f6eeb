//! Engines that come and go many times: what is kept of them does not grow.

use tito_mock::{Fault, FaultSpec, KvStyle};
use tito_test_support::wait::wait_until;
use tokio::runtime::Handle;

use crate::ask::Ask;
use crate::bench::{Bench, config};

const MOCKS: usize = 3;
/// Times all of them go and come back.
const ROUNDS: u32 = 16;
/// Rounds after which everything that is made once is there.
const WARM_UP_ROUNDS: u32 = 8;
/// Series of metrics that may appear late, for causes that are rare: far fewer than one per round.
const RARE_SERIES: usize = 8;
/// Bytes of the index that may still be added to lists which have grown before: far fewer than a holder per engine and round.
const LATE_BYTES: usize = 2 << 10;

/// What could be left behind by an engine that has gone.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Kept {
    /// Of all parts, the mocks included: each connection and each feed has some.
    tasks: usize,
    /// Series of all metrics.
    series: usize,
    /// Memory of the index.
    index_bytes: usize,
}

impl Kept {
    fn of(bench: &Bench) -> Self {
        Self {
            tasks: Handle::current().metrics().num_alive_tasks(),
            series: bench.cluster.metrics().lines().count(),
            index_bytes: bench.cluster.blocks().stats().bytes,
        }
    }

    fn within(self, most: Self) -> bool {
        self.tasks <= most.tasks && self.series <= most.series && self.index_bytes <= most.index_bytes
    }
}

/// A prompt of its own for every rank of every mock, and of every round.
async fn traffic(bench: &mut Bench, round: u32) {
    bench.forget();
    let asks = bench.targets().into_iter().map(|(mock, target)| {
        let ask = Ask::text((0..60).map(|at| (at * 7 + round * 11 + mock as u32 * 3 + target.rank) % 800));
        (mock, target.rank, ask)
    });
    bench.ask_all(asks.collect()).await;
    bench.settle().await;
}

/// All engines go at once, by turns as one that drains does and as one whose process dies; then they are back.
async fn flap(bench: &mut Bench, round: u32) {
    if round.is_multiple_of(2) {
        for mock in 0..MOCKS {
            bench.handle(mock).add_fault(FaultSpec::new(Fault::Drain)).unwrap();
        }
        wait_until("all engines out of reach", || bench.targets().is_empty()).await;
        assert_eq!(bench.cluster.blocks().stats().memberships, 0, "nothing is believed of them");
        for mock in 0..MOCKS {
            bench.handle(mock).clear_faults();
        }
        wait_until("all engines back", || bench.targets().len() == 2 * MOCKS).await;
    } else {
        for mock in 0..MOCKS {
            bench.restart(mock, config(KvStyle::default())).await;
        }
    }
    bench.until_complete().await;
}

#[tokio::test]
async fn engines_that_come_and_go_leave_no_holder_no_series_and_no_task() {
    let configs = vec![config(KvStyle::default()); MOCKS];
    let mut bench = Bench::start("flapping".to_owned(), configs).await;
    let mut kept = Vec::new();
    for round in 0..WARM_UP_ROUNDS + ROUNDS {
        traffic(&mut bench, round).await;
        flap(&mut bench, round).await;
        kept.push(Kept::of(&bench));
    }
    let warm = &kept[..WARM_UP_ROUNDS as usize];
    let most = |count: fn(&Kept) -> usize| warm.iter().map(count).max().expect("it was warmed up");
    let most = Kept {
        tasks: most(|kept| kept.tasks),
        series: most(|kept| kept.series) + RARE_SERIES,
        index_bytes: most(|kept| kept.index_bytes) + LATE_BYTES,
    };
    let what = format!("no more kept than {most:?}; round by round it was {kept:?}");
    wait_until(&what, || Kept::of(&bench).within(most)).await;
    traffic(&mut bench, 0).await;
    bench.check();
}
