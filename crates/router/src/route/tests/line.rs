//! Waiting while every target is at its limit.

use futures_util::FutureExt as _;
use tokio::task::JoinSet;

use super::*;

fn full(engine: &Fake) -> Bench {
    Bench::with(std::slice::from_ref(engine), 1, TargetLimit::Continuations(1), PolicyKind::Kv)
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_limit_wait_in_order_and_one_too_many_is_shed() {
    let bench = full(&hanging());
    let first = bench.route.generate(request(Delivery::Deltas)).await.expect("accepted");
    let mut waiting = JoinSet::new();
    for token in [2, 3] {
        let route = bench.route.clone();
        let asked = GenerateRequest { prompt: [token].into(), ..request(Delivery::Deltas) };
        waiting.spawn(async move { (token, route.generate(asked).await.expect("accepted")) });
        tokio::task::yield_now().await;
    }
    let shed = bench.route.generate(request(Delivery::Deltas)).await.expect_err("two wait already");
    assert_eq!(shed.retry(), Retry::Overloaded);
    assert!(bench.metrics().contains("waiting_requests 2"), "{}", bench.metrics());

    drop(first);
    let (token, second) = waiting.join_next().await.expect("one waits").expect("it does not panic");
    assert_eq!(token, 2, "first come, first served");
    drop(second);
    let (token, _third) = waiting.join_next().await.expect("one waits").expect("it does not panic");
    assert_eq!(token, 3);
    assert!(bench.metrics().contains("waiting_requests 0"), "{}", bench.metrics());
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_its_deadline() {
    let bench = full(&hanging());
    let _first = bench.route.generate(request(Delivery::Deltas)).await.expect("accepted");
    let began = tokio::time::Instant::now();
    let error = bench.route.generate(request(Delivery::Deltas)).await.expect_err("nothing becomes free");
    assert_eq!(error.to_string(), "overloaded: every target stayed at its limit for 5s");
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_the_line_takes_nobodys_place() {
    let bench = full(&hanging());
    let first = bench.route.generate(request(Delivery::Deltas)).await.expect("accepted");
    let mut leaving = Box::pin(bench.route.generate(request(Delivery::Deltas)));
    let mut staying = Box::pin(bench.route.generate(request(Delivery::Deltas)));
    assert!(leaving.as_mut().now_or_never().is_none());
    assert!(staying.as_mut().now_or_never().is_none());
    // Called, and gone before it could act.
    drop(first);
    drop(leaving);
    let _second = staying.await.expect("the place went on to the next");
    assert_eq!(bench.in_flight(), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_new_worker_serves_those_who_wait() {
    let bench = full(&hanging());
    let _first = bench.route.generate(request(Delivery::Deltas)).await.expect("accepted");
    let mut waiting = Box::pin(bench.route.generate(request(Delivery::Deltas)));
    assert!(waiting.as_mut().now_or_never().is_none());
    let other = Bench::new(&[hanging(), answering(1)]);
    let mut workers = bench.sender.borrow().workers.clone();
    workers.push(Arc::clone(&other.sender.borrow().workers[1]));
    bench.sender.send_replace(Arc::new(Snapshot { workers }));
    assert!(waiting.await.is_ok(), "nobody has to end for it");
}
