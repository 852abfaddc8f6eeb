use std::time::Duration;

use tokio::time::Instant;

use super::Pacer;

#[tokio::test]
async fn no_pacer_returns_early_and_a_passed_moment_is_not_waited_for() {
    for pacer in [Pacer::exact().unwrap(), Pacer::Runtime] {
        for microseconds in [0, 1, 300, 2500] {
            let due = Instant::now() + Duration::from_micros(microseconds);
            pacer.wait_until(due).await.unwrap();
            assert!(Instant::now() >= due, "{pacer:?} after {microseconds} µs");
        }
        pacer.wait_until(Instant::now()).await.unwrap();
    }
}

#[tokio::test]
async fn a_wait_that_is_dropped_does_not_disturb_the_next() {
    let pacer = Pacer::exact().unwrap();
    {
        let far = pacer.wait_until(Instant::now() + Duration::from_hours(1));
        tokio::select! {
            biased;
            _ = far => panic!("an hour cannot have passed"),
            () = tokio::task::yield_now() => (),
        }
    }
    let due = Instant::now() + Duration::from_millis(1);
    pacer.wait_until(due).await.unwrap();
    assert!(Instant::now() >= due);
}
