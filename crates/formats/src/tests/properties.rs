//! Whatever arrives: no body panics, and a reply does not depend on how the output was cut into deltas.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use tito_types::{Delta, StopCause, TokenLogprob};

use super::{COMPLETIONS, GENERATE, Subject};
use crate::testing::{bind, catalog, context, end, events, fold, logprob, prompt, stream};

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        any::<f64>().prop_map(|value| serde_json::json!(value).to_string()),
        "[0-9]{1,25}(\\.[0-9]{1,3})?(e-?[0-9]{1,4})?",
        any::<String>().prop_map(|text| serde_json::json!(text).to_string()),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(","))),
            vec((name(), inner), 0..6).prop_map(|members| object(&members)),
        ]
    })
}

/// A key: usually one that some object knows.
fn name() -> impl Strategy<Value = String> {
    let known: Vec<String> = [&GENERATE, &COMPLETIONS]
        .iter()
        .flat_map(|subject| subject.fields())
        .map(|(_, field)| field.name.to_owned())
        .collect();
    prop_oneof![4 => proptest::sample::select(known), 1 => any::<String>()]
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<_> =
        members.iter().map(|(name, json)| format!("{}:{json}", serde_json::json!(name))).collect();
    format!("{{{}}}", members.join(","))
}

/// One choice's output and where it is cut.
#[derive(Debug, Clone)]
struct Output {
    tokens: Vec<(u32, String, TokenLogprob)>,
    cuts: Vec<bool>,
    stop: Option<StopCause>,
}

fn output() -> impl Strategy<Value = Output> {
    let rivals = vec((0..40_u32, -20_f32..0.0), 0..4);
    let token = (0..40_u32, ".{0,3}", -20_f32..0.0, rivals)
        .prop_map(|(token, text, value, rivals)| (token, text, logprob(token, value, 2, &rivals)));
    let stop = prop_oneof![
        Just(None),
        any::<u32>().prop_map(|token| Some(StopCause::Token(token))),
        any::<String>().prop_map(|text| Some(StopCause::Text(text))),
    ];
    (vec(token, 0..12), vec(any::<bool>(), 12), stop).prop_map(|(tokens, cuts, stop)| Output {
        tokens,
        cuts,
        stop,
    })
}

impl Output {
    /// The deltas of choice `index`, cut as `cuts` says, or whole.
    fn deltas(&self, index: u32, cut: bool) -> Vec<Delta> {
        let mut deltas = vec![Delta { index, ..Delta::default() }];
        for (at, (token, text, row)) in self.tokens.iter().enumerate() {
            if cut && self.cuts[at] {
                deltas.push(Delta { index, ..Delta::default() });
            }
            let delta = deltas.last_mut().unwrap();
            delta.token_ids.push(*token);
            delta.text.push_str(text);
            delta.logprobs.push(row.clone());
        }
        let mut last = end(index, self.tokens.len() as u32);
        last.finish.as_mut().unwrap().stop.clone_from(&self.stop);
        deltas.last_mut().unwrap().finish = last.finish;
        if index == 0 {
            deltas[0].prompt = Some(prompt(&[1, 2, 3], Vec::new()));
        }
        deltas
    }
}

fn exchange(subject: &Subject, stream: bool) -> Box<dyn crate::Exchange> {
    let fields: &[_] = match subject.name {
        "generate" => &[("sampling_params", "{\"n\":2,\"logprobs\":2}")],
        _ => &[("n", "2"), ("logprobs", "2")],
    };
    let common = [("return_token_ids", "true"), ("stream", if stream { "true" } else { "false" })];
    bind(subject.format, &subject.body(&[fields, &common].concat())).unwrap().exchange
}

/// Two choices' deltas, taken in turns.
fn interleaved(outputs: &[Output; 2], cut: bool) -> Vec<Delta> {
    let mut queues = [outputs[0].deltas(0, cut).into_iter(), outputs[1].deltas(1, cut).into_iter()];
    let mut deltas = Vec::new();
    loop {
        let before = deltas.len();
        for queue in &mut queues {
            deltas.extend(queue.next());
        }
        if deltas.len() == before {
            return deltas;
        }
    }
}

/// Joins a list or string with what a chunk adds to it.
fn join(whole: &mut Value, chunk: &Value) {
    match (whole, chunk) {
        (Value::Array(whole), Value::Array(chunk)) => whole.extend(chunk.iter().cloned()),
        (Value::String(whole), Value::String(chunk)) => whole.push_str(chunk),
        (Value::Object(whole), Value::Object(chunk)) => {
            for (name, value) in chunk {
                join(whole.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (whole @ Value::Null, chunk) => *whole = chunk.clone(),
        (_, Value::Null) => {}
        (whole, chunk) => assert_eq!(*whole, *chunk),
    }
}

fn check_split(subject: &Subject, outputs: &[Output; 2]) {
    let whole = fold(&mut *exchange(subject, false), interleaved(outputs, false)).unwrap();
    let pieces = fold(&mut *exchange(subject, false), interleaved(outputs, true)).unwrap();
    assert_eq!(whole, pieces);
    let frames = stream(&mut *exchange(subject, true), interleaved(outputs, true)).unwrap();
    let mut joined = [Value::Null, Value::Null];
    for event in events(&frames) {
        for choice in event["choices"].as_array().unwrap() {
            let index = choice["index"].as_u64().unwrap() as usize;
            join(&mut joined[index], choice);
        }
    }
    let whole: Value = serde_json::from_str(&whole).unwrap();
    for (index, choice) in joined.iter().enumerate() {
        let whole = &whole["choices"][index];
        for name in ["token_ids", "text", "logprobs", "finish_reason", "stop_reason"] {
            let [joined, whole] = [choice, whole].map(|choice| choice.get(name).unwrap_or(&Value::Null));
            assert_eq!(joined, whole, "{name}");
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(body in vec(any::<u8>(), 0..200)) {
        for subject in [&GENERATE, &COMPLETIONS] {
            let _ = subject.format.bind(&body, &context(&catalog()));
        }
    }

    #[test]
    fn arbitrary_json_never_panics(members in vec((name(), json()), 0..8), sampling in vec((name(), json()), 0..4)) {
        for subject in [&GENERATE, &COMPLETIONS] {
            let mut members = members.clone();
            members.push(("prompt".to_owned(), "[1]".to_owned()));
            members.push(("token_ids".to_owned(), "[1]".to_owned()));
            members.push(("sampling_params".to_owned(), object(&sampling)));
            members.dedup_by(|one, other| one.0 == other.0);
            let _ = bind(subject.format, &object(&members));
        }
    }

    #[test]
    fn a_reply_does_not_depend_on_how_its_output_was_cut(first in output(), second in output()) {
        for subject in [&GENERATE, &COMPLETIONS] {
            check_split(subject, &[first.clone(), second.clone()]);
        }
    }
}
