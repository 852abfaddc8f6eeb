//! Recorded batches of vLLM 0.32 and what the mock makes of the requests behind them, byte for byte.
//!
//! The time is left out of every comparison. Where ids that a model chose are among the blocks, so are these ids
//! and the names that follow from them.

use bytes::Bytes;
use prost::Message;
use serde_json::Value;
use tito_mock::{HashAlgorithm, KvStyle, MockConfig};
use tito_test_support::fixtures;
use tonic::transport::Channel;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::media_item::Source;
use vllm_proto::{
    GenerateRequest, KvCacheParameters, MediaItem, Modality, PauseGenerationRequest, PauseMode,
    PreprocessedMediaFeatures, ResumeGenerationRequest,
};

use super::Replay;
use crate::replay::{dense, vision};
use crate::support::{Running, request};

fn recording(name: &str) -> Value {
    fixtures::json("kv-events", &format!("kv-{name}"))
}

/// The request that caused a recording; none where nothing was asked.
fn request_of(recording: &Value) -> Option<tonic::Request<GenerateRequest>> {
    let cause = fixtures::list(&recording["request"]["caused_by"]).first()?;
    let message = &cause["message"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_u64().unwrap() as u32;
    let ids: Vec<u32> = fixtures::list(&message["token_ids"]["ids"]).iter().map(number).collect();
    let plain = request(&text(&message["request_id"]), &ids, number(&message["stopping"]["max_new_tokens"]));
    let salted = |kv: &Value| KvCacheParameters {
        cache_salt: text(&kv["cache_salt"]),
        ..KvCacheParameters::default()
    };
    let mut request = tonic::Request::new(GenerateRequest {
        kv: message.get("kv").map(salted),
        session_id: message["session_id"].as_str().map(str::to_owned),
        lora_name: text(&message["lora_name"]),
        media: fixtures::list(&message["media"]).iter().map(media_of).collect(),
        ..plain
    });
    if let Some(rank) = cause["metadata"][0][1].as_str() {
        request.metadata_mut().insert("x-data-parallel-rank", rank.parse().unwrap());
    }
    Some(request)
}

/// Long payloads are not in these recordings: images a and b are those of the media requests.
fn media_of(item: &Value) -> MediaItem {
    let raw = item["raw_bytes"].as_str().map(|raw| Source::RawBytes(fixtures::base64(raw).to_vec()));
    let source = Some(raw.unwrap_or_else(|| features_of(&item["features"])));
    let uuid = item["uuid"].as_str().unwrap_or_default().to_owned();
    MediaItem { modality: Modality::Image as i32, uuid, source, ..MediaItem::default() }
}

fn features_of(features: &Value) -> Source {
    let number = |key: &str| features[key].as_str().unwrap().parse().unwrap();
    let identifier = features["identifier"].as_str().unwrap().to_owned();
    let whole = if identifier == "img-b" { "media-features-b" } else { "media-features" };
    let whole = fixtures::grpc("grpc-media", whole).unwrap().request.unwrap();
    let whole = GenerateRequest::decode(whole).unwrap();
    let Some(Source::Features(whole)) = whole.media[0].source.clone() else { panic!("no features") };
    let (offset, length) = (number("offset"), number("length"));
    Source::Features(PreprocessedMediaFeatures { identifier, offset, length, ..whole })
}

/// The frames of every recorded message.
fn frames_of(recording: &Value) -> Vec<Vec<Bytes>> {
    let frame = |hex: &Value| fixtures::hex(hex.as_str().unwrap());
    let frames = |message: &Value| fixtures::list(&message["frames_hex"]).iter().map(frame).collect();
    fixtures::list(&recording["frames"]).iter().map(frames).collect()
}

/// What is compared of a payload, readable.
fn shown(name: &str, payload: &[u8]) -> String {
    let parts = match name {
        // Left out are ids that the model chose, and the names of their blocks. The tail of the prompt comes before.
        "extended" => vec![
            between(payload, b"parent_block_hash", b"token_ids"),
            &between(payload, b"token_ids", b"block_size")[..12],
            between(payload, b"block_size", b""),
        ],
        // Left out are a hash of media, which every frontend makes in its own way, and the names of their blocks.
        "image-raw" => {
            vec![between(payload, b"token_ids", b"extra_keys"), between(payload, b"group_idx", b"")]
        }
        // Array of three, float; behind it the time.
        _ => vec![&payload[..2], &payload[10..]],
    };
    parts.iter().map(|part| part.escape_ascii().to_string()).collect::<Vec<_>>().join("|")
}

/// Bytes from one word up to another, or to the end.
fn between<'a>(payload: &'a [u8], from: &[u8], to: &[u8]) -> &'a [u8] {
    let find = |word: &[u8]| payload.windows(word.len()).position(|window| window == word);
    let end = if to.is_empty() { payload.len() } else { find(to).unwrap() };
    &payload[find(from).unwrap()..end]
}

/// A rank of a mock, with the number of batches it has published until now.
struct Bench {
    mock: Running,
    client: InferenceClient<Channel>,
    replay: Replay,
    seen: u64,
}

impl Bench {
    async fn start(config: MockConfig, rank: usize) -> Self {
        let mock = Running::start(config).await;
        let (client, replay) = (mock.inference().await, Replay::connect(&mock, rank).await);
        Self { mock, client, replay, seen: 0 }
    }

    /// Asks what was asked and compares what is published.
    async fn check(&mut self, name: &str) -> bool {
        self.check_asked(name, name).await
    }

    /// Asks what caused one recording and compares what is published with another. Returns whether the numbers agree too.
    async fn check_asked(&mut self, name: &str, cause: &str) -> bool {
        if let Some(request) = request_of(&recording(cause)) {
            self.client.generate(request).await.unwrap();
        }
        let recorded = frames_of(&recording(name));
        let published = self.replay.since(self.seen).await;
        self.seen += published.len() as u64;
        let expected: Vec<_> = recorded.iter().map(|frames| shown(name, &frames[2])).collect();
        let found: Vec<_> = published.iter().map(|batch| shown(name, &batch.payload)).collect();
        assert_eq!(found, expected, "{name}");
        let numbers = recorded.iter().map(|frames| super::batch(frames).seq);
        numbers.eq(published.iter().map(|batch| batch.seq))
    }

    /// The same for recordings that follow each other, numbers included.
    async fn check_all(&mut self, names: &[&str]) {
        for name in names {
            assert!(self.check(name).await, "{name}: other numbers");
        }
    }

    async fn reset(&self) {
        let reset = self.mock.http("POST", "/reset_prefix_cache", "").await;
        assert_eq!(reset, (200, r#"{"success":true}"#.to_owned()));
    }

    async fn pause_and_resume(&self, mode: PauseMode, clear_cache: Option<bool>) {
        let mut control = self.mock.control().await;
        control.pause_generation(PauseGenerationRequest { mode: mode as i32, clear_cache }).await.unwrap();
        control.resume_generation(ResumeGenerationRequest {}).await.unwrap();
    }
}

#[tokio::test]
async fn a_dense_engine_publishes_and_replays_as_recorded() {
    let mut bench = Bench::start(dense(), 0).await;
    bench.check_all(&["stored", "reused", "extended", "salted", "branch", "short", "session"]).await;
    bench.reset().await;
    bench.check_all(&["cleared-alone", "cleared"]).await;
    bench.pause_and_resume(PauseMode::Abort, None).await;
    bench.check_all(&["cleared-by-pause"]).await;
    bench.pause_and_resume(PauseMode::Keep, Some(false)).await;
    bench.check_all(&["not-cleared-by-keep"]).await;
    for (name, start) in [("from-0", 0), ("from-3", 3), ("beyond", 1_000_000)] {
        // All frames, number and whether a payload follows.
        let show = |frames: Vec<Bytes>| {
            let (payload, others) = frames.split_last().unwrap();
            (others.to_vec(), super::batch(&frames).seq, payload.is_empty())
        };
        let recorded = frames_of(&recording(&format!("replay-{name}"))).into_iter().map(show);
        let replayed = bench.replay.frames(start).await.into_iter().map(show);
        assert_eq!(replayed.collect::<Vec<_>>(), recorded.collect::<Vec<_>>(), "{name}");
    }
    // Without a delimiter there is no answer: the next one is that to the next request.
    bench.replay.send(&[&[0; 8]]).await;
    assert_eq!(bench.replay.since(7).await, []);
}

#[tokio::test]
async fn adapters_publish_as_recorded() {
    // The python frontend was asked over HTTP by the adapter's name as the model; here it is a field.
    let names = |name| if name == "lora-python" { (name, "lora") } else { (name, name) };
    for (id, recorded) in
        [(8, &["lora-base", "lora", "lora-salted", "lora-other"][..]), (6, &["lora-python"])]
    {
        let mut lora_modules: Vec<(String, String)> =
            (1..id).map(|id| (format!("filler-{id}"), "org/name".to_owned())).collect();
        for (name, path) in [("k", "/tmp/tito-lora/lora-a"), ("k2", "/tmp/tito-lora/lora-b")] {
            lora_modules.push((name.to_owned(), path.to_owned()));
        }
        let mut bench = Bench::start(MockConfig { enable_lora: true, lora_modules, ..dense() }, 0).await;
        for (name, cause) in recorded.iter().copied().map(names) {
            bench.check_asked(name, cause).await;
        }
    }
}

#[tokio::test]
async fn images_publish_as_recorded() {
    let mut bench = Bench::start(vision(), 0).await;
    // The recorded engine had emptied its cache before.
    bench.reset().await;
    let images = [
        "image-a",
        "image-b",
        "image-none",
        "image-salted",
        "image-across-blocks",
        "image-raw",
        "image-raw-uuid",
    ];
    bench.check_all(&images).await;
}

#[tokio::test]
async fn pressure_removes_as_recorded() {
    let kv_style = KvStyle { hash_algorithm: HashAlgorithm::Sha256Cbor, ..KvStyle::default() };
    let config = MockConfig { num_gpu_blocks: 12, max_model_len: 256, kv_style, ..dense() };
    let mut bench = Bench::start(config, 0).await;
    bench.check_all(&["pressure-0", "pressure-1", "pressure-2", "pressure-back"]).await;
}

#[tokio::test]
async fn ranks_publish_as_recorded() {
    for (rank, name) in ["dp-rank-0", "dp-rank-1"].into_iter().enumerate() {
        Bench::start(MockConfig { data_parallel_size: 2, ..dense() }, rank).await.check(name).await;
    }
}

/// So that a recording which comes later is not forgotten.
#[test]
fn every_recording_has_its_place() {
    assert_eq!(fixtures::names("kv-events").len(), 33, "each of them is named in this file");
}
