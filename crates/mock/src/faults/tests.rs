use std::time::Duration;

use tonic::Code;

use super::{
    BadFrame, BreakOff, Effects, FAULTS_MAX, Fault, FaultError, FaultSpec, Faults, FrameFault, ReplayEffect,
};

#[test]
fn every_fault_survives_the_way_through_json() {
    let faults = [
        Fault::Die { at_token: 3 },
        Fault::EngineDead { at_token: 0 },
        Fault::Stall { at_token: 7 },
        Fault::Slow { delay: Duration::from_millis(20) },
        Fault::Error { at_token: 1, code: Code::DataLoss, message: "m".to_owned() },
        Fault::Refuse,
        Fault::Drain,
        Fault::BadFrame { at_token: 2, frame: BadFrame::MissingFinish },
        Fault::Logprob { at_token: 1, value: f32::NEG_INFINITY },
        Fault::Abort { at_token: 4 },
        Fault::KvFrame { rank: Some(1), at_seq: u64::MAX, frame: FrameFault::TruncateSeq },
        Fault::KvFrame { rank: None, at_seq: 0, frame: FrameFault::Drop },
        Fault::KvDelay { rank: Some(1), delay: Duration::from_millis(5), jitter: Duration::from_millis(9) },
        Fault::KvReplayDelay { rank: None, delay: Duration::from_millis(7) },
        Fault::KvReplaySilent { rank: Some(0) },
    ];
    for fault in faults {
        let counted = !matches!(fault, Fault::Refuse | Fault::Drain);
        let request = (counted && !fault.is_kv()).then(|| "id".to_owned());
        let spec = FaultSpec { fault, request, count: counted.then_some(2) };
        assert_eq!(FaultSpec::parse(&spec.to_json().to_string()).unwrap(), spec);
    }
    let nan = FaultSpec::parse(r#"{"kind":"logprob","value":"nan"}"#).unwrap();
    assert!(matches!(nan.fault, Fault::Logprob { value, .. } if value.is_nan()));
    assert_eq!(nan.to_json()["value"], "nan");
}

#[test]
fn counts_go_down_and_names_must_match() {
    let faults = Faults::default();
    let stall = FaultSpec {
        request: Some("x".to_owned()),
        count: Some(1),
        ..FaultSpec::new(Fault::Stall { at_token: 1 })
    };
    faults.add(stall).unwrap();
    assert_eq!(faults.take("abc"), Effects::default());
    assert_eq!(faults.take("axc").stall_at, Some(1));
    assert_eq!(faults.take("axc"), Effects::default());
    assert!(faults.list().is_empty());
}

#[test]
fn faults_of_kv_events_meet_their_rank_and_number_and_no_request() {
    let faults = Faults::default();
    let frame = |rank, at_seq, frame| FaultSpec::new(Fault::KvFrame { rank, at_seq, frame });
    faults.add(FaultSpec { count: Some(2), ..frame(Some(1), 5, FrameFault::Drop) }).unwrap();
    faults.add(frame(None, 7, FrameFault::Corrupt)).unwrap();
    assert_eq!(faults.take("any"), Effects::default());
    assert_eq!((faults.take_frame(0, 6), faults.take_frame(1, 4)), (None, None));
    let found: Vec<_> = (5..9).map(|seq| faults.take_frame(1, seq)).collect();
    let (drop, corrupt) = (Some(FrameFault::Drop), Some(FrameFault::Corrupt));
    assert_eq!(found, [drop, drop, corrupt, corrupt], "the first one that was set, while it lasts");
    let delay = Duration::from_millis(3);
    let silent = FaultSpec::new(Fault::KvReplaySilent { rank: Some(0) });
    faults.add(FaultSpec { count: Some(1), ..silent }).unwrap();
    faults.add(FaultSpec::new(Fault::KvReplayDelay { rank: None, delay })).unwrap();
    assert!(!faults.take_replay(1).silent);
    assert_eq!(faults.take_replay(0), ReplayEffect { silent: true, delay });
    assert_eq!(faults.take_replay(0), ReplayEffect { silent: false, delay });
}

#[test]
fn the_earliest_break_and_the_slowest_pace_win() {
    let faults = Faults::default();
    let slow = |millis| Fault::Slow { delay: Duration::from_millis(millis) };
    for fault in [Fault::Die { at_token: 3 }, Fault::Abort { at_token: 1 }, Fault::EngineDead { at_token: 2 }]
    {
        faults.add(FaultSpec::new(fault)).unwrap();
    }
    faults.add(FaultSpec::new(slow(5))).unwrap();
    faults.add(FaultSpec::new(slow(2))).unwrap();
    let effects = faults.take("r");
    assert_eq!(effects.break_off, Some((1, BreakOff::Abort)));
    assert_eq!(effects.pace, Duration::from_millis(5));
}

#[test]
fn the_list_is_bounded_and_entries_can_be_removed() {
    let faults = Faults::default();
    for _ in 0..FAULTS_MAX {
        faults.add(FaultSpec::new(Fault::Refuse)).unwrap();
    }
    assert!(matches!(faults.add(FaultSpec::new(Fault::Refuse)), Err(FaultError::TooMany)));
    faults.remove(Some(3));
    assert_eq!(faults.add(FaultSpec::new(Fault::Drain)).unwrap(), FAULTS_MAX as u64);
    assert!(faults.doors().refuse && faults.doors().drain);
    faults.remove(None);
    assert!(!faults.doors().refuse && !faults.doors().drain);
}
