//! One request, whole and streamed: whatever is asked and whatever goes wrong, both replies say the same in every field.
//!
//! The rows are generated: format × prompts × `n` × log-probs × how the engine is called × failure. What a stream says is
//! folded into one body and held against the whole body member by member, so that a field that only one of them has fails.

mod exceptions;
mod failures;
mod fold;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use self::exceptions::Unused;
use self::failures::{FAILURES, Failure};
use self::fold::{differences, folded};
use crate::harness::{COMPLETIONS, Call, GENERATE, MockEngine, Reply, Serve, assert_envelope};

/// Tokens that an engine's context has; the larger budget fills it.
const CONTEXT: &str = "48";

/// What is asked for, failures aside.
#[derive(Debug, Clone, Copy)]
struct Shape {
    path: &'static str,
    /// Prompts, each unlike the others.
    prompts: usize,
    /// Continuations of each.
    n: u32,
    logprobs: Option<u32>,
    /// A small budget is one unary call at the engine; a large one is a call that streams, whatever the client wants.
    max_tokens: u32,
}

fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for (path, prompts) in [(GENERATE, 1), (COMPLETIONS, 1), (COMPLETIONS, 3)] {
        for n in [1, 2] {
            for logprobs in [None, Some(2)] {
                for max_tokens in [6, 1024] {
                    shapes.push(Shape { path, prompts, n, logprobs, max_tokens });
                }
            }
        }
    }
    shapes
}

impl Shape {
    fn body(self, failure: &Failure, stream: bool) -> Value {
        let prompt = |number: usize| -> Vec<usize> { (1..=5).map(|at| number * 10 + at).collect() };
        let prompts: Vec<Vec<usize>> = (0..self.prompts).map(prompt).collect();
        let mut sampling = json!({ "max_tokens": self.max_tokens, "n": self.n, "seed": 7 });
        let mut body = json!({
            "return_token_ids": true,
            "stream": stream,
            "unheard_of": 1,
        });
        if stream {
            body["stream_options"] = json!({ "include_usage": true });
        }
        if self.path == GENERATE {
            body["token_ids"] = json!(prompts[0]);
            sampling["logprobs"] = json!(self.logprobs);
            body["sampling_params"] = sampling;
        } else {
            body["prompt"] = if self.prompts == 1 { json!(prompts[0]) } else { json!(prompts) };
            body["logprobs"] = json!(self.logprobs);
            let fields = sampling.as_object().unwrap().clone();
            body.as_object_mut().unwrap().extend(fields);
        }
        failure.spoil(&mut body, self.path);
        body
    }
}

/// What a reply says, however it was delivered.
struct Outcome {
    status: u16,
    headers: Value,
    /// All members with a value, choices by number; none when the head of the reply was an error.
    content: Option<Value>,
    /// Output tokens delivered.
    tokens: usize,
    error: Option<Value>,
}

impl Outcome {
    fn of(reply: &Reply) -> Self {
        let headers = ["x-request-id", "x-tito-ignored", "retry-after", "x-should-retry"];
        let headers = headers.into_iter().map(|name| (name.to_owned(), json!(reply.header(name)))).collect();
        let mut chunks = reply.chunks();
        let error = chunks.last().and_then(|chunk| chunk.get("error")).cloned();
        if error.is_some() {
            chunks.pop();
        }
        let content = (reply.status == 200).then(|| folded(&chunks));
        let choices = content.iter().flat_map(|content| content["choices"].as_array().into_iter().flatten());
        let tokens = choices.filter_map(|choice| choice["token_ids"].as_array()).map(Vec::len).sum();
        Self { status: reply.status, headers, content, tokens, error }
    }

    /// How a streamed reply differs from a whole one.
    fn differences(&self, whole: &Self) -> Vec<String> {
        let mut found = differences("error", &json!(self.error), &json!(whole.error));
        if whole.error.is_some() && self.tokens > 0 {
            // The head had left, and with it what it says of failures.
            if self.status != 200 {
                found.push(format!("status {} after the first token", self.status));
            }
            return found;
        }
        if self.status != whole.status {
            found.push(format!("status {}, whole {}", self.status, whole.status));
            return found;
        }
        found.extend(differences("headers", &self.headers, &whole.headers));
        found.extend(differences("body", &json!(self.content), &json!(whole.content)));
        found
    }
}

/// How the streamed reply differs from the whole one, and either from how it has to end.
async fn compared(failure: &Failure, shape: Shape, whole: Call, stream: Call) -> Vec<String> {
    let (whole, stream) = tokio::join!(whole.send(), stream.send());
    let (end, message) = match whole.error_code() {
        Some(code) => (Some(code), assert_envelope(failure.name, &whole)["message"].to_string()),
        None => (whole.finish_reason(), String::new()),
    };
    let (streamed, outcome) = (Outcome::of(&stream), Outcome::of(&whole));
    let mut found = streamed.differences(&outcome);
    found.extend(failure.wrong_end(whole.status, &end.unwrap_or_default(), &message));
    let delivered = failure.delivered().filter(|_| (shape.prompts, shape.n) == (1, 1));
    let missing = delivered.filter(|delivered| *delivered as usize != streamed.tokens);
    found.extend(
        missing.map(|delivered| format!("{} tokens before the failure, not {delivered}", streamed.tokens)),
    );
    found
}

/// Books the next row that is done.
async fn add(
    surprises: &mut Vec<String>,
    unused: &mut Unused,
    failure: &Failure,
    asked: &mut JoinSet<(Shape, Vec<String>)>,
) {
    let (shape, found) = asked.join_next().await.unwrap().unwrap();
    let unlisted = found.into_iter().filter(|found| !unused.listed(failure.name, found));
    surprises.extend(unlisted.map(|found| format!("{}, {shape:?}: {found}", failure.name)));
}

#[tokio::test]
async fn whole_and_streamed_replies_say_the_same_in_every_field() {
    let engine = MockEngine::start(&["--max-model-len", CONTEXT, "--max-num-seqs", "256"]).await;
    let patient = Serve::ready(&[&engine.url()], &["--stall-timeout", "60s"]).await;
    let hasty = Serve::ready(&[&engine.url()], &["--stall-timeout", "2s"]).await;
    for failure in FAILURES {
        if let Some(mut fault) = failure.fault() {
            fault["request"] = json!(format!("-{}-", failure.name));
            engine.fault(&fault).await;
        }
    }
    let (mut surprises, mut unused) = (Vec::new(), Unused::all());
    for failure in FAILURES {
        let serve = if failure.stalls() { &hasty } else { &patient };
        let mut asked = JoinSet::new();
        for shape in shapes() {
            // A failure is set for the requests whose id holds its name.
            let id = format!("-{}-", failure.name);
            let ask =
                |stream| serve.post(shape.path, &shape.body(failure, stream)).header("x-request-id", &id);
            let (whole, stream) = (ask(false), ask(true));
            asked.spawn(async move { (shape, compared(failure, shape, whole, stream).await) });
            if failure.refuses() {
                // One at a time: HTTP/2 ends a connection on which too many streams are reset before they are accepted.
                add(&mut surprises, &mut unused, failure, &mut asked).await;
            }
        }
        while !asked.is_empty() {
            add(&mut surprises, &mut unused, failure, &mut asked).await;
        }
    }
    for serve in [&patient, &hasty] {
        serve.wait_metric("tito_admission_in_flight", &[], 0.0).await;
        serve.wait_metric("tito_runtime_task_panics_total", &[], 0.0).await;
    }
    assert!(surprises.is_empty(), "{} differences:\n{}", surprises.len(), surprises.join("\n"));
    assert!(unused.stale().is_empty(), "exceptions that nothing needs any more: {:?}", unused.stale());
}
