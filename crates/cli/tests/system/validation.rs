//! The request-validation table: whatever a client sends, it is told what was wrong, in one shape, and nothing
//! behind the server is hurt by it.

mod bodies;
mod doors;
mod fields;
mod media;
mod values;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::harness::{COMPLETIONS, Call, GENERATE, MockEngine, Reply, Serve, assert_envelope};

/// Context of the engine (tokens): small, so that the largest budget is spent at once.
const CONTEXT: usize = 64;
/// Sequences that the engine runs at once.
const SEQUENCES: usize = 4;
/// Largest body that the server takes (bytes).
const BODY_BYTES: usize = 256 << 10;

/// One thing that a client may send, and how it is answered.
pub(crate) struct Probe {
    path: &'static str,
    body: Vec<u8>,
    expected: Expected,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// 200, and the output of the plain request.
    Plain,
    /// 200, with an output of its own.
    Fine,
    /// 400 by us; `param` is this field, something inside it, or the object that holds it.
    Blames(&'static str, String),
    /// 400 by the engine, in its words.
    Engine,
    /// The engine refuses one prompt of several: as above, or in the stream that another prompt had begun.
    EngineLater,
    /// Another status, with its code.
    Status(u16, &'static str),
}

/// What the routes differ in.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    path: &'static str,
    /// Where the prompt is.
    prompt: &'static str,
    /// What comes before the name of a sampling field.
    sampling: &'static str,
}

const ROUTES: [Route; 2] = [
    Route { path: GENERATE, prompt: "token_ids", sampling: "sampling_params." },
    Route { path: COMPLETIONS, prompt: "prompt", sampling: "" },
];

impl Route {
    /// The plain request.
    fn body(self, stream: bool) -> Value {
        let mut body = json!({ "stream": stream });
        crate::fields::set(&mut body, self.prompt, &json!([11, 12, 13]));
        crate::fields::set(&mut body, &format!("{}max_tokens", self.sampling), &json!(3));
        body
    }

    /// The plain request with some fields as JSON text, which may be no valid JSON.
    fn with(self, stream: bool, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut body = self.body(stream);
        for (at, (field, _)) in fields.iter().enumerate() {
            crate::fields::set(&mut body, field, &json!(format!("@{at}@")));
        }
        let mut text = body.to_string();
        for (at, (_, value)) in fields.iter().enumerate() {
            text = text.replace(&format!("\"@{at}@\""), value);
        }
        text.into_bytes()
    }

    fn probe(self, stream: bool, fields: &[(&str, &str)], expected: Expected) -> Probe {
        Probe { path: self.path, body: self.with(stream, fields), expected }
    }
}

/// A server in front of an engine, and what the plain requests are answered with.
struct Stage {
    engine: MockEngine,
    serve: Serve,
    plain: Vec<(&'static str, Value)>,
    turn: AtomicUsize,
}

impl Stage {
    async fn set() -> Self {
        let (context, sequences) = (CONTEXT.to_string(), SEQUENCES.to_string());
        let limits = ["--max-model-len", &context, "--max-num-seqs", &sequences];
        let engine = MockEngine::start(&[&limits[..], &["--kv-connector", "--multimodal"]].concat()).await;
        let serve = Serve::ready(&[&engine.url()], &["--body-limit", &BODY_BYTES.to_string()]).await;
        let mut stage = Self { engine, serve, plain: Vec::new(), turn: AtomicUsize::new(0) };
        for route in ROUTES {
            stage.plain.push((route.path, stage.plain(route, false).await));
        }
        stage
    }

    /// What the plain request is answered with.
    async fn plain(&self, route: Route, stream: bool) -> Value {
        let reply = self.serve.post(route.path, &route.body(stream)).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        output(&reply)
    }

    /// The engine is alive, and answers as it always did. Routes and deliveries take turns.
    async fn assert_unhurt(&self, about: &str) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let (at, stream) = (turn % ROUTES.len(), turn / ROUTES.len() % 2 == 1);
        assert_eq!(self.plain(ROUTES[at], stream).await, self.plain[at].1, "after {about}");
    }

    async fn check(&self, probe: &Probe) {
        let Probe { path, body, expected } = probe;
        let call = Call::post(self.serve.address, path, &Value::Null).body(body.clone());
        let reply = call.send().await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(300)]);
        self.check_reply(&format!("{path} {shown}"), &reply, path, expected).await;
    }

    async fn check_reply(&self, about: &str, reply: &Reply, path: &str, expected: &Expected) {
        match expected {
            Expected::Plain | Expected::Fine => {
                assert_eq!(reply.status, 200, "{about}: {}", reply.text());
                assert!(reply.error_code().is_none(), "{about}: {}", reply.text());
                if *expected == Expected::Plain {
                    let plain = self.plain.iter().find(|(known, _)| *known == path).map(|(_, output)| output);
                    assert_eq!(Some(&output(reply)), plain, "{about}: {}", reply.text());
                }
            }
            Expected::Blames(code, field) => {
                let error = assert_envelope(about, reply);
                assert_eq!((reply.status, &error["code"]), (400, &json!(code)), "{about}: {error}");
                let param = error["param"].as_str().unwrap_or_default();
                let parent = field.rsplit_once('.').map_or("", |(parent, _)| parent);
                assert!(param.starts_with(field.as_str()) || param == parent, "{about}: {error}");
            }
            Expected::EngineLater if reply.status == 200 => {
                assert_eq!(reply.error_code().as_deref(), Some("engine_refused"), "{about}");
            }
            Expected::Engine | Expected::EngineLater => {
                let error = assert_envelope(about, reply);
                assert_eq!(
                    (reply.status, &error["code"]),
                    (400, &json!("engine_refused")),
                    "{about}: {error}"
                );
            }
            Expected::Status(status, code) => {
                let error = assert_envelope(about, reply);
                assert_eq!((reply.status, &error["code"]), (*status, &json!(code)), "{about}: {error}");
            }
        }
        self.assert_unhurt(about).await;
    }
}

/// Ids and text of choice 0, however they were delivered; each route has one of the two.
fn output(reply: &Reply) -> Value {
    let chunks = reply.chunks();
    let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["text"].as_str()).collect();
    json!([reply.tokens(), text])
}

#[tokio::test]
async fn every_value_of_every_field_is_taken_or_blamed() {
    let stage = Stage::set().await;
    for route in ROUTES {
        for stream in [false, true] {
            for probe in values::probes(route, stream) {
                stage.check(&probe).await;
            }
        }
    }
}

#[tokio::test]
async fn every_broken_body_is_answered_in_the_one_envelope() {
    let stage = Stage::set().await;
    for route in ROUTES {
        for stream in [false, true] {
            for probe in bodies::probes(route, stream) {
                stage.check(&probe).await;
            }
        }
    }
}

#[tokio::test]
async fn what_the_door_turns_away_gets_the_same_envelope() {
    let stage = Stage::set().await;
    for (call, status, code) in doors::calls(stage.serve.address) {
        let reply = call.send().await;
        stage.check_reply(code, &reply, "", &Expected::Status(status, code)).await;
    }
}

#[tokio::test]
async fn the_words_of_a_refusing_engine_reach_the_client() {
    let stage = Stage::set().await;
    for route in ROUTES {
        for stream in [false, true] {
            let body = route.with(stream, &[(route.prompt, "[5, 1024]")]);
            let reply = Call::post(stage.serve.address, route.path, &Value::Null).body(body).send().await;
            let error = assert_envelope(route.path, &reply);
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("1024") && message.contains("vocabulary"), "{message}");
        }
    }
    assert!(stage.engine.process.log().is_empty(), "{}", stage.engine.process.log());
}
