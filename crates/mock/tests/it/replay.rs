//! Every recorded request against the mock, by its wire bytes: same code, same shape.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tito_mock::{KvEventsConfig, MockConfig, Multimodal, Vocabulary};
use tito_test_support::fixtures::{self, names};
use tonic::Code;
use tonic::transport::Channel;

use crate::raw;
use crate::support::{Running, request};

mod exceptions;
mod shape;

use exceptions::Aspect;

/// How long a stream may be silent before it counts as hanging.
const SILENCE: Duration = Duration::from_millis(200);

/// One recorded exchange.
struct Fixture {
    name: String,
    path: String,
    metadata: Vec<(String, String)>,
    body: Bytes,
    /// Whether the request's output was told by a script.
    scripted: bool,
    messages: Vec<Bytes>,
    code: Code,
}

/// What the mock did.
struct Observed {
    messages: Vec<Bytes>,
    code: Code,
}

/// Reads a recording, if it is a gRPC one.
fn load(directory: &str, name: &str) -> Option<Fixture> {
    let recorded = fixtures::grpc(directory, name)?;
    let gzip = name.contains("gzip");
    let mut metadata = recorded.metadata;
    if gzip {
        metadata.push(("grpc-encoding".to_owned(), "gzip".to_owned()));
    }
    let message = match (recorded.request, recorded.request_bytes) {
        (Some(message), _) => message,
        // Too large to keep, or nonsense: the length says which.
        (None, Some(4)) => Bytes::from_static(&[0xff; 4]),
        (None, bytes) => vec![0; bytes.unwrap_or_default() as usize].into(),
    };
    Some(Fixture {
        name: recorded.name,
        path: recorded.method,
        metadata,
        body: raw::frame(&message, gzip),
        scripted: recorded.message["kv"]["kv_transfer_params"]["script"].is_object(),
        messages: recorded.replies,
        code: Code::from_i32(recorded.code),
    })
}

/// Replays one request on a connection.
async fn replay(channel: &mut Channel, fixture: &Fixture) -> Observed {
    let mut metadata = fixture.metadata.clone();
    let deadline = matches!(fixture.code, Code::DeadlineExceeded | Code::Cancelled);
    if deadline {
        metadata.push(("grpc-timeout".to_owned(), format!("{}m", SILENCE.as_millis())));
    }
    let endless = fixture.path.ends_with("/Watch") && fixture.code == Code::Ok;
    let mut observed = Observed { messages: Vec::new(), code: Code::Ok };
    let mut reply = match raw::call(channel, &fixture.path, &metadata, fixture.body.clone()).await {
        Ok(reply) => reply,
        Err(status) => return Observed { code: status.code(), ..observed },
    };
    loop {
        if endless && observed.messages.len() == fixture.messages.len() {
            return observed;
        }
        let next = if deadline {
            match tokio::time::timeout(SILENCE * 2, reply.message()).await {
                Ok(next) => next,
                Err(_) => return Observed { code: Code::DeadlineExceeded, ..observed },
            }
        } else {
            reply.message().await
        };
        match next {
            Ok(message) => observed.messages.push(message),
            Err(status) => return Observed { code: status.code(), ..observed },
        }
    }
}

/// Replays fixtures in order and collects every difference.
async fn check(mock: &Running, directory: &str, names: &[&str]) {
    let mut channel = mock.channel().await;
    let mut differences = Vec::new();
    for name in names {
        let Some(fixture) = load(directory, name) else { continue };
        if exceptions::has(&fixture.name, Aspect::All) {
            continue;
        }
        let observed = replay(&mut channel, &fixture).await;
        differences.extend(compare(&fixture, &observed));
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

fn compare(fixture: &Fixture, observed: &Observed) -> Vec<String> {
    let alike = |code| if code == Code::Cancelled { Code::DeadlineExceeded } else { code };
    let mut differences = Vec::new();
    if alike(fixture.code) != alike(observed.code) {
        differences.push(format!("{}: code {:?}, recorded {:?}", fixture.name, observed.code, fixture.code));
        return differences;
    }
    if fixture.path.starts_with("/vllm.Inference/") {
        let stream = fixture.path.ends_with("Stream");
        let (recorded, seen) =
            (shape::Reply::read(&fixture.messages), shape::Reply::read(&observed.messages));
        let notes = recorded.differences(&seen, &fixture.name, stream, fixture.scripted);
        differences.extend(notes.into_iter().map(|note| format!("{}: {note}", fixture.name)));
    } else if fixture.messages.len() != observed.messages.len() {
        let (recorded, seen) = (fixture.messages.len(), observed.messages.len());
        differences.push(format!("{}: {seen} messages, recorded {recorded}", fixture.name));
    } else if let Err(note) = shape::compare_control(&fixture.path, &fixture.messages, &observed.messages) {
        differences.push(format!("{}: {note}", fixture.name));
    }
    differences
}

/// The recorded settings on free ports.
pub(crate) fn kv_events() -> KvEventsConfig {
    KvEventsConfig {
        enable_kv_cache_events: true,
        endpoint: "tcp://*:0".to_owned(),
        replay_endpoint: Some("tcp://*:0".to_owned()),
        topic: "kv".to_owned(),
        ..KvEventsConfig::default()
    }
}

/// The recorded dense engine.
pub(crate) fn dense() -> MockConfig {
    MockConfig {
        model: "$MODELS/dense".to_owned(),
        served_model_names: vec!["dense".to_owned(), "dense-alias".to_owned()],
        kv_events: Some(kv_events()),
        ..MockConfig::new()
    }
}

/// The recorded vision-language engine.
pub(crate) fn vision() -> MockConfig {
    MockConfig {
        model: "$MODELS/vl".to_owned(),
        served_model_names: vec!["vl".to_owned(), "vl-alias".to_owned()],
        multimodal: Some(Multimodal::default()),
        ..dense()
    }
}

/// The recorded scripted engine.
fn light() -> MockConfig {
    MockConfig {
        model: "$MODELS/light".to_owned(),
        vocabulary: Vocabulary {
            rows: 260,
            tokenizer_ids: 260,
            special_from: 256,
            eos_id: 257,
            secondary_eos_ids: vec![256],
        },
        max_model_len: 512,
        block_size: 16,
        num_gpu_blocks: 1000,
        max_num_seqs: 64,
        kv_connector: true,
        scripts: true,
        instance_id: Some("scripted".to_owned()),
        ..MockConfig::new()
    }
}

fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn dense_generate_replays() {
    let mock = Running::start(dense()).await;
    let names = names("grpc-generate");
    let small = |name: &&str| matches!(*name, "all-logprobs" | "all-prompt-logprobs" | "top21");
    let names: Vec<&str> = borrowed(&names).into_iter().filter(|name| !small(name)).collect();
    assert!(names.len() > 100, "the recordings are there");
    check(&mock, "grpc-generate", &names).await;
}

#[tokio::test]
async fn a_small_pool_without_a_logprobs_cap_replays() {
    let config = MockConfig { num_gpu_blocks: 12, max_logprobs: -1, max_model_len: 256, ..dense() };
    let mock = Running::start(config).await;
    check(&mock, "grpc-generate", &["all-logprobs", "all-prompt-logprobs", "top21"]).await;
}

#[tokio::test]
async fn dense_control_replays_in_the_recorded_order() {
    let mock = Running::start(dense()).await;
    check(&mock, "grpc-control", &exceptions::CONTROL_ORDER).await;
}

#[tokio::test]
async fn a_weight_session_replays_in_the_recorded_order() {
    let config = MockConfig { weight_transfer_backend: Some("nccl".to_owned()), ..dense() };
    let mock = Running::start(config).await;
    check(&mock, "grpc-control", &exceptions::WEIGHTS_ORDER).await;
}

#[tokio::test]
async fn two_ranks_replay_in_the_recorded_order() {
    let mock = Running::start(MockConfig { data_parallel_size: 2, ..dense() }).await;
    check(&mock, "grpc-dp2", &exceptions::RANKS_ORDER).await;
    let mut placed: Vec<&str> = exceptions::RANKS_ORDER.to_vec();
    placed.sort_unstable();
    assert_eq!(placed, borrowed(&names("grpc-dp2")));
    let mut client = mock.inference().await;
    for (rank, name) in [("2", "dp2-rank-2"), ("abc", "dp2-rank-abc")] {
        let mut asked = tonic::Request::new(request("r", &[1, 2, 3], 1));
        asked.metadata_mut().insert("x-data-parallel-rank", rank.parse().unwrap());
        let refused = client.generate(asked).await.unwrap_err();
        assert_eq!(refused.message(), fixtures::json("grpc-dp2", name)["error"]["message"], "word for word");
    }
}

#[tokio::test]
async fn media_replay() {
    let mock = Running::start(vision()).await;
    let names = names("grpc-media");
    assert!(names.len() > 25, "the recordings are there");
    check(&mock, "grpc-media", &borrowed(&names)).await;
}

#[tokio::test]
async fn every_control_recording_has_its_place() {
    let mut placed: Vec<&str> = exceptions::CONTROL_ORDER.to_vec();
    placed.extend(exceptions::WEIGHTS_ORDER);
    placed.sort_unstable();
    assert_eq!(placed, borrowed(&names("grpc-control")));
}

#[tokio::test]
async fn the_scripted_engine_replays() {
    let mock = Running::start(light()).await;
    let names = names("light");
    let apart = |name: &&str| name.starts_with("dead-") || name.contains("exit") || *name == "stream-die";
    let names: Vec<&str> = borrowed(&names).into_iter().filter(|name| !apart(name)).collect();
    check(&mock, "light", &names).await;
}

#[tokio::test]
async fn a_dead_engine_replays() {
    let mock = Running::start(light()).await;
    let watch = load("light", "dead-health-watch").unwrap();
    let mut watching = mock.channel().await;
    let followed = tokio::join!(replay(&mut watching, &watch), async {
        check(&mock, "light", &["stream-die", "dead-generate", "dead-server-info", "dead-health"]).await;
        assert_eq!(mock.http("GET", "/health", "").await, (503, String::new()));
    });
    assert!(compare(&watch, &followed.0).is_empty());
}

#[tokio::test]
async fn an_exiting_engine_replays() {
    let mut mock = Running::start(light()).await;
    check(&mock, "light", &["stream-exit"]).await;
    mock.exit().await;
    let refused = tokio::net::TcpStream::connect(mock.grpc).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn every_exception_names_a_recording() {
    for directory in ["grpc-generate", "grpc-control", "grpc-media", "light"] {
        for name in exceptions::named(directory) {
            assert!(load(directory, name).is_some(), "{directory}/{name}");
        }
    }
}

/// So that a recording whose request does not decode is noticed here and not as a mystery.
#[tokio::test]
async fn recorded_replies_decode() {
    for directory in ["grpc-generate", "light"] {
        for name in names(directory) {
            let Some(fixture) = load(directory, &name) else { continue };
            if fixture.path.starts_with("/vllm.Inference/") {
                for message in &fixture.messages {
                    vllm_proto::GenerateResponse::decode(message.clone()).unwrap();
                }
            }
        }
    }
}
