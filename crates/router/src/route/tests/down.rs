//! A pin to what is configured and down is an outage; a pin to what does not exist is a mistake of the caller.

use super::*;

/// Worker a with ranks 0 and 1, and worker b, which cannot be reached, with ranks 0 to 3.
fn half_down() -> Bench {
    let bench = Bench::with(&[answering(1), answering(2)], 2, TargetLimit::Off, PolicyKind::Kv);
    let was = Arc::clone(&bench.sender.borrow());
    let down = Worker {
        info: Some(Arc::new(info(4))),
        state: State::Unreachable("refused".into()),
        control: None,
        targets: Vec::new(),
        ..Worker::clone(&was.workers[1])
    };
    bench.sender.send_replace(Arc::new(Snapshot { workers: vec![was.workers[0].clone(), Arc::new(down)] }));
    bench
}

#[tokio::test]
async fn a_pin_says_whether_what_it_names_is_down_or_unknown() {
    let bench = half_down();
    let check = async |worker: Option<&str>, rank, expected: &str| {
        let asked = GenerateRequest { worker: worker.map(WorkerId::new), rank, ..request(Delivery::Deltas) };
        let said =
            bench.route.generate(asked).await.map_or_else(|error| error.to_string(), |_| "accepted".into());
        assert!(said.starts_with(expected), "{worker:?} {rank:?}: {said}");
    };
    check(Some("a"), Some(1), "accepted").await;
    check(Some("b"), None, "no worker: none is ready for m").await;
    check(Some("b"), Some(3), "no worker: none is ready for m").await;
    check(None, Some(3), "no worker: none is ready for m").await;
    check(None, Some(4), "x-data-parallel-rank: rank 4 does not exist").await;
    check(Some("a"), Some(3), "x-data-parallel-rank: rank 3 does not exist on worker a").await;
    check(Some("z"), None, "x-tito-worker: worker z does not serve").await;
    check(Some("z"), Some(3), "x-tito-worker: worker z does not serve").await;
}
