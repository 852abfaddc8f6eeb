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
    assert!(bench.metrics().contains("waiting_requests 0"), "{}", bench.metrics());
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

#[tokio::test(start_paused = true)]
async fn a_fleet_that_changes_keeps_the_line_in_order_and_nobody_in_it_is_turned_away() {
    let bench = full(&hanging());
    let first = bench.route.generate(request(Delivery::Deltas)).await.expect("accepted");
    let mut second = Box::pin(bench.route.generate(request(Delivery::Deltas)));
    let mut third = Box::pin(bench.route.generate(request(Delivery::Deltas)));
    for waiting in [&mut second, &mut third] {
        assert!(waiting.as_mut().now_or_never().is_none());
    }
    for _ in 0..3 {
        let workers = bench.sender.borrow().workers.clone();
        bench.sender.send_replace(Arc::new(Snapshot { workers }));
        // Called in vain: the last first, which must not put it before the other.
        assert!(third.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
    }
    drop(first);
    assert!(third.as_mut().now_or_never().is_none(), "first come, first served");
    let _second = second.await.expect("its turn");
}

#[tokio::test]
async fn a_pin_to_a_worker_that_is_down_is_no_mistake_of_the_client() {
    let bench = Bench::new(&[answering(1), answering(2)]);
    let mut workers = bench.sender.borrow().workers.clone();
    let down = Worker::clone(&workers[1]);
    workers[1] = Arc::new(Worker { state: State::Unreachable("down".into()), targets: Vec::new(), ..down });
    bench.sender.send_replace(Arc::new(Snapshot { workers }));
    let pinned =
        |name: &str| GenerateRequest { worker: Some(WorkerId::new(name)), ..request(Delivery::Deltas) };
    let error = bench.route.generate(pinned("b")).await.expect_err("it is down");
    assert_eq!(error.to_string(), "no worker: none is ready for m");
    assert!(bench.route.generate(pinned("a")).await.is_ok());
}
