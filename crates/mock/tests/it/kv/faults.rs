//! Batches that go wrong on the wire, and replays that do not come.

use std::time::Duration;

use tito_test_support::wait::wait_until;

use super::{Listener, Replay, config, generate_on};
use crate::support::Running;

async fn set(mock: &Running, fault: &str) {
    let (status, body) = mock.http("POST", "/mock/faults", fault).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn what_is_lost_or_broken_on_the_wire_is_whole_in_the_replay() {
    let mock = Running::start(config()).await;
    let mut client = mock.inference().await;
    let (mut listener, last) = Listener::join(&mock, &mut client).await;
    let at = |offset: u64| last + offset;
    for (frame, at_seq) in [("drop", at(2)), ("corrupt", at(4)), ("reorder", at(5))] {
        set(&mock, &format!(r#"{{"kind":"kv_frame","frame":"{frame}","at_seq":{at_seq},"count":1}}"#)).await;
    }
    set(&mock, r#"{"kind":"kv_frame","frame":"duplicate","rank":1}"#).await;
    for number in 1..=7 {
        generate_on(&mut client, 0, number).await;
    }
    let whole = Replay::connect(&mock, 0).await.since(at(1)).await;
    assert_eq!(whole.len(), 7);
    for offset in [1, 3, 4, 6, 5, 7] {
        let live = listener.next().await;
        assert_eq!(live.seq, at(offset));
        let same = live == whole[offset as usize - 1];
        assert_eq!(same, offset != 4, "batch {offset}");
    }
    assert_eq!(mock.handle.faults().len(), 1, "the one of another rank is left");
}

#[tokio::test]
async fn a_replay_can_be_late_or_fail_to_come() {
    let mock = Running::start(config()).await;
    generate_on(&mut mock.inference().await, 0, 1).await;
    let mut replay = Replay::connect(&mock, 0).await;
    set(&mock, r#"{"kind":"kv_replay_silent","rank":0,"count":1}"#).await;
    set(&mock, r#"{"kind":"kv_replay_delay","delay_ms":50}"#).await;
    replay.send(&[b"", &[0; 8]]).await;
    wait_until("the silent request", || mock.handle.faults().len() == 1).await;
    let started = tokio::time::Instant::now();
    assert_eq!(replay.since(1).await, [], "the answer is that to the second request");
    assert!(started.elapsed() >= Duration::from_millis(50));
}
