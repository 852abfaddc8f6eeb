//! Every executed field against every kind of value, unary and streaming: who is accepted is a reviewed file.

use std::fmt::Write as _;

use expect_test::{ExpectFile, expect_file};

use super::{COMPLETIONS, GENERATE, Subject};
use crate::fields::Treatment;
use crate::testing::{bind, catalog, context};
use crate::{BindContext, Refusal, RefusalKind};

/// Values apart by spaces.
const PROBES: &str = r#"null true 0 -0 -1 -2 -2.0001 1 2 1.0 0.5 3 101 1e1 1.0001 2.0001 2147483648 4294967296
    9223372036854775808 -100000000000000000000 1e30 1e39 1e999 "" "x" "\ud800" "[]" "{}" [] [1] [-1] [1.5] [4294967296]
    ["x"] [""] [[]] [[1]] [[-1]] [[[1]]] [[1],null] [{}] [null] {} {"1":1} {"1":1,"01":2} {"1":"x"} {"1":1e39} {"x":1}
    {"-1":1} {"1.0":1}"#;

/// Fields whose meaning needs others: they have tables of their own.
const ELSEWHERE: [&str; 6] = [
    "response_format.type",
    "response_format.json_schema",
    "response_format.json_schema.schema",
    "response_format.structures",
    "response_format.triggers",
    "response_format",
];

#[track_caller]
fn check(subject: &Subject, expected: &ExpectFile) {
    let mut matrix = String::new();
    for (path, field) in subject.settable() {
        if field.treatment != Treatment::Executed || ELSEWHERE.contains(&path.as_str()) {
            continue;
        }
        let mut accepted = Vec::new();
        for probe in PROBES.split_whitespace() {
            let whole = accepts(subject, &path, &[(&path, probe)]);
            let streamed = accepts(subject, &path, &[("stream", "true"), (&path, probe)]);
            match (whole, streamed) {
                (true, true) => accepted.push(probe.to_owned()),
                (true, false) => accepted.push(format!("{probe} (unary)")),
                (false, true) => accepted.push(format!("{probe} (streaming)")),
                (false, false) => {}
            }
        }
        writeln!(matrix, "{path}: {}", accepted.join("  ")).unwrap();
    }
    expected.assert_eq(&matrix);
}

/// Whether a body is accepted. A refusal must blame the field, or a field inside it.
#[track_caller]
fn accepts(subject: &Subject, path: &str, fields: &[(&str, &str)]) -> bool {
    let body = subject.body(fields);
    match bind(subject.format, &body) {
        Ok(_) => true,
        Err(Refusal { kind, param, message }) => {
            let param = param.unwrap_or_else(|| panic!("{body} is refused without a param: {message}"));
            let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
            assert!(param.starts_with(path) || param == parent, "{body} blames {param}: {message}");
            let known = [RefusalKind::Invalid, RefusalKind::NotExpressible, RefusalKind::UnknownModel];
            assert!(known.contains(&kind), "{body} is {kind:?}");
            false
        }
    }
}

#[test]
fn a_generate_body_is_accepted_or_refused_as_listed() {
    check(&GENERATE, &expect_file!["matrix/generate.txt"]);
}

#[test]
fn a_completions_body_is_accepted_or_refused_as_listed() {
    check(&COMPLETIONS, &expect_file!["matrix/completions.txt"]);
}

#[test]
fn null_is_the_same_as_absent() {
    for subject in [&GENERATE, &COMPLETIONS] {
        let plain = bind(subject.format, &subject.body(&[])).unwrap();
        for (path, _) in subject.settable() {
            let required = ["token_ids", "sampling_params", "prompt"].contains(&path.as_str());
            let inside =
                ["structured_outputs.", "response_format."].iter().any(|parent| path.contains(parent));
            let streamed = path.starts_with("stream_options.");
            if required || inside || streamed {
                continue;
            }
            let body = subject.body(&[(&path, "null")]);
            let mut bound = bind(subject.format, &body).unwrap_or_else(|refusal| panic!("{body}: {refusal}"));
            bound.requests[0].native_sampling.clone_from(&plain.requests[0].native_sampling);
            assert_eq!(bound.requests, plain.requests, "{body}");
            assert_eq!(bound.ignored, Vec::<String>::new(), "{body}");
        }
    }
}

#[test]
fn a_refused_field_is_named_unless_it_asks_for_nothing() {
    for subject in [&GENERATE, &COMPLETIONS] {
        for (path, field) in subject.settable() {
            let Treatment::Refused { reason, neutral } = field.treatment else { continue };
            let refusal = bind(subject.format, &subject.body(&[(&path, "[[7]]")])).err().unwrap();
            assert_eq!(refusal.kind, RefusalKind::NotExpressible, "{} {path}", subject.name);
            assert_eq!(refusal.param.as_deref(), Some(path.as_str()));
            assert_eq!(refusal.message, format!("is not supported: {reason}"));
            if !path.contains("structured_outputs.") && !path.contains("response_format.") {
                for value in neutral {
                    assert!(bind(subject.format, &subject.body(&[(&path, value)])).is_ok(), "{path} {value}");
                }
            }
        }
    }
}

#[test]
fn an_ignored_field_changes_nothing_and_is_not_reported_even_when_strict() {
    let catalog = catalog();
    for subject in [&GENERATE, &COMPLETIONS] {
        for (path, field) in subject.settable() {
            if field.treatment == Treatment::Ignored && !path.contains("response_format.") {
                let context = BindContext { strict: true, ..context(&catalog) };
                let body = subject.body(&[(&path, "true")]);
                let mut bound = subject.format.bind(body.as_bytes(), &context).unwrap();
                assert_eq!(bound.ignored, Vec::<String>::new(), "{} {path}", subject.name);
                let plain = bind(subject.format, &subject.body(&[])).unwrap();
                bound.requests[0].native_sampling.clone_from(&plain.requests[0].native_sampling);
                assert_eq!(bound.requests, plain.requests, "{} {path}", subject.name);
            }
        }
    }
}
