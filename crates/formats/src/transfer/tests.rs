use serde_json::json;

use crate::VllmGenerate;
use crate::testing::{bind, outcome, rows};

#[track_caller]
fn check(params: &str, expected: &str) {
    let body = format!("{{\"token_ids\":[1],\"sampling_params\":{{}},\"kv_transfer_params\":{params}}}");
    assert_eq!(outcome(&bind(&VllmGenerate, &body)), expected, "{params}");
}

/// A NIXL pull as vLLM 0.32's prefill engines return it, one member replaced.
fn pull(name: &str, value: &str) -> String {
    let mut members = json!({
        "do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": [[3, 4, 23]],
        "remote_engine_id": "8c09", "remote_request_id": "r-b019851f", "remote_host": "prefill.test",
        "remote_port": 28300, "remote_blocks_expiry_time": null, "transfer_mode": "pull",
    });
    members[name] = serde_json::from_str(value).unwrap();
    members.to_string()
}

#[test]
fn a_pull_needs_everything_that_a_decode_engine_reads() {
    check(&pull("transfer_mode", "\"pull\""), "ok");
    check(&pull("remote_block_ids", "[[24.0],[]]"), "ok");
    check(&pull("remote_port", "\"28300\""), "ok");
    check(&pull("do_remote_prefill", "false").replace("[[3,4,23]]", "null"), "ok");
    let missing = "is missing, empty or malformed: an engine cannot pull the prefix without it";
    for [name, values] in rows(
        r#"
        remote_block_ids | null [] [[]] [3] [[-1]] [[1.5]] [["a"]] "x"
        remote_engine_id | null "" 1
        remote_request_id | null "" 1
        remote_host | null "" 1
        remote_port | null "" 0 65536 -1 1.5
        "#,
    ) {
        for value in values.split(' ') {
            check(&pull(name, value), &format!("Invalid kv_transfer_params.{name}: {missing}"));
        }
    }
    for truthy in ["true", "1", "\"yes\"", "[0]"] {
        let expected = format!("Invalid kv_transfer_params.remote_block_ids: {missing}");
        check(&format!("{{\"do_remote_prefill\":{truthy}}}"), &expected);
    }
    // Mooncake's hand-off is known by two members; one of them alone is a pull.
    for half in ["\"transfer_id\":\"t\"", "\"remote_bootstrap_addr\":\"http://h.test\""] {
        let expected = format!("Invalid kv_transfer_params.remote_block_ids: {missing}");
        check(&format!("{{\"do_remote_prefill\":true,{half}}}"), &expected);
    }
    for falsy in ["false", "0", "\"\"", "null", "[]", "{}"] {
        check(&format!("{{\"do_remote_prefill\":{falsy}}}"), "ok");
    }
}

#[test]
fn other_shapes_of_hand_off_pass() {
    for params in [
        "{}",
        "null",
        r#"{"do_remote_decode":true,"do_remote_prefill":false,"remote_block_ids":null}"#,
        r#"{"do_remote_prefill":true,"transfer_mode":"push","remote_host":"h"}"#,
        r#"{"do_remote_prefill":true,"transfer_id":"t","remote_engine_id":"e","remote_bootstrap_addr":"http://h.test"}"#,
    ] {
        check(params, "ok");
    }
}

#[test]
fn a_whole_number_must_survive_as_a_double() {
    check(r#"{"a":9007199254740991,"b":-9007199254740991,"c":1e-300,"d":0.1}"#, "ok");
    for [params, path] in rows(
        r#"
        {"a":[1,{"b":9007199254740992}]} | a[1].b
        {"a":-9007199254740992} | a
        {"a":18446744073709551616} | a
        {"a":1e30} | a
        "#,
    ) {
        let large = "must be at most 9007199254740991 (2^53 - 1): larger whole numbers would change";
        check(params, &format!("Invalid kv_transfer_params.{path}: {large}"));
    }
}

#[test]
fn only_an_object_can_be_handed_off() {
    for [params, expected] in rows(
        r#"
        [] | must be an object, got a list
        "{}" | must be an object, got a string
        {"a":"\ud800"} | cannot be read: unexpected end of hex escape at line 1 column 13
        {"a":1e999} | cannot be read: number out of range at line 1 column 10
        "#,
    ) {
        check(params, &format!("Invalid kv_transfer_params: {expected}"));
    }
}
