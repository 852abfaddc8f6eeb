//! What engines say of their load, on its way to the board. All in paused time: a look is no more than 250 ms away.

use std::pin::pin;

use tito_types::EngineLoad;

use super::*;

/// Lets the router look at what was said so far.
const LOOKED: Duration = Duration::from_millis(500);

/// An engine says what the only rank of a worker has to do, or nothing any more.
fn says(bench: &Bench, loads: &watch::Sender<()>, worker: usize, said: Option<(u32, f64)>) {
    let load = |(running, kv_usage)| EngineLoad { rank: 0, running, waiting: 1, kv_usage };
    bench.target(worker, 0).tell_load(said.map(load).ok_or("it says nothing"));
    loads.send_replace(());
}

/// Requests and tokens of others, per target.
fn others(bench: &Bench) -> Vec<Option<(u64, u64)>> {
    let workers = bench.route.workers();
    let targets = workers.iter().flat_map(|worker| &worker.targets);
    targets.map(|target| target.load.other_requests.zip(target.load.other_tokens)).collect()
}

/// Runs a story beside the one who follows what engines say.
async fn followed(bench: &Bench, loads: &watch::Sender<()>, story: impl Future<Output = ()>) {
    let mut following = pin!(bench.route.follow_loads(loads.subscribe()));
    tokio::select! {
        () = &mut following => unreachable!("it never ends"),
        () = story => {}
    }
}

#[tokio::test(start_paused = true)]
async fn what_two_reports_say_in_a_row_is_seen_and_counts_until_it_is_said_no_more() {
    let (bench, loads) = (Bench::new(&[hanging(), hanging()]), watch::Sender::new(()));
    followed(&bench, &loads, async {
        let look = || tokio::time::sleep(LOOKED);
        look().await;
        assert_eq!(others(&bench), [None, None]);
        says(&bench, &loads, 0, Some((5, 0.5)));
        look().await;
        assert_eq!(others(&bench), [Some((0, 0)), None]);
        says(&bench, &loads, 1, Some((0, 0.0)));
        look().await;
        assert_eq!(
            others(&bench),
            [Some((0, 0)), Some((0, 0))],
            "one report is one however often it is looked at"
        );
        says(&bench, &loads, 0, Some((5, 0.5)));
        look().await;
        assert_eq!(others(&bench), [Some((6, 800)), Some((0, 0))]);

        let asked = bench.route.generate(request(Delivery::Deltas)).await.expect("accepted");
        assert_eq!(bench.in_flight(), [0, 1], "equal targets but for what others have sent");
        let report = bench.route.explain(&request(Delivery::Deltas));
        assert_eq!(report.candidates.iter().filter_map(|seen| seen.load.other_requests).max(), Some(6));
        drop(asked);

        tokio::time::sleep(tito_fleet::LOAD_HOLDS).await;
        look().await;
        assert_eq!(others(&bench), [None, None], "too long ago");
        for _ in 0..2 {
            says(&bench, &loads, 0, Some((5, 0.5)));
            look().await;
        }
        assert_eq!(others(&bench), [Some((6, 800)), None]);
        says(&bench, &loads, 0, None);
        look().await;
        assert_eq!(others(&bench), [None, None], "at once");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_goes_takes_what_was_said_of_it_along() {
    let (bench, loads) = (Bench::new(&[hanging(), hanging()]), watch::Sender::new(()));
    followed(&bench, &loads, async {
        for _ in 0..2 {
            says(&bench, &loads, 0, Some((5, 0.5)));
            tokio::time::sleep(LOOKED).await;
        }
        assert_eq!(others(&bench), [Some((6, 800)), None]);
        bench.sender.send_modify(|snapshot| {
            let workers = snapshot.workers[1..].to_vec();
            *snapshot = Arc::new(Snapshot { workers });
        });
        loads.send_replace(());
        tokio::time::sleep(LOOKED).await;
        assert_eq!(others(&bench), [None]);
    })
    .await;
}
