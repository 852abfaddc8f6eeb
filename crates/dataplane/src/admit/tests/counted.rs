//! What admission counts, by value. The clock is paused, so that times are exact as well.

use super::*;

#[tokio::test(start_paused = true)]
async fn who_waits_how_long_and_who_is_shed_for_what_is_shown() {
    let hang = Fake::new(|_| Script { hang: true, ..Script::default() });
    let config =
        AdmitConfig { in_flight_max: 2, queue_requests_max: 1, queue_timeout: Duration::from_secs(8) };
    let (draining, mut registry) = (CancellationToken::new(), Registry::default());
    let metrics = AdmitMetrics::register(&mut registry);
    let admit = Admit::new(hang, config, draining.clone(), metrics);
    let check = |expected: &[&str]| {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a string takes it");
        for line in expected {
            assert!(text.lines().any(|found| found == *line), "no {line} in {text}");
        }
    };
    check(&["in_flight 0", "queued_requests 0", "queue_wait_seconds_count 0"]);

    let running = admit.generate(request(2)).await.expect("there is a place");
    let mut waiting = Box::pin(admit.generate(request(1)));
    assert!(waiting.as_mut().now_or_never().is_none());
    check(&["in_flight 2", "queued_requests 1", "queue_wait_seconds_count 0"]);
    admit.generate(request(1)).await.expect_err("the queue is full");
    check(&["shed_total{reason=\"queue_full\"} 1", "queue_wait_seconds_count 0"]);

    tokio::time::advance(Duration::from_secs(3)).await;
    drop(running);
    let running = waiting.await.expect("its turn");
    check(&["in_flight 1", "queued_requests 0", "queue_wait_seconds_count 1", "queue_wait_seconds_sum 3.0"]);

    let late = admit.generate(request(2)).await.expect_err("one place is not enough");
    assert!(matches!(late, EngineError::Overloaded(_)), "{late}");
    check(&["shed_total{reason=\"queue_timeout\"} 1", "queue_wait_seconds_count 2"]);
    // The timer's grain is a millisecond.
    check(&["queue_wait_seconds_bucket{le=\"16.384\"} 2", "queued_requests 0"]);

    draining.cancel();
    for _ in 0..2 {
        admit.generate(request(1)).await.expect_err("closed");
    }
    check(&["shed_total{reason=\"draining\"} 2", "shed_total{reason=\"queue_full\"} 1", "in_flight 1"]);
    drop(running);
    check(&["in_flight 0"]);
}
