//! Every recorded request against the mock, by its wire bytes: same code, same shape.

use std::time::Duration;

use bytes::Bytes;
use tito_mock::{KvEventsConfig, MockConfig, Multimodal, Vocabulary};
use tito_test_support::fixtures::{self, GrpcCall};
use tonic::Code;
use tonic::transport::Channel;

use crate::raw;
use crate::support::{Running, request};

mod exceptions;
mod shape;

use exceptions::{Aspect, CONTROL_ORDER, RANKS_ORDER, WEIGHTS_ORDER, names};
use shape::Facts;

/// How long a stream may be silent before it counts as hanging.
const SILENCE: Duration = Duration::from_millis(200);

/// What the mock did: its messages and how the call ended.
type Observed = (Vec<Bytes>, Code);

/// Replays one request on a connection.
async fn replay(channel: &mut Channel, recorded: &GrpcCall) -> Observed {
    let code = Code::from_i32(recorded.code);
    let message = match (&recorded.request, recorded.request_bytes) {
        (Some(message), _) => message.clone(),
        // Too large to keep, or nonsense: the length says which.
        (None, Some(4)) => Bytes::from_static(&[0xff; 4]),
        (None, bytes) => vec![0; bytes.unwrap_or_default() as usize].into(),
    };
    let mut metadata = recorded.metadata.clone();
    let gzip = recorded.name.contains("gzip");
    if gzip {
        metadata.push(("grpc-encoding".to_owned(), "gzip".to_owned()));
    }
    let deadline = matches!(code, Code::DeadlineExceeded | Code::Cancelled);
    if deadline {
        metadata.push(("grpc-timeout".to_owned(), format!("{}m", SILENCE.as_millis())));
    }
    let endless = recorded.method.ends_with("/Watch") && code == Code::Ok;
    let mut messages = Vec::new();
    let body = raw::frame(&message, gzip);
    let mut reply = match raw::call(channel, &recorded.method, &metadata, body).await {
        Ok(reply) => reply,
        Err(status) => return (messages, status.code()),
    };
    while !endless || messages.len() < recorded.replies.len() {
        let next = if deadline {
            tokio::time::timeout(SILENCE * 2, reply.message()).await
        } else {
            Ok(reply.message().await)
        };
        match next {
            Ok(Ok(message)) => messages.push(message),
            Ok(Err(status)) => return (messages, status.code()),
            Err(_) => return (messages, Code::DeadlineExceeded),
        }
    }
    (messages, Code::Ok)
}

/// One sentence for each difference.
fn compare(recorded: &GrpcCall, (messages, code): &Observed) -> Vec<String> {
    let (name, path) = (&recorded.name, recorded.method.as_str());
    let alike = |code| if code == Code::Cancelled { Code::DeadlineExceeded } else { code };
    let expected = Code::from_i32(recorded.code);
    if alike(expected) != alike(*code) {
        return vec![format!("{name}: code {code:?}, recorded {expected:?}")];
    }
    let facts = |messages: &[Bytes]| {
        if !path.starts_with("/vllm.Inference/") {
            return Facts::of_control(messages, path);
        }
        let scripted = recorded.message["kv"]["kv_transfer_params"]["script"].is_object();
        Facts::of_reply(messages, name, path.ends_with("Stream"), scripted)
    };
    let differences = facts(&recorded.replies).differences(&facts(messages));
    differences.into_iter().map(|difference| format!("{name}: {difference}")).collect()
}

/// Replays recordings in order, those over HTTP left out, and collects every difference.
async fn check(mock: &Running, folder: &str, names: &[String]) {
    let mut channel = mock.channel().await;
    let mut differences = Vec::new();
    for recorded in names.iter().filter_map(|name| fixtures::grpc(folder, name)) {
        if !exceptions::has(&recorded.name, Aspect::All) {
            differences.extend(compare(&recorded, &replay(&mut channel, &recorded).await));
        }
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

/// The recordings of a folder, of which there must be so many, without some.
fn others(folder: &str, least: usize, without: impl Fn(&str) -> bool) -> Vec<String> {
    let names = fixtures::names(folder);
    assert!(names.len() >= least, "{folder}: {} recordings", names.len());
    names.into_iter().filter(|name| !without(name)).collect()
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

fn engine(model: &str) -> MockConfig {
    let served_model_names = vec![model.to_owned(), format!("{model}-alias")];
    let kv_events = Some(kv_events());
    MockConfig { model: format!("$MODELS/{model}"), served_model_names, kv_events, ..MockConfig::new() }
}

/// The recorded dense engine.
pub(crate) fn dense() -> MockConfig {
    engine("dense")
}

/// The recorded vision-language engine.
pub(crate) fn vision() -> MockConfig {
    MockConfig { multimodal: Some(Multimodal::default()), ..engine("vl") }
}

/// The recorded scripted engine.
fn light() -> MockConfig {
    let secondary_eos_ids = vec![256];
    MockConfig {
        model: "$MODELS/light".to_owned(),
        vocabulary: Vocabulary {
            rows: 260,
            tokenizer_ids: 260,
            special_from: 256,
            eos_id: 257,
            secondary_eos_ids,
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

#[tokio::test]
async fn generate_replays_on_a_dense_engine_and_on_a_small_one_without_a_logprobs_cap() {
    let small = ["all-logprobs", "all-prompt-logprobs", "top21"];
    let names = others("grpc-generate", 100, |name| small.contains(&name));
    check(&Running::start(dense()).await, "grpc-generate", &names).await;
    let config = MockConfig { num_gpu_blocks: 12, max_logprobs: -1, max_model_len: 256, ..dense() };
    check(&Running::start(config).await, "grpc-generate", &small.map(str::to_owned)).await;
}

#[tokio::test]
async fn control_and_a_weight_session_replay_in_the_recorded_order() {
    let (control, weights) = (names("control-", CONTROL_ORDER), names("control-", WEIGHTS_ORDER));
    check(&Running::start(dense()).await, "grpc-control", &control).await;
    let config = MockConfig { weight_transfer_backend: Some("nccl".to_owned()), ..dense() };
    check(&Running::start(config).await, "grpc-control", &weights).await;
    let mut placed = [control, weights].concat();
    placed.sort_unstable();
    assert_eq!(placed, fixtures::names("grpc-control"));
}

#[tokio::test]
async fn two_ranks_replay_in_the_recorded_order() {
    let mock = Running::start(MockConfig { data_parallel_size: 2, ..dense() }).await;
    let mut ranks = names("dp2-", RANKS_ORDER);
    check(&mock, "grpc-dp2", &ranks).await;
    ranks.sort_unstable();
    assert_eq!(ranks, fixtures::names("grpc-dp2"));
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
    check(&Running::start(vision()).await, "grpc-media", &others("grpc-media", 25, |_| false)).await;
}

#[tokio::test]
async fn the_scripted_engine_replays() {
    let apart = |name: &str| name.starts_with("dead-") || name.contains("exit") || name == "stream-die";
    check(&Running::start(light()).await, "light", &others("light", 1, apart)).await;
}

#[tokio::test]
async fn a_dead_engine_replays() {
    let mock = Running::start(light()).await;
    let watch = fixtures::grpc("light", "dead-health-watch").unwrap();
    let mut watching = mock.channel().await;
    let (followed, ()) = tokio::join!(replay(&mut watching, &watch), async {
        let dead = names("", "stream-die dead-generate dead-server-info dead-health");
        check(&mock, "light", &dead).await;
        assert_eq!(mock.http("GET", "/health", "").await, (503, String::new()));
    });
    assert_eq!(compare(&watch, &followed), Vec::<String>::new());
}

#[tokio::test]
async fn an_exiting_engine_replays() {
    let mut mock = Running::start(light()).await;
    check(&mock, "light", &names("", "stream-exit")).await;
    mock.exit().await;
    let refused = tokio::net::TcpStream::connect(mock.grpc).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn every_exception_names_a_recording() {
    assert!(exceptions::named().all(|(folder, name)| fixtures::grpc(folder, name).is_some()));
}
