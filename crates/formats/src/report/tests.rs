use expect_test::{Expect, expect};
use serde::de::IgnoredAny;
use tito_types::WorkerId;

use super::*;

/// The body as it is sent, with line breaks at objects in lists.
#[track_caller]
fn check(body: &[u8], expected: &Expect) {
    serde_json::from_slice::<IgnoredAny>(body).expect("it is JSON");
    let text = str::from_utf8(body).unwrap();
    let lines = [("},{", "},\n{"), (":[{", ":[\n{"), (",\"index\"", ",\n \"index\"")];
    let text = lines.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    expected.assert_eq(&format!("{text}\n"));
}

fn unreached() -> WorkerReport {
    WorkerReport {
        id: WorkerId::new("10.0.0.6:50051"),
        state: "unreachable",
        reason: Some("Connection refused".to_owned()),
        engine: None,
        targets: Vec::new(),
    }
}

fn ready() -> WorkerReport {
    let target = |rank, state, reason: Option<&str>| TargetReport {
        rank,
        capacity_tokens: 4_096,
        load: LoadReport {
            in_flight: 2,
            prefill_tokens: 300,
            decode_tokens: 70,
            other_requests: reason.map(|_| 3),
            other_tokens: reason.map(|_| 900),
        },
        others_unknown: reason.is_none().then(|| "HTTP 503".to_owned()),
        index: IndexReport {
            state,
            reason: reason.map(str::to_owned),
            block_tokens: 16,
            blocks: [10, 4, 1],
            media: reason.map_or("exact", |_| "inexact"),
            media_inexact: reason.map(|_| "events carry no offsets".to_owned()),
            not_compared: reason.map(|_| "groups".to_owned()),
            counters: KvCounters {
                batches: 1,
                gaps: 2,
                replays: 3,
                duplicates: 4,
                unreadable: 5,
                skipped: 6,
                restarts: 7,
            },
        },
    };
    WorkerReport {
        id: WorkerId::new("10.0.0.5:50051"),
        state: "ready",
        reason: None,
        engine: Some(EngineReport {
            version: "0.32.0".to_owned(),
            instance: "i-1".to_owned(),
            models: vec!["m".to_owned(), "alias \"2\"".to_owned()],
            adapters: vec![tito_types::Adapter { name: "ad".to_owned(), id: 3, source: "org/ad".to_owned() }],
            multimodal: true,
            pixels: Some(Pixels::Raw),
            kv_replay: Some(false),
            data_parallel_size: 2,
        }),
        targets: vec![target(0, "complete", None), target(1, "partial", Some("gap at 7"))],
    }
}

#[test]
fn workers_are_told_with_every_target() {
    check(
        &workers_body(&[ready(), unreached()]),
        &expect![[r#"
            {"workers":[
            {"id":"10.0.0.5:50051","state":"ready","reason":null,"engine":{"version":"0.32.0","instance":"i-1","models":["m","alias \"2\""],"adapters":[
            {"name":"ad","id":3,"source":"org/ad"}],"multimodal":true,"pixels":"raw","kv_replay":false,"data_parallel_size":2},"targets":[
            {"rank":0,"capacity_tokens":4096,"load":{"in_flight":2,"prefill_tokens":300,"decode_tokens":70,"other_requests":null,"other_tokens":null},"others_unknown":"HTTP 503",
             "index":{"state":"complete","reason":null,"block_tokens":16,"blocks":{"gpu":10,"cpu":4,"storage":1},"media":"exact","media_inexact":null,"not_compared":null,"counters":{"batches":1,"gaps":2,"replays":3,"duplicates":4,"unreadable":5,"skipped":6,"restarts":7}}},
            {"rank":1,"capacity_tokens":4096,"load":{"in_flight":2,"prefill_tokens":300,"decode_tokens":70,"other_requests":3,"other_tokens":900},"others_unknown":null,
             "index":{"state":"partial","reason":"gap at 7","block_tokens":16,"blocks":{"gpu":10,"cpu":4,"storage":1},"media":"inexact","media_inexact":"events carry no offsets","not_compared":"groups","counters":{"batches":1,"gaps":2,"replays":3,"duplicates":4,"unreadable":5,"skipped":6,"restarts":7}}}]},
            {"id":"10.0.0.6:50051","state":"unreachable","reason":"Connection refused","engine":null,"targets":[]}]}
        "#]],
    );
    check(
        &workers_body(&[]),
        &expect![[r#"
        {"workers":[]}
    "#]],
    );
}

fn candidate(worker: &str, cost: f64, excluded: Option<&str>) -> CandidateReport {
    CandidateReport {
        worker: WorkerId::new(worker),
        rank: 0,
        overlap_tokens: 64,
        predicted_tokens: 96,
        load: LoadReport::default(),
        cost,
        excluded: excluded.map(str::to_owned),
    }
}

#[test]
fn a_route_is_told_with_every_candidate() {
    let chosen = RouteReport {
        policy: "kv".to_owned(),
        prompt_tokens: 100,
        chosen: Some((WorkerId::new("a"), 0)),
        rule: Some("session"),
        reason: None,
        candidates: vec![candidate("a", 36.5, None), candidate("b", f64::INFINITY, Some("full"))],
    };
    let waits = RouteReport {
        chosen: None,
        rule: None,
        reason: Some("every target is full".to_owned()),
        candidates: Vec::new(),
        ..chosen.clone()
    };
    check(
        &route_body(&[chosen, waits]),
        &expect![[r#"
            {"routes":[
            {"policy":"kv","prompt_tokens":100,"chosen":{"worker":"a","rank":0},"rule":"session","reason":null,"candidates":[
            {"worker":"a","rank":0,"overlap_tokens":64,"predicted_tokens":96,"load":{"in_flight":0,"prefill_tokens":0,"decode_tokens":0,"other_requests":null,"other_tokens":null},"cost":36.5,"excluded":null},
            {"worker":"b","rank":0,"overlap_tokens":64,"predicted_tokens":96,"load":{"in_flight":0,"prefill_tokens":0,"decode_tokens":0,"other_requests":null,"other_tokens":null},"cost":null,"excluded":"full"}]},
            {"policy":"kv","prompt_tokens":100,"chosen":null,"rule":null,"reason":"every target is full","candidates":[]}]}
        "#]],
    );
}
