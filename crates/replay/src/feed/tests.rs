use super::*;

fn path(delay: u64, jitter: u64, loss: f64) -> EventPath {
    EventPath { delay: Duration::from_millis(delay), jitter: Duration::from_millis(jitter), loss }
}

/// Arrivals of `count` batches, one sent each millisecond, and how many of the batches follow a gap.
fn send(path: EventPath, count: u64) -> (Vec<Option<Duration>>, usize) {
    let (mut feed, mut random) = (Feed::default(), Random::new(7));
    let arrivals: Vec<_> = (0..count)
        .map(|at| feed.send(vec![KvEvent::Cleared], Duration::from_millis(at), &path, &mut random))
        .collect();
    let batches: Vec<Batch> = std::iter::from_fn(|| feed.receive()).collect();
    assert_eq!(batches.len(), arrivals.iter().flatten().count());
    (arrivals, batches.iter().filter(|batch| batch.after_gap).count())
}

#[test]
fn events_arrive_after_the_delay() {
    let (arrivals, gaps) = send(path(5, 0, 0.0), 3);
    assert_eq!(arrivals, [5, 6, 7].map(|at| Some(Duration::from_millis(at))));
    assert_eq!(gaps, 0);
}

#[test]
fn jitter_adds_up_to_its_bound_and_keeps_the_order() {
    let (arrivals, _) = send(path(5, 20, 0.0), 500);
    let times: Vec<Duration> = arrivals.into_iter().flatten().collect();
    assert!(times.is_sorted());
    let late = |(at, time): (usize, &Duration)| time.saturating_sub(Duration::from_millis(at as u64 + 5));
    let lateness: Vec<Duration> = times.iter().enumerate().map(late).collect();
    assert!(lateness.iter().all(|late| *late <= Duration::from_millis(20)));
    assert!(lateness.iter().any(|late| *late > Duration::from_millis(15)));
    assert!(lateness.iter().any(|late| *late < Duration::from_millis(15)));
}

#[test]
fn a_lost_batch_is_noticed_with_the_next_one_that_arrives() {
    let (arrivals, gaps) = send(path(0, 0, 0.25), 1000);
    let lost = arrivals.iter().filter(|arrival| arrival.is_none()).count();
    assert!((150..350).contains(&lost), "{lost} of 1000");
    let followed = arrivals.windows(2).filter(|pair| pair[0].is_none() && pair[1].is_some()).count();
    assert_eq!(gaps, followed);
    assert_eq!(send(path(0, 0, 1.0), 10), (vec![None; 10], 0));
}
