use std::hint::black_box;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};

use super::{ProcessError, Reading};

const STATUS: &str = "Name:\tx\nVmPeak:\t  900 kB\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\nThreads:\t4\n";
const TAIL: &str = "1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 4 0 4242 1000 50";

fn parse(stat: &str, status: &str) -> String {
    match Reading::parse(7, stat, status, 100) {
        Ok(reading) => format!("{reading:?}"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn check(stat: &str, status: &str, expect: &Expect) {
    expect.assert_eq(&parse(stat, status));
}

#[test]
fn cpu_memory_and_start_time_are_read_whatever_the_name_holds() {
    let stat = format!("7 (a) b (c)) S {TAIL}\n");
    check(
        &stat,
        STATUS,
        &expect![[
            r#"Reading { pid: 7, name: "a) b (c)", cpu: 2s, rss_peak_bytes: 307200, rss_bytes: 204800, started_ticks: 4242 }"#
        ]],
    );
}

#[test]
fn a_process_that_waits_to_be_reaped_is_gone() {
    check(&format!("7 (x) Z {TAIL}"), "", &expect!["process 7 is gone"]);
}

#[test]
fn a_file_without_the_value_is_named() {
    check("", STATUS, &expect!["process 7 has no usable stat"]);
    check("7 (x) S 1 2 3", STATUS, &expect!["process 7 has no usable user time"]);
    check(&format!("7 (x) S {TAIL}"), "Name: x", &expect!["process 7 has no usable peak memory"]);
    check(&format!("7 (x) S {TAIL}"), "VmHWM: 3 kB\nVmRSS: x kB", &expect!["process 7 has no usable memory"]);
}

#[test]
fn cpu_time_that_a_process_used_is_in_the_next_reading_and_no_more() {
    let (start, before) = (Instant::now(), Reading::take(std::process::id()).unwrap());
    let after = loop {
        let work = (0..1_000_000_u64).fold(0, |sum: u64, number| black_box(sum.wrapping_add(number)));
        assert!(black_box(work) > 0 && start.elapsed() < Duration::from_mins(2), "CPU time never moved");
        let after = before.again().unwrap();
        if after.cpu > before.cpu {
            break after;
        }
    };
    // Other tests of this process may burn CPU too, on every core; a reading is late by up to a tick per thread.
    let cores = std::thread::available_parallelism().unwrap().get() as u32;
    let most = start.elapsed() * cores + Duration::from_secs(1);
    assert!(after.cpu <= before.cpu + most, "{before:?} {after:?}");
    assert!(after.rss_peak_bytes >= after.rss_bytes && after.rss_bytes > 1 << 20, "{after:?}");
}

#[test]
fn another_process_under_the_same_id_is_not_taken_for_the_first() {
    let mut before = Reading::take(std::process::id()).unwrap();
    before.started_ticks -= 1;
    assert!(matches!(before.again(), Err(ProcessError::Replaced { .. })));
}
