//! What is said of a bad body, of fields that exclude each other, and of unknown names.

use tito_types::{Catalog, CatalogModel};

use super::{COMPLETIONS, GENERATE, Subject};
use crate::testing::{bind, catalog, context, model, outcome, rows};
use crate::{BindContext, NotMigratable, RefusalKind};

/// Binds the least body with these fields, unary and streaming, and compares what is said.
#[track_caller]
fn check(fields: &[(&str, &str)], expected: &str) {
    let unary = bind(GENERATE.format, &GENERATE.body(fields));
    assert_eq!(outcome(&unary), expected, "{fields:?}");
    let streamed: Vec<_> = [("stream", "true")].iter().chain(fields).copied().collect();
    assert_eq!(outcome(&bind(GENERATE.format, &GENERATE.body(&streamed))), expected, "streaming {fields:?}");
}

#[test]
fn a_body_that_is_no_json_object_is_bad_json() {
    let deep = format!("{{\"token_ids\":{}", "[".repeat(100_000));
    let words = r#"{nope {"token_ids":[1 [1] "x" 12 null true [{}] {] {a:1} {"a"} {"a":} {"a":+1} {"a":.5} {"a":1}x {},
        {"a":NaN} {"a":Infinity} {"a":01} {"\ud800":1} {'a':1} {"a":1,} token_ids=1&token_ids=2"#;
    let bytes: [&[u8]; 7] =
        [b"", b" ", b"// c\n{}", b"{} {}", b"{\"a\":\"\n\"}", b"\xef\xbb\xbf{}", b"{\"a\":\"\xff\"}"];
    let cases = words.split_whitespace().map(str::as_bytes).chain(bytes).chain([&b"\0"[..], deep.as_bytes()]);
    let catalog = catalog();
    for body in cases {
        for subject in [&GENERATE, &COMPLETIONS] {
            let refusal = subject.format.bind(body, &context(&catalog)).err().unwrap();
            let shown = String::from_utf8_lossy(&body[..body.len().min(40)]);
            assert_eq!((refusal.kind, refusal.param), (RefusalKind::BadJson, None), "{shown}");
        }
    }
}

#[test]
fn hostile_nesting_and_size_are_refused_not_followed() {
    let list = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    let not_an_id = "must be a token id: a whole number from 0 to 4294967295, got a list";
    check(&[("token_ids", &list)], &format!("Invalid token_ids[0]: {not_an_id}"));
    check(&[("unknown", &list)], "ok");
    check(&[("sampling_params.unknown", &list)], "ok");
    for (path, levels_max) in [("kv_transfer_params", 16), ("sampling_params.structured_outputs.json", 64)] {
        let nest = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        let deeper = format!("Invalid {path}: must nest at most {levels_max} levels deep");
        check(&[(path, &nest(levels_max))], "ok");
        check(&[(path, &nest(levels_max + 1))], &deeper);
        check(&[(path, &nest(200_000))], &deeper);
    }
    let members = |prefix: &str| {
        let members: Vec<_> = (0..300).map(|at| format!("\"{prefix}{at}\":1")).collect();
        format!("{{{}}}", members.join(","))
    };
    assert_eq!(bind(GENERATE.format, &members("k")).err().unwrap().kind, RefusalKind::BadJson);
    check(&[("sampling_params.logit_bias", &members(""))], "ok");
}

#[test]
fn choices_are_bounded_whatever_an_engine_claims_to_run() {
    let claims = CatalogModel { n_max: u32::MAX, ..model(&["m"]) };
    let catalog = Catalog { models: vec![claims], reasons: Vec::new() };
    for (subject, path) in [(&GENERATE, "sampling_params.n"), (&COMPLETIONS, "n")] {
        let say = |n: &str| {
            outcome(&subject.format.bind(subject.body(&[(path, n)]).as_bytes(), &context(&catalog)))
        };
        assert_eq!(say("4096"), "ok", "{path}");
        for n in ["4097", "4294967295"] {
            let expected =
                format!("Invalid {path}: must be at most 4096 over all prompts, got {n} for each of 1");
            assert_eq!(say(n), expected);
        }
    }
}

#[test]
fn a_key_given_twice_is_refused() {
    for [members, expected] in rows(
        r#"
        "token_ids":[2],"sampling_params":{} | token_ids: is given twice
        "sampling_params":{"n":1,"n":null} | sampling_params.n: is given twice
        "sampling_params":{},"x":1,"\u0078":1 | x: is given twice
        "sampling_params":{"logit_bias":{"5":1,"05":2}} | sampling_params.logit_bias: names token 5 twice
        "sampling_params":{},"kv_transfer_params":{"a":1,"a":2} | kv_transfer_params: must not name a key twice
        "#,
    ) {
        let body = format!("{{\"token_ids\":[1],{members}}}");
        assert_eq!(outcome(&bind(GENERATE.format, &body)), format!("Invalid {expected}"), "{body}");
    }
}

#[test]
fn a_bad_value_is_named_with_what_was_expected() {
    for [path, json, expected] in rows(
        r#"
        token_ids | [] | must hold at least one token id
        sampling_params | null | is required
        sampling_params.temperature | 3 | must be a number from 0 to 2, got 3
        sampling_params.temperature | 2.0001 | must be a number from 0 to 2, got 2.0001
        sampling_params.temperature | "hot" | must be a number from 0 to 2, got a string
        sampling_params.top_p | 0 | must be a number above 0 and at most 1, got 0
        sampling_params.top_p | 1e-60 | must be a number above 0 and at most 1, got 1e-60
        sampling_params.top_k | -2 | must be a whole number from -1 to 4294967295, got -2
        sampling_params.max_tokens | 0 | must be a whole number from 1 to 4294967295, got 0
        sampling_params.max_tokens | 1.0 | must be a whole number from 1 to 4294967295, got 1.0
        sampling_params.logprobs | -2 | must be a whole number from -1 to 4294967295, got -2
        sampling_params.n | 9 | must be at most 8 for this model, got 9
        sampling_params.routed_experts_prompt_start | 4 | must be at most the prompt length, 3; got 4
        sampling_params.allowed_token_ids | [] | must not be empty: no token could be drawn
        sampling_params.thinking_token_budget | -2 | must be a whole number from -1 to 9223372036854775807, got -2
        priority | 2147483648 | must be a whole number from -2147483648 to 2147483647, got 2147483648
        priority | 99999999999999999999999999999999999 | must be a whole number from -2147483648 to 2147483647, got 99999999999999999999999999999999…
        request_id | "has space" | must be 1 to 128 visible ASCII characters
        cache_salt | "" | must be 1 to 128 characters, none of them @, /, \ or NUL
        "#,
    ) {
        check(&[(path, json)], &format!("Invalid {path}: {expected}"));
    }
}

#[test]
fn a_bad_element_is_named_by_its_position() {
    for [path, json, at] in rows(
        r#"
        token_ids | [1,2,-1] | [2]
        token_ids | [1,2.0] | [1]
        token_ids | [4294967296] | [0]
        token_ids | [1,"2"] | [1]
        sampling_params.stop | ["a",""] | [1]
        sampling_params.stop | ["a",1] | [1]
        sampling_params.stop_token_ids | [null] | [0]
        sampling_params.bad_words_token_ids | [[1],[]] | [1]
        sampling_params.bad_words_token_ids | [[1],[2,-3]] | [1][1]
        sampling_params.bad_words_token_ids | [1] | [0]
        sampling_params.logit_bias | {"5":1e39} | .5
        sampling_params.logit_bias | {"+5":1} |
        "#,
    ) {
        let refusal = bind(GENERATE.format, &GENERATE.body(&[(path, json)])).err().unwrap();
        assert_eq!(
            (refusal.kind, refusal.param),
            (RefusalKind::Invalid, Some(format!("{path}{at}"))),
            "{json}"
        );
    }
}

#[test]
fn fields_that_exclude_each_other_are_refused() {
    for [inner, expected] in rows(
        r#"
        "max_tokens":6,"min_tokens":9 | min_tokens: must be at most max_tokens, 6; got 9
        "seed":9223372036854775807,"n":2 | seed: must leave room for n = 2 seeds below 9223372036854775807
        "stop":"a","detokenize":false | detokenize: must be true with stop strings: they are found in text
        "logprobs":1,"logprob_token_ids":[5,6] | logprobs: must equal the number of logprob_token_ids, 2; got 1
        "logprob_token_ids":[] | logprob_token_ids: must hold 1 to 128 token ids, got 0
        "#,
    ) {
        check(
            &[("sampling_params", &format!("{{{inner}}}"))],
            &format!("Invalid sampling_params.{expected}"),
        );
    }
    for inner in [
        r#""max_tokens":6,"min_tokens":6"#,
        r#""seed":9223372036854775807,"n":1"#,
        r#""stop":[],"detokenize":false"#,
        r#""logprobs":2,"logprob_token_ids":[5,6]"#,
    ] {
        check(&[("sampling_params", &format!("{{{inner}}}"))], "ok");
    }
    let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
    for (field, json, expected) in [
        ("stop", list("\"x\"", 257), "must hold at most 256 strings, got 257"),
        ("stop", format!("\"{}\"", "x".repeat(65_537)), "must hold at most 65536 bytes, got 65537"),
        ("logprob_token_ids", list("1", 129), "must hold 1 to 128 token ids, got 129"),
    ] {
        let path = format!("sampling_params.{field}");
        check(&[(&path, &json)], &format!("Invalid {path}: {expected}"));
    }
    let salts = |inner| [("cache_salt", "\"a\""), ("sampling_params.cache_salt", inner)];
    let differ = "Invalid sampling_params.cache_salt: must equal cache_salt where both are given";
    check(&salts("\"b\""), differ);
    check(&salts("\"a\""), "ok");
    for path in ["kv_transfer_params", "ec_transfer_params"] {
        let expected = format!("Invalid {path}: is only possible with one prompt and n = 1");
        check(&[(path, "{}"), ("sampling_params.n", "2")], &expected);
    }
}

#[test]
fn streams_and_whole_replies_differ_where_they_must() {
    for [stream, path, json, expected] in rows(
        r#"
        true | sampling_params.prompt_logprobs | 0 | Invalid sampling_params.prompt_logprobs: is not possible with stream = true
        false | stream_options | {} | Invalid stream_options: is only possible with stream = true
        true | stream_options | {} | ok
        true | stream_options | {"continuous_usage_stats":true} | Invalid stream_options.continuous_usage_stats: needs include_usage = true
        "#,
    ) {
        let body = GENERATE.body(&[("stream", stream), (path, json)]);
        assert_eq!(outcome(&bind(GENERATE.format, &body)), expected, "{body}");
    }
}

#[test]
fn salts_are_short_and_free_of_separators() {
    let (fits, long) = (format!("\"{}\"", "é".repeat(128)), format!("\"{}\"", "x".repeat(129)));
    let valid = ["\"a\"", &fits, "\"a b\""].map(|salt| (salt, true));
    let invalid = [&long, "\"\"", r#""a@b""#, r#""a/b""#, r#""a\\b""#, r#""a\u0000b""#, "1"];
    for (salt, valid) in valid.into_iter().chain(invalid.map(|salt| (salt, false))) {
        for (subject, path) in [
            (&GENERATE, "cache_salt"),
            (&GENERATE, "sampling_params.cache_salt"),
            (&COMPLETIONS, "cache_salt"),
        ] {
            assert_eq!(bind(subject.format, &subject.body(&[(path, salt)])).is_ok(), valid, "{path} {salt}");
        }
    }
}

#[test]
fn a_prompt_must_leave_room_in_the_context() {
    let ids = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    check(&[("token_ids", &ids(99))], "ok");
    let said = "ContextLength token_ids: this model's maximum context length is 100 tokens; the prompt has";
    check(&[("token_ids", &ids(100))], &format!("{said} 100"));
    check(&[("token_ids", &ids(5000))], &format!("{said} 5000"));
}

#[test]
fn values_are_checked_before_the_model_is_looked_up() {
    let unknown = ("model", "\"nope\"");
    check(&[unknown], "UnknownModel model: the model `nope` does not exist");
    check(&[unknown, ("token_ids", "[]")], "Invalid token_ids: must hold at least one token id");
    let long = format!("[{}]", vec!["1"; 500].join(","));
    check(&[unknown, ("token_ids", &long)], "UnknownModel model: the model `nope` does not exist");
}

#[test]
fn a_model_must_be_named_when_there_are_several() {
    let say = |models: &[CatalogModel], name: &str| {
        let catalog = Catalog { models: models.to_vec(), reasons: vec!["down".to_owned()] };
        let body = GENERATE.body(&[("model", name)]);
        outcome(&GENERATE.format.bind(body.as_bytes(), &context(&catalog)))
    };
    let away = [CatalogModel { routable: false, ..model(&["away"]) }];
    let several = [model(&["a", "b"]), model(&["c"])];
    assert_eq!(say(&several, "null"), "Invalid model: is required, as several models are served: a, c");
    assert_eq!(say(&several, "\"b\""), "ok");
    assert_eq!(say(&away, "\"away\""), "ModelUnavailable model: no engine can take model `away` now");
    for nothing in [&away[..], &[]] {
        assert_eq!(say(nothing, "null"), "ModelUnavailable model: no engine can take a request now");
    }
}

#[test]
fn unknown_fields_are_reported_or_refused() {
    let ignored = |body: &str| bind(GENERATE.format, body).unwrap().ignored;
    let body = r#"{"token_ids":[1],"sampling_params":{"yyy":2,"structured_outputs":{"json":{},"q":1}},"zzz":null,
        "stream":true,"stream_options":{"w":1}}"#;
    assert_eq!(
        ignored(body),
        ["zzz", "sampling_params.yyy", "sampling_params.structured_outputs.q", "stream_options.w"]
    );
    let nasty = r#"{"token_ids":[1],"sampling_params":{},"a\r\nb,c é":1}"#;
    assert_eq!(ignored(nasty), ["a??b?c??"]);
    let many: Vec<_> = (0..200).map(|at| format!("\"{at:0>100}\":1")).collect();
    let many = ignored(&format!("{{\"token_ids\":[1],\"sampling_params\":{{}},{}}}", many.join(",")));
    assert_eq!((many.len(), many.iter().map(String::len).max()), (32, Some(64)));
    let start = r#"{"token_ids":[1],"sampling_params":{"routed_experts_prompt_start":1}}"#;
    assert_eq!(ignored(start), ["sampling_params.routed_experts_prompt_start"]);
    let catalog = catalog();
    let strict = BindContext { strict: true, ..context(&catalog) };
    let say = |body: &str| outcome(&GENERATE.format.bind(body.as_bytes(), &strict));
    assert_eq!(say(body), "Invalid zzz: is not a known field");
    assert_eq!(
        say(r#"{"token_ids":[1],"sampling_params":{"yyy":2}}"#),
        "Invalid sampling_params.yyy: is not a known field"
    );
    assert_eq!(say(r#"{"token_ids":[1],"sampling_params":{"output_kind":2}}"#), "ok");
    assert_eq!(say(start), "ok");
}

#[test]
fn a_request_migrates_unless_the_client_could_tell() {
    let admission = |subject: &Subject, fields: &[(&str, &str)]| {
        bind(subject.format, &subject.body(fields)).unwrap().migration
    };
    for (field, value, expected) in [
        ("max_tokens", "9", Ok(())),
        ("stop_token_ids", "[1]", Ok(())),
        ("repetition_penalty", "1.5", Ok(())),
        ("presence_penalty", "0", Ok(())),
        ("bad_words_token_ids", "[[1]]", Ok(())),
        ("thinking_token_budget", "-1", Ok(())),
        ("n", "2", Err(NotMigratable::SeveralChoices)),
        ("seed", "1", Err(NotMigratable::Seed)),
        ("presence_penalty", "0.5", Err(NotMigratable::Penalties)),
        ("frequency_penalty", "-0.5", Err(NotMigratable::Penalties)),
        ("structured_outputs", "{\"regex\":\"a\"}", Err(NotMigratable::StructuredOutput)),
        ("stop", "\"a\"", Err(NotMigratable::StopStrings)),
        ("bad_words_token_ids", "[[1,2]]", Err(NotMigratable::BadWords)),
        ("thinking_token_budget", "0", Err(NotMigratable::ThinkingBudget)),
        ("prompt_logprobs", "0", Err(NotMigratable::PromptLogprobs)),
    ] {
        let path = format!("sampling_params.{field}");
        assert_eq!(admission(&GENERATE, &[(&path, value)]), expected, "{path} {value}");
        assert_eq!(admission(&COMPLETIONS, &[(field, value)]), expected, "{field} {value}");
    }
    let greedy = [("sampling_params", "{\"seed\":1,\"temperature\":0}")];
    assert_eq!(admission(&GENERATE, &greedy), Ok(()));
    assert_eq!(admission(&GENERATE, &[("kv_transfer_params", "{}")]), Err(NotMigratable::TransferParams));
    assert_eq!(admission(&COMPLETIONS, &[("prompt", "[[1],[2]]")]), Err(NotMigratable::SeveralChoices));
}
