//! Recorded batches of vLLM 0.32 and what the mock makes of the requests behind them, byte for byte.
//!
//! The time is left out of every comparison. Where ids that a model chose are among the blocks, so are these ids
//! and the names that follow from them.

use std::fmt::Write as _;

use bytes::Bytes;
use prost::Message;
use serde_json::Value;
use tito_mock::{HashAlgorithm, KvStyle, MockConfig};
use tito_test_support::fixtures;
use tonic::transport::Channel;
use vllm_proto::generate_request::Prompt;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::media_item::Source;
use vllm_proto::{
    GenerateRequest, KvCacheParameters, MediaItem, Modality, PauseGenerationRequest, PauseMode,
    PreprocessedMediaFeatures, ResponseOptions, ResumeGenerationRequest, StoppingCriteria, TokenIds,
};

use super::Replay;
use crate::replay::{dense, vision};
use crate::support::Running;

/// The request that caused a recording. Those over HTTP are asked over gRPC, with the adapter as a field.
fn request_of(recording: &Value) -> tonic::Request<GenerateRequest> {
    let cause = &recording["request"]["caused_by"][0];
    let message = &cause["message"];
    let ids = message["token_ids"]["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let media =
        message["media"].as_array().map_or_else(Vec::new, |items| items.iter().map(media_of).collect());
    let request = GenerateRequest {
        request_id: text(&message["request_id"]),
        prompt: Some(Prompt::TokenIds(TokenIds { ids: ids.collect() })),
        temperature: Some(0.0),
        stopping: Some(StoppingCriteria {
            max_new_tokens: message["stopping"]["max_new_tokens"].as_u64().unwrap() as u32,
            ignore_eos: true,
            ..StoppingCriteria::default()
        }),
        response: Some(ResponseOptions { output_token_ids: true, ..ResponseOptions::default() }),
        kv: message["kv"].as_object().map(|kv| KvCacheParameters {
            cache_salt: text(&kv["cache_salt"]),
            ..KvCacheParameters::default()
        }),
        session_id: message["session_id"].as_str().map(str::to_owned),
        lora_name: text(&message["lora_name"]),
        media,
        ..GenerateRequest::default()
    };
    let mut request = tonic::Request::new(request);
    if let Some(rank) = cause["metadata"][0][1].as_str() {
        request.metadata_mut().insert("x-data-parallel-rank", rank.parse().unwrap());
    }
    request
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
    let identifier = features["identifier"].as_str().unwrap();
    let whole = if identifier == "img-b" { "media-features-b" } else { "media-features" };
    let whole = fixtures::grpc("grpc-media", whole).unwrap().request.unwrap();
    let whole = GenerateRequest::decode(whole).unwrap();
    let Some(Source::Features(whole)) = &whole.media[0].source else { panic!("no features") };
    Source::Features(PreprocessedMediaFeatures {
        identifier: identifier.to_owned(),
        offset: number("offset"),
        length: number("length"),
        ..whole.clone()
    })
}

fn bytes_of(hex: &Value) -> Bytes {
    fixtures::hex(hex.as_str().unwrap())
}

/// The frames of every recorded message.
fn frames_of(recording: &Value) -> Vec<Vec<Bytes>> {
    let messages = recording["frames"].as_array().unwrap().iter();
    messages.map(|message| message["frames_hex"].as_array().unwrap().iter().map(bytes_of).collect()).collect()
}

/// What is compared of a payload, readable.
fn shown(payload: &[u8], mask: Mask) -> String {
    let mut text = String::new();
    let parts: &[&[u8]] = match mask {
        // Array of three, float; behind it the time.
        Mask::Time => &[&payload[..2], &payload[10..]],
        Mask::Ids => &[
            between(payload, b"parent_block_hash", b"token_ids"),
            // The tail of the prompt, before the first id that was chosen.
            &between(payload, b"token_ids", b"block_size")[..12],
            between(payload, b"block_size", b""),
        ],
        Mask::Identifier => {
            &[between(payload, b"token_ids", b"extra_keys"), between(payload, b"group_idx", b"")]
        }
    };
    for part in parts {
        for byte in *part {
            let letter = char::from(*byte);
            if letter.is_ascii_graphic() { text.push(letter) } else { write!(text, "<{byte:02x}>").unwrap() }
        }
        text.push('|');
    }
    text
}

/// Bytes from one word up to another, or to the end.
fn between<'a>(payload: &'a [u8], from: &[u8], to: &[u8]) -> &'a [u8] {
    let find = |word: &[u8]| payload.windows(word.len()).position(|window| window == word);
    let end = if to.is_empty() { payload.len() } else { find(to).unwrap() };
    &payload[find(from).unwrap()..end]
}

/// What is left out of a comparison.
#[derive(Debug, Clone, Copy)]
enum Mask {
    Time,
    /// Ids that the model chose, and the names of their blocks.
    Ids,
    /// A hash of media, which every frontend makes in its own way, and the names of their blocks.
    Identifier,
}

/// Recordings that are not equal, and what of them is left out.
fn mask_of(name: &str) -> Mask {
    match name {
        "kv-extended" => Mask::Ids,
        "kv-image-raw" => Mask::Identifier,
        _ => Mask::Time,
    }
}

/// A mock with the batches it has published until now.
struct Bench {
    mock: Running,
    client: InferenceClient<Channel>,
    replay: Replay,
    rank: u32,
    seen: u64,
}

impl Bench {
    async fn start(config: MockConfig) -> Self {
        Self::of_rank(Running::start(config).await, 0).await
    }

    async fn of_rank(mock: Running, rank: u32) -> Self {
        let (client, replay) = (mock.inference().await, Replay::connect(&mock, rank as usize).await);
        Self { mock, client, replay, rank, seen: 0 }
    }

    /// Asks what was asked and compares what is published. Returns whether the numbers agree too.
    async fn check(&mut self, name: &str) -> bool {
        let recording = fixtures::json("kv-events", name);
        if !recording["request"]["caused_by"].as_array().unwrap().is_empty() {
            self.client.generate(request_of(&recording)).await.unwrap();
        }
        let recorded = frames_of(&recording);
        let published = self.replay.since(self.seen).await;
        self.seen += published.len() as u64;
        let mask = mask_of(name);
        let show = |payloads: Vec<&[u8]>| -> Vec<String> {
            payloads.into_iter().map(|payload| shown(payload, mask)).collect()
        };
        let expected = show(recorded.iter().map(|frames| frames[2].as_ref()).collect());
        assert_eq!(show(published.iter().map(|batch| batch.payload.as_ref()).collect()), expected, "{name}");
        let numbers = recorded.iter().map(|frames| super::batch(frames).seq);
        numbers.eq(published.iter().map(|batch| batch.seq))
    }

    async fn reset(&self) {
        let (status, body) = self.mock.http("POST", "/reset_prefix_cache", "").await;
        assert_eq!((status, body.as_str()), (200, r#"{"success":true}"#), "rank {}", self.rank);
    }

    async fn pause_and_resume(&self, mode: PauseMode, clear_cache: Option<bool>) {
        let mut control = self.mock.control().await;
        control.pause_generation(PauseGenerationRequest { mode: mode as i32, clear_cache }).await.unwrap();
        control.resume_generation(ResumeGenerationRequest {}).await.unwrap();
    }
}

#[tokio::test]
async fn a_dense_engine_publishes_and_replays_as_recorded() {
    let mut bench = Bench::start(dense()).await;
    for name in ["stored", "reused", "extended", "salted", "branch", "short", "session"] {
        assert!(bench.check(&format!("kv-{name}")).await, "{name}: other numbers");
    }
    bench.reset().await;
    assert!(bench.check("kv-cleared-alone").await);
    assert!(bench.check("kv-cleared").await);
    bench.pause_and_resume(PauseMode::Abort, None).await;
    assert!(bench.check("kv-cleared-by-pause").await);
    bench.pause_and_resume(PauseMode::Keep, Some(false)).await;
    assert!(bench.check("kv-not-cleared-by-keep").await);
    for (name, start) in [("from-0", 0), ("from-3", 3), ("beyond", 1_000_000)] {
        let recorded = frames_of(&fixtures::json("kv-events", &format!("kv-replay-{name}")));
        let replayed = bench.replay.frames(start).await;
        let show = |replies: &[Vec<Bytes>]| -> Vec<(usize, Vec<Bytes>, u64, bool)> {
            let one = |frames: &Vec<Bytes>| {
                let last = frames.len() - 1;
                (frames.len(), frames[..last].to_vec(), super::batch(frames).seq, frames[last].is_empty())
            };
            replies.iter().map(one).collect()
        };
        assert_eq!(show(&replayed), show(&recorded), "{name}");
    }
    // Without a delimiter there is no answer: the next one is that to the next request.
    bench.replay.send(&[&[0; 8]]).await;
    assert_eq!(bench.replay.since(7).await, []);
}

#[tokio::test]
async fn adapters_publish_as_recorded() {
    for (id, names) in [(8, &["base", "", "salted", "other"][..]), (6, &["python"])] {
        let mut adapters: Vec<(String, String)> =
            (1..id).map(|id| (format!("filler-{id}"), "org/name".to_owned())).collect();
        adapters.push(("k".to_owned(), "/tmp/tito-lora/lora-a".to_owned()));
        adapters.push(("k2".to_owned(), "/tmp/tito-lora/lora-b".to_owned()));
        let config =
            MockConfig { enable_lora: true, lora_modules: adapters, kv_style: KvStyle::default(), ..dense() };
        let mut bench = Bench::start(config).await;
        for name in names {
            if *name == "python" {
                // Asked over HTTP by the adapter's name as the model; the same request with the field.
                let plain = request_of(&fixtures::json("kv-events", "kv-lora")).into_inner();
                bench.client.generate(plain).await.unwrap();
                let recorded = frames_of(&fixtures::json("kv-events", "kv-lora-python"));
                let published = bench.replay.since(0).await;
                let show = |payload: &Bytes| shown(payload, Mask::Time);
                assert_eq!(show(&published[0].payload), show(&recorded[0][2]));
                continue;
            }
            let dash = if name.is_empty() { "" } else { "-" };
            bench.check(&format!("kv-lora{dash}{name}")).await;
        }
    }
}

#[tokio::test]
async fn images_publish_as_recorded() {
    let mut bench = Bench::start(vision()).await;
    // The recorded engine had emptied its cache before.
    bench.reset().await;
    for name in ["a", "b", "none", "salted", "across-blocks", "raw", "raw-uuid"] {
        assert!(bench.check(&format!("kv-image-{name}")).await, "{name}: other numbers");
    }
}

#[tokio::test]
async fn pressure_removes_as_recorded() {
    let kv_style = KvStyle { hash_algorithm: HashAlgorithm::Sha256Cbor, ..KvStyle::default() };
    let config = MockConfig { num_gpu_blocks: 12, max_model_len: 256, kv_style, ..dense() };
    let mut bench = Bench::start(config).await;
    for name in ["0", "1", "2", "back"] {
        assert!(bench.check(&format!("kv-pressure-{name}")).await, "{name}: other numbers");
    }
}

#[tokio::test]
async fn ranks_publish_as_recorded() {
    for rank in 0..2 {
        let mock = Running::start(MockConfig { data_parallel_size: 2, ..dense() }).await;
        let mut bench = Bench::of_rank(mock, rank).await;
        bench.check(&format!("kv-dp-rank-{rank}")).await;
    }
}

/// So that a recording which comes later is not forgotten.
#[test]
fn every_recording_has_its_place() {
    assert_eq!(fixtures::names("kv-events").len(), 33, "each of them is named in this file");
}
