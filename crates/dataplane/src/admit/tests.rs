use futures_util::FutureExt;
use tito_engine::fake::{self, Fake, Script, last};

use super::*;

mod counted;

/// A request for `n` continuations of one token.
pub(crate) fn request(n: u32) -> GenerateRequest {
    GenerateRequest { n, ..fake::request(&[1]) }
}

struct Door {
    admit: Admit<Fake>,
    draining: CancellationToken,
}

fn door(in_flight_max: u32, queue_requests_max: usize) -> Door {
    let hang = Fake::new(|_| Script { hang: true, ..Script::default() });
    let config = AdmitConfig { in_flight_max, queue_requests_max, queue_timeout: Duration::from_secs(60) };
    let draining = CancellationToken::new();
    let metrics = AdmitMetrics::register(&mut Registry::default());
    Door { admit: Admit::new(hang, config, draining.clone(), metrics), draining }
}

impl Door {
    fn counts(&self) -> (i64, i64) {
        (self.admit.metrics.in_flight.get(), self.admit.metrics.queued_requests.get())
    }
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_in_length_and_in_time() {
    let door = door(1, 1);
    let running = door.admit.generate(request(1)).await.expect("there is a place");
    let mut waiting = Box::pin(door.admit.generate(request(1)));
    assert!(waiting.as_mut().now_or_never().is_none(), "the second waits");
    assert_eq!(door.counts(), (1, 1));

    let full = door.admit.generate(request(1)).await.expect_err("the queue is full");
    assert_eq!(full, EngineError::Overloaded("1 requests are waiting already".into()));

    let late = waiting.await.expect_err("virtual time passes the deadline");
    assert_eq!(late, EngineError::Overloaded("no place within 60s".into()));
    assert_eq!(door.counts(), (1, 0));
    drop(running);
    assert_eq!(door.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_place_is_given_back_by_the_end_of_the_stream_and_taken_by_the_next_in_line() {
    let door = door(1, 4);
    let running = door.admit.generate(request(1)).await.expect("there is a place");
    let mut waiting = Box::pin(door.admit.generate(request(1)));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(running);
    let _running = waiting.await.expect("its turn");
    assert_eq!(door.counts(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_leaves_the_queue_leaves_nothing_behind() {
    let door = door(1, 1);
    let running = door.admit.generate(request(1)).await.expect("there is a place");
    let mut waiting = Box::pin(door.admit.generate(request(1)));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(waiting);
    assert_eq!(door.counts(), (1, 0));
    drop(running);
    assert_eq!(door.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn several_continuations_take_several_places_and_nobody_overtakes() {
    let door = door(3, 4);
    let one = door.admit.generate(request(1)).await.expect("there is a place");
    let mut three = Box::pin(door.admit.generate(request(3)));
    assert!(three.as_mut().now_or_never().is_none(), "two places are free, three are wanted");
    let mut behind = Box::pin(door.admit.generate(request(1)));
    assert!(behind.as_mut().now_or_never().is_none(), "first come, first served");
    drop(one);
    let three = three.await.expect("all three are free");
    assert!(behind.as_mut().now_or_never().is_none());
    drop(three);
    behind.await.expect("its turn");

    let never = door.admit.generate(request(4)).await.expect_err("can never fit");
    assert!(matches!(never, EngineError::Invalid { param, .. } if param == "n"));
}

#[tokio::test(start_paused = true)]
async fn draining_sends_the_queue_away_and_lets_the_running_finish() {
    let door = door(1, 4);
    let running = door.admit.generate(request(1)).await.expect("there is a place");
    let mut waiting = Box::pin(door.admit.generate(request(1)));
    assert!(waiting.as_mut().now_or_never().is_none());
    door.draining.cancel();
    assert_eq!(waiting.await.expect_err("sent away"), EngineError::Draining);
    assert_eq!(door.admit.generate(request(1)).await.expect_err("closed"), EngineError::Draining);
    assert_eq!(door.counts(), (1, 0));
    drop(running);
}

#[tokio::test]
async fn an_engine_that_refuses_gives_the_place_back() {
    let refusing = Fake::new(|request| match request.n {
        1 => Script { refuse: Some(EngineError::Truncated), ..Script::default() },
        _ => Script { items: vec![Ok(last(0, &[1], 1)), Ok(last(1, &[1], 1))], ..Script::default() },
    });
    let config = AdmitConfig { in_flight_max: 2, queue_requests_max: 0, queue_timeout: Duration::ZERO };
    let metrics = AdmitMetrics::register(&mut Registry::default());
    let admit = Admit::new(refusing, config, CancellationToken::new(), metrics);
    for _ in 0..10 {
        assert_eq!(admit.generate(request(1)).await.expect_err("refused"), EngineError::Truncated);
    }
    let mut both = admit.generate(request(2)).await.expect("both places are free again");
    while both.next().await.is_some() {}
    assert_eq!(admit.metrics.in_flight.get(), 0);
}
