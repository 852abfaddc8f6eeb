//! Every field of the docs: the message that reaches the engine, the refusal, or the silence.

mod common;
mod completions;
mod generate;
mod headers;
mod media;
mod untaken;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::docs::{self, Treatment};
use crate::harness::{Entry, MockEngine, Serve};

/// A request with one field, and what that field changes in the message.
pub(crate) struct Case {
    /// The row of the docs.
    field: String,
    value: Value,
    /// Other fields that the field needs, and that are in the plain request too.
    with: Vec<(String, Value)>,
    /// JSON pointers into the message, and what is there instead; null: nothing.
    changes: Vec<(&'static str, Value)>,
    /// The message as often as the field asks for it.
    messages: usize,
    /// Whether it can be asked for with a stream, and without.
    deliveries: &'static [bool],
}

const BOTH: &[bool] = &[false, true];
const UNARY: &[bool] = &[false];
const STREAM: &[bool] = &[true];

impl Case {
    fn new(field: &str, value: Value, changes: Vec<(&'static str, Value)>) -> Self {
        let field = field.to_owned();
        Self { field, value, with: Vec::new(), changes, messages: 1, deliveries: BOTH }
    }

    fn with(mut self, field: &str, value: Value) -> Self {
        self.with.push((field.to_owned(), value));
        self
    }

    fn messages(self, messages: usize) -> Self {
        Self { messages, ..self }
    }

    fn only(self, deliveries: &'static [bool]) -> Self {
        Self { deliveries, ..self }
    }

    /// The same field one level down.
    fn below(mut self, parent: &str) -> Self {
        let inside = |field: &str| format!("{parent}.{field}");
        self.field = inside(&self.field);
        self.with.iter_mut().for_each(|(field, _)| *field = inside(field));
        self
    }
}

/// A route, its smallest body and its cases.
pub(crate) struct Subject {
    pub(crate) path: &'static str,
    pub(crate) plain: Value,
    pub(crate) cases: Vec<Case>,
    pub(crate) rows: Vec<docs::Row>,
}

pub(crate) fn subjects() -> [Subject; 2] {
    [generate::subject(), completions::subject()]
}

/// Sets `a.b[].c` in a body, making the objects and lists on the way.
pub(crate) fn set(body: &mut Value, field: &str, value: &Value) {
    let mut at = body;
    for step in param(field).split('.') {
        let (name, listed) = step.strip_suffix("[0]").map_or((step, false), |name| (name, true));
        if at.is_null() {
            *at = json!({});
        }
        let fields = at.as_object_mut().unwrap_or_else(|| panic!("{field} is inside no object"));
        at = fields.entry(name).or_insert(Value::Null);
        if listed {
            if at.is_null() {
                *at = json!([null]);
            }
            at = &mut at[0];
        }
    }
    *at = value.clone();
}

/// The JSON path that stands for a row of the docs: of lists the first entry, of modalities `image`.
pub(crate) fn param(field: &str) -> String {
    field.replace('*', "image").replace("[]", "[0]")
}

/// Sets or removes what a JSON pointer points at.
fn change(message: &mut Value, pointer: &str, value: &Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let mut at = message;
    for step in parent.split('/').skip(1) {
        at = at.as_object_mut().unwrap().entry(step).or_insert_with(|| json!({}));
    }
    let fields = at.as_object_mut().unwrap();
    if value.is_null() {
        fields.shift_remove(name);
    } else {
        fields.insert(name.to_owned(), value.clone());
    }
}

/// JSON to be read in a failure's message: its long strings, such as tensors, are cut.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    let parts: Vec<&str> = text.split('"').map(|part| part.get(..100).unwrap_or(part)).collect();
    parts.join("\"")
}

/// Sends a body and returns the messages that reached the engine.
async fn messages(serve: &Serve, engine: &MockEngine, path: &str, body: &Value) -> Vec<Value> {
    engine.forget().await;
    let reply = serve.post(path, body).send().await;
    assert_eq!(reply.status, 200, "{}: {}", shown(body), reply.text());
    let stream = body["stream"] == json!(true);
    let kind = if stream { "text/event-stream" } else { "application/json" };
    assert_eq!(reply.header("content-type"), Some(kind), "{}", shown(body));
    assert!(reply.error_code().is_none(), "{}: {}", shown(body), reply.text());
    engine.journal().await.iter().map(Entry::message).collect()
}

async fn check(serve: &Serve, engine: &MockEngine, subject: &Subject, case: &Case) {
    for stream in case.deliveries {
        let mut body = subject.plain.clone();
        set(&mut body, "stream", &json!(stream));
        for (field, value) in &case.with {
            set(&mut body, field, value);
        }
        let plain = messages(serve, engine, subject.path, &body).await;
        set(&mut body, &case.field, &case.value);
        let found = messages(serve, engine, subject.path, &body).await;
        let mut expected = plain[0].clone();
        for (pointer, value) in &case.changes {
            change(&mut expected, pointer, value);
        }
        assert_eq!(plain.len(), 1, "{}", case.field);
        let (expected, found) = (json!(vec![expected; case.messages]), json!(found));
        assert!(
            expected == found,
            "{}: {}\nexpected {}\nfound {}",
            case.field,
            shown(&body),
            shown(&expected),
            shown(&found),
        );
    }
}

/// An engine that takes everything the tables ask for.
async fn engine() -> MockEngine {
    let names = ["--served-model-name", "m", "alias"];
    MockEngine::start(&[&names[..], &["--kv-connector", "--multimodal", "--max-model-len", "256"]].concat())
        .await
}

#[tokio::test]
async fn every_executed_field_reaches_the_engine_as_its_row_says() {
    let engine = engine().await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    for subject in subjects() {
        for case in &subject.cases {
            check(&serve, &engine, &subject, case).await;
        }
    }
}

#[test]
fn every_executed_row_of_the_docs_has_a_case() {
    for subject in subjects() {
        let documented: BTreeSet<&str> =
            docs::names(&subject.rows, Treatment::Executed).into_iter().collect();
        let tried: BTreeSet<&str> = subject.cases.iter().map(|case| case.field.as_str()).collect();
        assert_eq!(documented, tried, "{}", subject.path);
    }
}

#[tokio::test]
async fn sampling_defaults_are_sent_unless_the_engine_is_to_have_its_own() {
    let engine = engine().await;
    let sent = json!({
        "temperature": 1.0,
        "sampling": { "num_sequences": 1, "top_k": 0, "top_p": 1.0, "min_p": 0.0 },
        "decoding": { "repetition_penalty": 1.0 },
    });
    let left = json!({ "temperature": null, "sampling": { "num_sequences": 1 }, "decoding": {} });
    for (whose, expected) in [("vllm", sent), ("engine", left)] {
        let serve = Serve::ready(&[&engine.url()], &["--generation-config", whose]).await;
        for subject in subjects() {
            let found = messages(&serve, &engine, subject.path, &subject.plain).await;
            for part in ["temperature", "sampling", "decoding"] {
                assert_eq!(found[0][part], expected[part], "{whose} {} {part}", subject.path);
            }
        }
    }
}
