//! Telling workers to drop what they have cached.

use futures_util::future::join_all;
use tito_fleet::Whose;
use tito_types::ClearReport;

use super::blocks::{asked, goes, store};
use super::*;

/// What came of it, by worker.
async fn clear(bench: &Bench, workers: &[&str], running: bool) -> Vec<(String, String)> {
    let wanted: Vec<_> = workers.iter().map(|name| WorkerId::new(name)).collect();
    let workers = bench.sender.borrow().workers.clone();
    let kept = workers.iter().zip(&bench.controls);
    let keepers = kept.map(|(worker, control)| async move {
        let whose = Whose::of(worker.info.as_ref().expect("it was reached"), &worker.targets);
        worker.halt.settle(&worker.id, &whose, control, || ()).await;
    });
    let reports = tokio::select! {
        reports = bench.route.clear_caches(&wanted, running) => reports.expect("they exist"),
        _ = join_all(keepers) => unreachable!("none ever ends"),
    };
    let told = |ClearReport { worker, error }| (worker.to_string(), error.unwrap_or_default());
    reports.into_iter().map(told).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(worker, error)| ((*worker).to_owned(), (*error).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn the_workers_that_were_named_or_all_are_cleared() {
    let bench = Bench::new(&[answering(1), answering(2)]);
    let prompt: Vec<u32> = (1..=14).collect();
    store(&bench, &bench.target(1, 0), &prompt, Vec::new(), None);
    assert_eq!(clear(&bench, &["a"], false).await, pairs(&[("a", "")]));
    assert_eq!(goes(&bench, &asked(&prompt)), ("b".into(), 12));
    assert_eq!(clear(&bench, &[], false).await, pairs(&[("a", ""), ("b", "")]));
    assert_eq!(goes(&bench, &asked(&prompt)), ("a".into(), 0));
    let unknown = bench.route.clear_caches(&[WorkerId::new("z")], true).await.unwrap_err();
    assert_eq!(unknown.to_string(), "worker: no worker is called z; valid: a, b");
    let orders: Vec<_> = bench.controls.iter().map(|control| control.seen().len()).collect();
    assert_eq!(orders, [2 * 2, 2], "a pause and a resume each time");
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_protects_a_worker_unless_it_may_be_computed_again() {
    let bench = Bench::new(&[hanging(), hanging()]);
    let asked = GenerateRequest { n: 2, worker: Some(WorkerId::new("b")), ..request(Delivery::Deltas) };
    let tokens = bench.route.generate(asked).await.expect("accepted");
    let held = "its blocks are held; continuations in flight: 2";
    assert_eq!(clear(&bench, &[], false).await, pairs(&[("a", ""), ("b", held)]));
    assert_eq!(clear(&bench, &["b"], true).await, pairs(&[("b", "")]));
    drop(tokens);
    assert_eq!(clear(&bench, &["b"], false).await, pairs(&[("b", "")]));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_be_cleared_says_why() {
    let bench = Bench::new(&[answering(1), answering(2)]);
    let mut workers = bench.sender.borrow().workers.clone();
    let down = Worker::clone(&workers[1]);
    let state = State::Unreachable("down".into());
    workers[1] = Arc::new(Worker { state, control: None, targets: Vec::new(), ..down });
    bench.sender.send_replace(Arc::new(Snapshot { workers }));
    bench.controls[0].fail(EngineError::Engine(WorkerId::new("a"), "no".into()));
    let expected = pairs(&[("a", "worker a failed: no"), ("b", "it is unreachable: down")]);
    assert_eq!(clear(&bench, &[], false).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_go_on_shows_it() {
    let bench = Bench::new(&[answering(1), answering(2)]);
    let reasons = || bench.route.workers().into_iter().map(|worker| worker.reason).collect::<Vec<_>>();
    assert_eq!(reasons(), [None, None]);
    // Nobody keeps its connection.
    let told = bench.route.clear_caches(&[WorkerId::new("b")], false).await.unwrap();
    assert!(told[0].error.as_ref().is_some_and(|error| error.starts_with("it did not go on")), "{told:?}");
    let reason = "an order of this server has paused it; after that it is told to go on until it does";
    assert_eq!(reasons(), [None, Some(reason.to_owned())]);
}

/// Its engine may compute again what it had, and rightly reports less than was there when it was sent.
#[tokio::test(start_paused = true)]
async fn a_request_that_was_in_flight_is_not_held_against_what_was_known_before() {
    let bench = Bench::new(&[answering(1)]);
    let prompt: Vec<u32> = (1..=14).collect();
    let target = bench.target(0, 0);
    target.apply(&bench.blocks, KvNews::Complete);
    for cleared in [true, false] {
        store(&bench, &target, &prompt, Vec::new(), None);
        let mut tokens = bench.route.generate(asked(&prompt)).await.expect("accepted");
        if cleared {
            assert_eq!(clear(&bench, &[], true).await, pairs(&[("a", "")]));
            target.apply(&bench.blocks, KvNews::Events(vec![KvEvent::Cleared]));
        }
        while TokenStream::next(&mut tokens).await.is_some() {}
        let reported = bench.metrics().contains("cache_reports_total{result=\"less_cached\"} 1");
        assert_eq!(reported, !cleared, "{}", bench.metrics());
    }
}

/// What was just sent there, and is not told yet, went with the rest.
#[tokio::test(start_paused = true)]
async fn what_was_expected_there_is_expected_no_longer() {
    let bench = Bench::new(&[answering(1), answering(2)]);
    let prompt: Vec<u32> = (1..=14).collect();
    let pinned = GenerateRequest { worker: Some(WorkerId::new("b")), ..asked(&prompt) };
    let mut tokens = bench.route.generate(pinned).await.expect("accepted");
    while TokenStream::next(&mut tokens).await.is_some() {}
    drop(tokens);
    let expected = |bench: &Bench| {
        let routes = bench.route.explain(&asked(&prompt));
        let candidates = routes.candidates.into_iter();
        candidates.map(|candidate| candidate.predicted_tokens).max()
    };
    assert_eq!(expected(&bench), Some(12));
    clear(&bench, &["b"], false).await;
    assert_eq!(expected(&bench), Some(0));
}
