//! Wrong types, nulls, and the numbers at the edges, for every executed field.

use std::collections::BTreeSet;

use super::fields::{COMPLETIONS, ENVELOPE, GENERATE, Kind, SAMPLING, Take};
use super::{Expected, Probe, ROUTES, Route, media};
use crate::docs::{self, Treatment};
use crate::fields::param;

/// Fields that must be there.
const REQUIRED: [&str; 8] = [
    "token_ids",
    "sampling_params",
    "prompt",
    "features.mm_placeholders",
    "features.mm_placeholders.*[].offset",
    "features.mm_placeholders.*[].length",
    "content_parts[].type",
    "content_parts[].url",
];

fn fields(route: Route) -> Vec<(String, Kind)> {
    let sampling = SAMPLING.iter().map(|(name, kind)| (format!("{}{name}", route.sampling), *kind));
    let own = if route.sampling.is_empty() { COMPLETIONS } else { GENERATE };
    let others = ENVELOPE.iter().chain(own).map(|(name, kind)| ((*name).to_owned(), *kind));
    sampling.chain(others).collect()
}

/// Every probe of every field.
pub(super) fn probes(route: Route, stream: bool) -> Vec<Probe> {
    let mut probes = Vec::new();
    for (field, kind) in fields(route) {
        // It decides the delivery itself.
        let stream = stream && field != "stream";
        if field.starts_with("stream_options") && !stream {
            continue;
        }
        let with = |value, expected| {
            let fields = [&media::beside(&field)[..], &[(field.as_str(), value)]].concat();
            route.probe(stream, &fields, expected)
        };
        let refused = |value| with(value, Expected::Blames("invalid_value", param(&field)));
        probes.extend(wrong_types(kind).iter().map(|value| refused(value)));
        probes.extend(numbers(kind).into_iter().map(|(value, take)| {
            let expected = expected_of(&field, take, stream);
            with(value, expected)
        }));
        probes.push(null(route, stream, &field));
    }
    probes
}

fn expected_of(field: &str, take: Take, stream: bool) -> Expected {
    let never_streamed = stream && field.ends_with("prompt_logprobs");
    match take {
        Take::No => Expected::Blames("invalid_value", param(field)),
        Take::Yes | Take::NotTheEngine if never_streamed => {
            Expected::Blames("invalid_value", field.to_owned())
        }
        Take::Yes => Expected::Fine,
        Take::NotTheEngine => Expected::Engine,
    }
}

fn null(route: Route, stream: bool, field: &str) -> Probe {
    let beside = media::beside(field);
    let fields = [&beside[..], &[(field, "null")]].concat();
    if REQUIRED.contains(&field) {
        return route.probe(stream, &fields, Expected::Blames("invalid_value", param(field)));
    }
    if !beside.is_empty() {
        return route.probe(stream, &fields, media::without(field));
    }
    let parent =
        field.rsplit_once('.').map(|(parent, _)| parent).filter(|name| name.ends_with("structured_outputs"));
    if let Some(parent) = parent {
        let (regex, number) = (format!("{parent}.regex"), format!("{parent}.json_object"));
        let other = if field == regex { (number.as_str(), "true") } else { (regex.as_str(), "\"[0-9]+\"") };
        return route.probe(stream, &[other, (field, "null")], Expected::Fine);
    }
    let spent = field.ends_with("max_tokens");
    let expected = if spent { Expected::Fine } else { Expected::Plain };
    route.probe(stream, &fields, expected)
}

fn wrong_types(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Flag => &["0", "1", "\"true\"", "[]", "{}"],
        Kind::Text => &["0", "true", "[]", "{}", "[\"x\"]", "\"\\ud800\""],
        Kind::Whole { .. } => &["\"1\"", "true", "[]", "{}", "1.0", "1.5", "1e1", "1e999", "[1]"],
        Kind::Number { .. } => &["\"1\"", "true", "[]", "{}", "1e999", "-1e999", "[1]"],
        Kind::Ids => &[
            "0",
            "true",
            "{}",
            "[true]",
            "[\"1\"]",
            "[1.5]",
            "[-1]",
            "[4294967296]",
            "[null]",
            "[1e999]",
            "[[[1]]]",
            "{\"0\":1}",
        ],
        Kind::Prompts => &[
            "0",
            "true",
            "{}",
            "[true]",
            "[1.5]",
            "[-1]",
            "[4294967296]",
            "[null]",
            "[1e999]",
            "[[[1]]]",
            "[[1.5]]",
            "[[\"1\"]]",
            "{\"0\":1}",
        ],
        Kind::IdLists => &["0", "\"x\"", "{}", "[1]", "[[]]", "[[\"a\"]]", "[[-1]]", "[[1],null]"],
        Kind::Strings => &["0", "true", "{}", "[0]", "[null]", "[\"\"]", "\"\"", "[[\"x\"]]"],
        Kind::StringList => &["0", "true", "{}", "[0]", "[null]", "[]", "\"x\"", "[[\"x\"]]"],
        Kind::Biases => &[
            "0",
            "\"x\"",
            "[]",
            "[[7,1]]",
            "{\"x\":1}",
            "{\"-1\":1}",
            "{\"+1\":1}",
            "{\"1.0\":1}",
            "{\"4294967296\":1}",
            "{\"7\":\"x\"}",
            "{\"7\":null}",
            "{\"7\":1e39}",
            "{\"7\":1,\"07\":2}",
        ],
        Kind::Schema => &["0", "true", "\"x\"", "\"[]\"", "[]", "[{}]", "\"{\""],
        Kind::Mask => &[
            "0",
            "true",
            "\"x\"",
            "{}",
            "[]",
            "[1,0]",
            "[null,true]",
            "[\"true\",true]",
            "[true]",
            "[true,true,true]",
            "[false,false]",
        ],
        Kind::Parts => &["0", "true", "\"x\"", "{}", "[0]", "[null]", "[[]]", "[\"x\"]", "[{}]"],
        Kind::Object | Kind::Holder => &["0", "true", "\"x\"", "\"{}\"", "[]", "[{}]"],
    }
}

fn numbers(kind: Kind) -> Vec<(&'static str, Take)> {
    match kind {
        Kind::Whole { zero, minus_one, huge } | Kind::Number { zero, minus_one, huge } => vec![
            ("0", zero),
            ("-1", minus_one),
            (huge, Take::No),
            ("100000000000000000000", if huge == "1e39" { Take::Yes } else { Take::No }),
            ("-100000000000000000000", Take::No),
        ],
        _ => Vec::new(),
    }
}

#[test]
fn every_executed_row_of_the_docs_is_tried() {
    for (route, rows) in ROUTES.into_iter().zip([docs::generate(), docs::completions()]) {
        let documented: BTreeSet<String> = docs::names(&rows, Treatment::Executed)
            .into_iter()
            .filter(|field| !field.starts_with("response_format"))
            .map(str::to_owned)
            .collect();
        let tried: BTreeSet<String> = fields(route).into_iter().map(|(field, _)| field).collect();
        assert_eq!(documented, tried, "{}", route.path);
    }
}
