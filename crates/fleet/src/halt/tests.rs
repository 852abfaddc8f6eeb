use std::cell::Cell;

use tito_engine::fake::FakeControl;
use tokio::time::timeout;

use super::*;

fn whose(instance: &str, target: u64) -> Whose {
    Whose { instance: instance.to_owned(), target: Some(TargetId(target)) }
}

/// What one connection does about a pause of instance `i` over connection 1: resumes, doubts.
async fn settled(now: Whose, booked: bool) -> (usize, u32) {
    let (halt, control, doubts) = (Arc::new(Halt::default()), FakeControl::default(), Cell::new(0));
    let holding = halt.begin(&whose("i", 1)).await;
    if booked {
        holding.booked();
    } else {
        drop(holding);
    }
    let worker = WorkerId::new("w");
    tokio::select! {
        () = halt.settle(&worker, &now, &control, || doubts.set(doubts.get() + 1)) => unreachable!("it never ends"),
        () = halt.idle() => {}
    }
    (control.seen().len(), doubts.get())
}

#[tokio::test(start_paused = true)]
async fn what_was_paused_goes_on_and_what_is_not_booked_is_doubted() {
    assert_eq!(settled(whose("i", 1), true).await, (1, 0));
    assert_eq!(settled(whose("i", 1), false).await, (1, 1), "the order was dropped half way");
    assert_eq!(settled(whose("i", 2), true).await, (1, 1), "booked on a connection that is gone");
    assert_eq!(settled(whose("j", 3), false).await, (0, 0), "another process was never paused by us");
}

#[tokio::test(start_paused = true)]
async fn a_pause_begins_when_the_one_before_is_over() {
    let gauge = Gauge::default();
    let halt = Arc::new(Halt::with_gauge(gauge.clone()));
    let first = halt.begin(&whose("i", 1)).await;
    assert_eq!(gauge.get(), 1);
    let second = timeout(Duration::from_secs(1), halt.begin(&whose("i", 1))).await;
    assert!(second.is_err() && halt.halted());
    let number = first.number;
    first.unused();
    let second = halt.begin(&whose("i", 1)).await;
    timeout(Duration::from_secs(1), halt.over(number)).await.expect("another is under way, this one is over");
    assert!(halt.halted());
    second.unused();
    assert!(!halt.halted() && gauge.get() == 0, "nothing was paused, nothing is owed");
}
