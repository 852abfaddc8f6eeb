use std::sync::Mutex;
use std::time::Duration;

use super::{Bar, Progress, Total};

/// Length, position and message of the bar; nothing when there is none.
fn state(bar: &Bar) -> Option<(Option<u64>, u64, String)> {
    let phase = bar.0.lock().unwrap();
    phase.as_ref().map(|phase| (phase.bar.length(), phase.bar.position(), phase.bar.message()))
}

#[test]
fn a_bar_counts_requests_and_names_failures() {
    let bar = Bar(Mutex::default());
    bar.finished(true);
    assert_eq!(state(&bar), None);
    bar.begin("a", Total::Requests(3));
    bar.finished(true);
    bar.finished(false);
    assert_eq!(state(&bar), Some((Some(3), 2, "1 failed".to_owned())));
    bar.end();
    assert_eq!(state(&bar), None);
}

#[test]
fn a_bar_over_time_moves_with_the_clock_and_not_with_the_requests() {
    let bar = Bar(Mutex::default());
    bar.begin("a", Total::Time(Duration::from_hours(1)));
    for _ in 0..100_000 {
        bar.finished(true);
    }
    let (length, position, _) = state(&bar).unwrap();
    assert_eq!(length, Some(3_600_000));
    assert!(position < 60_000, "{position} ms for a hundred thousand calls");
}
