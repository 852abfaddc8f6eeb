use crate::VllmGenerate;
use crate::testing::{bind, outcome};

#[track_caller]
fn check(params: &str, expected: &str) {
    let body = format!("{{\"token_ids\":[1],\"sampling_params\":{{}},\"kv_transfer_params\":{params}}}");
    assert_eq!(outcome(&bind(&VllmGenerate, &body)), expected, "{params}");
}

/// A NIXL pull as vLLM 0.32's prefill engines return it, one member replaced.
fn pull(name: &str, value: &str) -> String {
    let members = [
        ("do_remote_prefill", "true"),
        ("do_remote_decode", "false"),
        ("remote_block_ids", "[[3,4,23]]"),
        ("remote_engine_id", "\"8c09\""),
        ("remote_request_id", "\"r-b019851f\""),
        ("remote_host", "\"prefill.test\""),
        ("remote_port", "28300"),
        ("remote_blocks_expiry_time", "null"),
        ("transfer_mode", "\"pull\""),
    ];
    let member =
        |(key, json): &(&str, &str)| format!("\"{key}\":{}", if *key == name { value } else { json });
    format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
}

#[test]
fn a_pull_needs_everything_that_a_decode_engine_reads() {
    check(&pull("", ""), "ok");
    check(&pull("remote_block_ids", "[[24.0],[]]"), "ok");
    check(&pull("remote_port", "\"28300\""), "ok");
    check(&pull("do_remote_prefill", "false").replace("[[3,4,23]]", "null"), "ok");
    let missing = "is missing, empty or malformed: an engine cannot pull the prefix without it";
    for (name, values) in [
        ("remote_block_ids", vec!["null", "[]", "[[]]", "[3]", "[[-1]]", "[[1.5]]", "[[\"a\"]]", "\"x\""]),
        ("remote_engine_id", vec!["null", "\"\"", "1"]),
        ("remote_request_id", vec!["null", "\"\"", "1"]),
        ("remote_host", vec!["null", "\"\"", "1"]),
        ("remote_port", vec!["null", "\"\"", "0", "65536", "-1", "1.5"]),
    ] {
        for value in values {
            check(&pull(name, value), &format!("Invalid kv_transfer_params.{name}: {missing}"));
        }
    }
    for truthy in ["true", "1", "\"yes\"", "[0]"] {
        let expected = format!("Invalid kv_transfer_params.remote_block_ids: {missing}");
        check(&format!("{{\"do_remote_prefill\":{truthy}}}"), &expected);
    }
    for falsy in ["false", "0", "\"\"", "null", "[]", "{}"] {
        check(&format!("{{\"do_remote_prefill\":{falsy}}}"), "ok");
    }
}

#[test]
fn other_shapes_of_hand_off_pass() {
    check("{}", "ok");
    check("null", "ok");
    check(r#"{"do_remote_decode":true,"do_remote_prefill":false,"remote_block_ids":null}"#, "ok");
    check(r#"{"do_remote_prefill":true,"transfer_mode":"push","remote_host":"h"}"#, "ok");
    check(
        r#"{"do_remote_prefill":true,"transfer_id":"t","remote_engine_id":"e","remote_bootstrap_addr":"http://h.test"}"#,
        "ok",
    );
}

#[test]
fn a_whole_number_must_survive_as_a_double() {
    let large = "must be at most 9007199254740991 (2^53 - 1): larger whole numbers would change";
    check(r#"{"a":9007199254740991,"b":-9007199254740991,"c":1e-300,"d":0.1}"#, "ok");
    check(r#"{"a":[1,{"b":9007199254740992}]}"#, &format!("Invalid kv_transfer_params.a[1].b: {large}"));
    check(r#"{"a":-9007199254740992}"#, &format!("Invalid kv_transfer_params.a: {large}"));
    check(r#"{"a":18446744073709551616}"#, &format!("Invalid kv_transfer_params.a: {large}"));
    check(r#"{"a":1e30}"#, &format!("Invalid kv_transfer_params.a: {large}"));
    check(
        r#"{"a":1e999}"#,
        "Invalid kv_transfer_params: cannot be read: number out of range at line 1 column 10",
    );
}

#[test]
fn only_an_object_can_be_handed_off() {
    check("[]", "Invalid kv_transfer_params: must be an object, got a list");
    check("\"{}\"", "Invalid kv_transfer_params: must be an object, got a string");
    check(
        "{\"a\":\"\\ud800\"}",
        "Invalid kv_transfer_params: cannot be read: unexpected end of hex escape at line 1 column 13",
    );
}
