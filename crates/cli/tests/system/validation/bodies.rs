//! Bodies that are no JSON or no request, and values that are wrong for what they mean.

use super::Expected::{Engine, EngineLater, Fine, Plain, Status};
use super::{BODY_BYTES, CONTEXT, Expected, Probe, ROUTES, Route, SEQUENCES};
use crate::harness::COMPLETIONS;

pub(super) fn probes(route: Route, stream: bool) -> Vec<Probe> {
    let mut probes: Vec<Probe> = no_json().into_iter().map(|body| raw(route, body, bad_json())).collect();
    probes.extend(no_request(route).into_iter().map(|body| raw(route, body, blames(route.prompt))));
    for (field, value, expected) in prompts(route).into_iter().chain(meanings(route)) {
        let field = if field.is_empty() { route.prompt.to_owned() } else { field };
        probes.push(route.probe(stream, &[(&field, &value)], expected));
    }
    if route.path == COMPLETIONS {
        let several = Expected::Blames("unsupported_parameter", "best_of".to_owned());
        probes.push(route.probe(stream, &[("best_of", "2")], several));
        for (format, expected) in formats() {
            probes.push(route.probe(stream, &[("response_format", format)], expected));
        }
        let both =
            [("response_format", "{\"type\":\"json_object\"}"), ("structured_outputs", "{\"regex\":\"a\"}")];
        probes.push(route.probe(stream, &both, blames("response_format")));
    } else {
        let both = [("cache_salt", "\"a\""), ("sampling_params.cache_salt", "\"b\"")];
        probes.push(route.probe(stream, &both, blames("sampling_params.cache_salt")));
    }
    let n = format!("{}n", route.sampling);
    let hand_off = [(n.as_str(), "2"), ("kv_transfer_params", "{\"do_remote_decode\":true}")];
    probes.push(route.probe(stream, &hand_off, blames("kv_transfer_params")));
    if !stream {
        let options = [("stream_options", "{\"include_usage\":true}")];
        probes.push(route.probe(stream, &options, blames("stream_options")));
    }
    probes
}

fn raw(route: Route, body: impl Into<Vec<u8>>, expected: Expected) -> Probe {
    Probe { path: route.path, body: body.into(), expected }
}

fn bad_json() -> Expected {
    Status(400, "bad_json")
}

fn blames(field: &str) -> Expected {
    Expected::Blames("invalid_value", field.to_owned())
}

fn no_json() -> Vec<Vec<u8>> {
    let texts = [
        "",
        " ",
        "{",
        "}",
        "[",
        "null",
        "true",
        "0",
        "\"x\"",
        "[]",
        "[{}]",
        "{]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{'a':1}",
        "{a:1}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1}x",
        "{\"a\":1}{\"a\":1}",
        "// c\n{}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":tru}",
        "\u{feff}{}",
        "token_ids=1&token_ids=2",
        "<xml/>",
    ];
    let mut bodies: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    bodies.push(b"{\"a\":\"\xff\xfe\"}".to_vec());
    bodies.push(b"\x00\x01\x02".to_vec());
    // Deeper than any parser recurses, within the body's limit.
    bodies.push("[".repeat(BODY_BYTES / 2).into_bytes());
    bodies.push("{\"a\":".repeat(BODY_BYTES / 8).into_bytes());
    bodies
}

/// JSON objects in which the prompt is missing, or is not a prompt.
fn no_request(route: Route) -> Vec<String> {
    let other = if route.prompt == "prompt" { "token_ids" } else { "prompt" };
    vec!["{}".to_owned(), format!("{{\"{other}\":[1],\"sampling_params\":{{}}}}")]
}

type Case = (String, String, Expected);

/// An empty field stands for the prompt.
fn case(field: &str, value: impl Into<String>, expected: Expected) -> Case {
    (field.to_owned(), value.into(), expected)
}

fn prompts(route: Route) -> Vec<Case> {
    let ids = |count: usize| format!("[{}]", vec!["7"; count].join(","));
    let too_long = || Expected::Blames("context_length_exceeded", route.prompt.to_owned());
    let mut cases = vec![
        case("", "[]", blames(route.prompt)),
        case("", ids(CONTEXT), too_long()),
        case("", ids(CONTEXT * 100), too_long()),
        case("", ids(CONTEXT - 1), Fine),
        case("", "[1023]", Fine),
        case("", "[1024]", Engine),
        case("", "[5,4294967295]", Engine),
    ];
    let text = || Expected::Blames("unsupported_parameter", "prompt".to_owned());
    if route.path == COMPLETIONS {
        let (long, many) = (format!("[[1],{}]", ids(CONTEXT)), format!("[{}]", vec!["[1]"; 1025].join(",")));
        cases.extend([
            case("", "[[]]", blames("prompt")),
            case("", "[[1],[]]", blames("prompt[1]")),
            case("", "\"some text\"", text()),
            case("", "[\"a\"]", text()),
            case("", "[[1],\"a\"]", blames("prompt")),
            case("", "[1,[2]]", blames("prompt")),
            case("", "[[1],[2,-1]]", blames("prompt")),
            case("", "[[1],[1024]]", EngineLater),
            case("", long, Expected::Blames("context_length_exceeded", "prompt[1]".to_owned())),
            case("", many, blames("prompt")),
        ]);
    }
    cases
}

fn meanings(route: Route) -> Vec<Case> {
    let sampling = |name: &str| format!("{}{name}", route.sampling);
    let inside = |name: &str, value: &str, expected| case(&sampling(name), value, expected);
    let wrong = |name: &str, value: &str| inside(name, value, blames(&sampling(name)));
    let beyond = format!("{}", SEQUENCES + 1);
    let mut cases = vec![
        wrong("n", &beyond),
        inside("n", &SEQUENCES.to_string(), Fine),
        inside("max_tokens", "4294967295", Fine),
        inside("temperature", "2", Fine),
        inside("logprobs", "20", Fine),
        inside("logprobs", "21", Engine),
        inside("logprobs", "4294967295", Engine),
        inside("allowed_token_ids", "[1010]", Engine),
        wrong("allowed_token_ids", "[]"),
        inside("logit_bias", "{\"1024\":1}", Engine),
        inside("stop_token_ids", "[]", Plain),
        wrong("stop", &format!("[{}]", vec!["\"x\""; 257].join(","))),
        wrong("stop", &format!("\"{}\"", "x".repeat(65_537))),
        wrong("structured_outputs", "{}"),
        wrong("structured_outputs", "{\"regex\":\"a\",\"choice\":[\"a\"]}"),
        wrong("structured_outputs", "{\"json_object\":false}"),
        wrong("structured_outputs.grammar", "\"  \""),
        wrong("structured_outputs.json", &format!("{}1{}", "{\"a\":".repeat(65), "}".repeat(65))),
        wrong("structured_outputs.structural_tag", "{\"structures\":[],\"triggers\":[\"a\"]}"),
        case("model", "\"nobody\"", Status(404, "model_not_found")),
        case("model", "\"\"", Status(404, "model_not_found")),
        case("model", format!("\"{}\"", "x".repeat(10_000)), Status(404, "model_not_found")),
        case("request_id", "\"\"", blames("request_id")),
        case("request_id", "\"a b\"", blames("request_id")),
        case("request_id", "\"é\"", blames("request_id")),
        case("request_id", format!("\"{}\"", "x".repeat(129)), blames("request_id")),
        case("request_id", format!("\"{}\"", "x".repeat(128)), Plain),
        case("no_such_field", "[{\"a\":null}]", Plain),
    ];
    for salt in ["", "a@b", "a/b", "a\\\\b", "a\\u0000b", &"x".repeat(129)] {
        cases.push(case("cache_salt", format!("\"{salt}\""), blames("cache_salt")));
    }
    cases.push(case("cache_salt", format!("\"{}\"", "x".repeat(128)), Plain));
    cases.extend(transfer());
    cases
}

/// Hand-offs that a protobuf Struct would change, and those that a decode engine would die of.
fn transfer() -> Vec<Case> {
    let pull = |without: &str| {
        let members = [
            ("do_remote_prefill", "true"),
            ("remote_block_ids", "[[1,2]]"),
            ("remote_engine_id", "\"e\""),
            ("remote_request_id", "\"r\""),
            ("remote_host", "\"192.0.2.1\""),
            ("remote_port", "5600"),
        ];
        let kept = members.iter().filter(|(name, _)| *name != without);
        let kept: Vec<String> = kept.map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", kept.join(","))
    };
    let mut cases = vec![
        case("kv_transfer_params", "{\"a\":9007199254740992}", blames("kv_transfer_params")),
        case("ec_transfer_params", "{\"a\":[18446744073709551615]}", blames("ec_transfer_params")),
        case("kv_transfer_params", "{\"a\":1,\"a\":2}", blames("kv_transfer_params")),
        case(
            "kv_transfer_params",
            format!("{{\"a\":{}{}}}", "[".repeat(17), "]".repeat(17)),
            blames("kv_transfer_params"),
        ),
    ];
    for member in ["remote_block_ids", "remote_engine_id", "remote_request_id", "remote_host", "remote_port"]
    {
        cases.push(case("kv_transfer_params", pull(member), blames("kv_transfer_params")));
    }
    let no_blocks = pull("").replace("[[1,2]]", "[[]]");
    cases.push(case("kv_transfer_params", no_blocks, blames("kv_transfer_params")));
    cases
}

fn formats() -> Vec<(&'static str, Expected)> {
    let wrong = || blames("response_format");
    vec![
        ("null", Plain),
        ("0", wrong()),
        ("\"json\"", wrong()),
        ("[]", wrong()),
        ("{}", wrong()),
        ("{\"type\":null}", wrong()),
        ("{\"type\":\"xml\"}", wrong()),
        ("{\"type\":\"text\"}", Plain),
        ("{\"type\":\"json_schema\"}", wrong()),
        ("{\"type\":\"json_schema\",\"json_schema\":[]}", wrong()),
        ("{\"type\":\"json_schema\",\"json_schema\":{}}", wrong()),
        ("{\"type\":\"json_schema\",\"json_schema\":{\"schema\":3}}", wrong()),
        ("{\"type\":\"structural_tag\"}", wrong()),
        ("{\"type\":\"structural_tag\",\"structures\":{},\"triggers\":[]}", wrong()),
    ]
}

#[test]
fn a_body_at_the_limit_is_within_it() {
    let longest =
        ROUTES.into_iter().flat_map(|route| probes(route, true)).map(|probe| probe.body.len()).max();
    assert!(longest.is_some_and(|bytes| bytes <= BODY_BYTES), "{longest:?}");
}
