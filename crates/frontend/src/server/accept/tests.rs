use std::sync::Mutex;

use tokio::time::Instant;

use super::*;

/// Hands out these results, then connections.
struct Scripted(Mutex<Vec<io::Error>>);

impl Accept for Scripted {
    type Connection = u32;

    async fn accept(&self) -> io::Result<u32> {
        let mut errors = self.0.lock().unwrap();
        if errors.is_empty() { Ok(7) } else { Err(errors.remove(0)) }
    }
}

#[track_caller]
fn check(errors: Vec<io::Error>, pauses: &[u64], counted: u64) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let metrics = ConnectionMetrics::default();
        let started = Instant::now();
        assert_eq!(next(&Scripted(Mutex::new(errors)), &metrics).await, 7);
        assert_eq!(started.elapsed(), Duration::from_millis(pauses.iter().sum()));
        assert_eq!((metrics.accepted.get(), metrics.accept_errors.get()), (1, counted));
    });
}

/// "Too many open files."
fn exhausted() -> io::Error {
    io::Error::from_raw_os_error(24)
}

#[test]
fn a_lack_of_descriptors_is_waited_out_ever_more_slowly() {
    check(vec![], &[], 0);
    check(vec![exhausted()], &[5], 1);
    check(vec![exhausted(), exhausted(), exhausted()], &[5, 10, 20], 3);
    let long = std::iter::repeat_with(exhausted).take(10).collect();
    check(long, &[5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000], 10);
}

#[test]
fn a_client_that_left_in_the_queue_costs_nothing() {
    check(vec![io::ErrorKind::ConnectionAborted.into(), io::ErrorKind::ConnectionReset.into()], &[], 0);
}
