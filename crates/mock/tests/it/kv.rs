//! KV events over loopback sockets. Recorded batches are in [`recordings`].

use bytes::Bytes;
use futures_util::FutureExt;
use tito_mock::{EventEncoding, Fault, FaultSpec, KvEventsConfig, KvStyle, MockConfig, ReplayLayout};
use tito_test_support::wait::{wait_until, within};
use tonic::transport::Channel;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::media_item::Source;
use vllm_proto::{
    GenerateRequest, GetKvEventSourcesRequest, KvEventSource, MediaItem, Modality, PreprocessedMediaFeatures,
};
use zeromq::{DealerSocket, Socket, SocketRecv, SocketSend, SubSocket, ZmqMessage};

use crate::replay::{kv_events, vision};
use crate::support::{Running, finish, outputs, prompt, request};

mod faults;
mod recordings;

/// The sequence number of an end marker.
const END: u64 = u64::MAX;

fn config() -> MockConfig {
    MockConfig { kv_events: Some(kv_events()), ..MockConfig::new() }
}

async fn sources(mock: &Running) -> Vec<KvEventSource> {
    let reply = mock.control().await.get_kv_event_sources(GetKvEventSourcesRequest {}).await;
    reply.unwrap().into_inner().sources
}

fn reachable(endpoint: &str) -> String {
    endpoint.replace('*', "127.0.0.1")
}

/// A batch as a listener sees it.
#[derive(Debug, Clone, PartialEq)]
struct Batch {
    seq: u64,
    payload: Bytes,
}

/// A client of a replay socket.
struct Replay(DealerSocket);

impl Replay {
    async fn connect(mock: &Running, rank: usize) -> Self {
        let mut socket = DealerSocket::new();
        let endpoint = reachable(&sources(mock).await[rank].replay_endpoint);
        within("the replay socket", socket.connect(&endpoint)).await.unwrap();
        Self(socket)
    }

    async fn send(&mut self, frames: &[&[u8]]) {
        let frames: Vec<Bytes> = frames.iter().map(|frame| Bytes::copy_from_slice(frame)).collect();
        self.0.send(ZmqMessage::try_from(frames).unwrap()).await.unwrap();
    }

    async fn receive(&mut self) -> Vec<Bytes> {
        within("a replay", self.0.recv()).await.unwrap().into_vec()
    }

    /// All replies to a request, end marker included.
    async fn frames(&mut self, start: u64) -> Vec<Vec<Bytes>> {
        self.send(&[b"", &start.to_be_bytes()]).await;
        let mut replies = Vec::new();
        loop {
            replies.push(self.receive().await);
            let last = replies.last().unwrap();
            if last[last.len() - 2][..] == [0xff; 8] {
                return replies;
            }
        }
    }

    /// The kept batches from a number on.
    async fn since(&mut self, start: u64) -> Vec<Batch> {
        let mut batches: Vec<Batch> = self.frames(start).await.iter().map(|frames| batch(frames)).collect();
        assert_eq!(batches.pop(), Some(Batch { seq: END, payload: Bytes::new() }));
        batches
    }
}

/// Sequence number and payload are the last two frames.
fn batch(frames: &[Bytes]) -> Batch {
    let [.., seq, payload] = frames else { panic!("too few frames: {frames:?}") };
    Batch { seq: u64::from_be_bytes(seq.as_ref().try_into().unwrap()), payload: payload.clone() }
}

/// A subscriber that is known to get everything from now on.
struct Listener(SubSocket);

impl Listener {
    async fn join(mock: &Running, client: &mut InferenceClient<Channel>) -> (Self, u64) {
        let mut socket = SubSocket::new();
        let source = sources(mock).await.swap_remove(0);
        socket.connect(&reachable(&source.endpoint)).await.unwrap();
        socket.subscribe(&source.topic).await.unwrap();
        let joined = first_batch(&mut socket, client, &mut 1000).await;
        let last = mock.handle.kv_last_seq(0).unwrap();
        let mut listener = Self(socket);
        for seq in joined.seq + 1..=last {
            assert_eq!(listener.next().await.seq, seq);
        }
        (listener, last)
    }

    async fn frames(&mut self) -> Vec<Bytes> {
        within("a batch", self.0.recv()).await.unwrap().into_vec()
    }

    async fn next(&mut self) -> Batch {
        batch(&self.frames().await)
    }
}

/// PUB sockets drop what nobody has subscribed to, so batches are made until the first one arrives. `number` is that of the
/// next prompt.
async fn first_batch(
    socket: &mut SubSocket,
    client: &mut InferenceClient<Channel>,
    number: &mut u32,
) -> Batch {
    let mut first = Box::pin(socket.recv());
    loop {
        generate_on(client, 0, *number).await;
        *number += 1;
        if let Some(message) = (&mut first).now_or_never() {
            return batch(&message.unwrap().into_vec());
        }
        tokio::task::yield_now().await;
    }
}

/// A prompt of two full blocks of 32 tokens, computed on a rank, which makes exactly one batch.
async fn generate_on(client: &mut InferenceClient<Channel>, rank: u32, number: u32) {
    let mut asked = tonic::Request::new(request("r", &numbered(number), 1));
    asked.metadata_mut().insert("x-data-parallel-rank", rank.to_string().parse().unwrap());
    client.generate(asked).await.unwrap();
}

/// 70 ids that begin with the digits of a number.
fn numbered(number: u32) -> Vec<u32> {
    let digits = [number / 1000, number % 1000];
    digits.into_iter().chain(prompt(7, 68)).collect()
}

#[tokio::test]
async fn a_subscriber_sees_what_a_replay_tells() {
    let mock = Running::start(config()).await;
    let mut client = mock.inference().await;
    let (mut listener, last) = Listener::join(&mock, &mut client).await;
    let mut replay = Replay::connect(&mock, 0).await;
    for number in 1..=20 {
        generate_on(&mut client, 0, number).await;
        let frames = listener.frames().await;
        assert_eq!((frames.len(), &frames[0][..]), (3, &b"kv"[..]));
        let live = batch(&frames);
        assert_eq!(live.seq, last + u64::from(number));
        assert_eq!(replay.since(live.seq).await, [live]);
    }
    let whole = replay.since(0).await;
    assert_eq!(whole.len() as u64, last + 21);
    let state = mock.handle.kv_state(0).unwrap();
    assert_eq!(state.last_seq, Some(last + 20));
    assert_eq!(state.resident.len(), whole.len() * 2, "two blocks of each prompt");
    let listed = mock.json("/mock/kv").await["ranks"].clone();
    assert_eq!(listed, serde_json::json!([{ "rank": 0, "last_seq": last + 20, "resident": state.resident }]));
    generate_on(&mut client, 0, 1).await;
    assert_eq!(mock.handle.kv_state(0), Some(state), "reuse is not told");
    assert_eq!(mock.handle.kv_state(1), None);
}

#[tokio::test]
async fn every_rank_has_sockets_numbers_and_blocks_of_its_own() {
    let owned = MockConfig { data_parallel_start_rank: 1, data_parallel_size_local: Some(2), ..config() };
    let mock = Running::start(MockConfig { data_parallel_size: 4, ..owned }).await;
    let mut client = mock.inference().await;
    for (rank, number) in [(2, 0), (2, 1), (2, 2), (1, 0)] {
        generate_on(&mut client, rank, number).await;
    }
    let (mut one, mut two) = (Replay::connect(&mock, 0).await, Replay::connect(&mock, 1).await);
    let (one, two) = (one.since(0).await, two.since(0).await);
    assert_eq!((one.len(), two.len()), (1, 3));
    // The rank is the last byte; what comes before, time aside, is equal.
    let (one, two) = (&one[0].payload, &two[0].payload);
    assert_eq!((one.last(), two.last()), (Some(&1), Some(&2)));
    assert_eq!(one[10..one.len() - 1], two[10..two.len() - 1]);
    assert_eq!((mock.handle.kv_last_seq(1), mock.handle.kv_last_seq(2)), (Some(0), Some(2)));
    assert_eq!((mock.handle.kv_state(0), mock.handle.kv_state(3)), (None, None), "not owned");
}

#[tokio::test]
async fn an_endpoint_without_a_wildcard_is_connected_to_again_and_again() {
    let bound = async |endpoint: &str| {
        let mut socket = SubSocket::new();
        let endpoint = socket.bind(endpoint).await.unwrap().to_string();
        socket.subscribe("").await.unwrap();
        (socket, endpoint)
    };
    let (mut socket, endpoint) = bound("tcp://127.0.0.1:0").await;
    let events = KvEventsConfig { endpoint: endpoint.clone(), replay_endpoint: None, ..kv_events() };
    let mock = Running::start(MockConfig { kv_events: Some(events), ..config() }).await;
    assert_eq!(sources(&mock).await[0].endpoint, endpoint);
    let mut client = mock.inference().await;
    let mut number = 0;
    for _ in 0..2 {
        let first = first_batch(&mut socket, &mut client, &mut number).await;
        assert!(first.seq < u64::from(number));
        socket.close().await;
        socket = bound(&endpoint).await.0;
    }
}

#[tokio::test]
async fn encoding_layout_seed_and_buffer_are_as_configured() {
    let style = KvStyle {
        encoding: EventEncoding::Array,
        replay: ReplayLayout::NoTopic,
        hash_seed: Some("0".to_owned()),
        ..KvStyle::default()
    };
    let events = KvEventsConfig { buffer_steps: 3, ..kv_events() };
    let mock = Running::start(MockConfig { kv_style: style, kv_events: Some(events), ..config() }).await;
    let other = Running::start(config()).await;
    for number in 0..5 {
        generate_on(&mut mock.inference().await, 0, number).await;
        generate_on(&mut other.inference().await, 0, number).await;
    }
    let frames = Replay::connect(&mock, 0).await.frames(0).await;
    let seen: Vec<(usize, u64)> = frames.iter().map(|frames| (frames.len(), batch(frames).seq)).collect();
    assert_eq!(seen, [(3, 2), (3, 3), (3, 4), (3, END)], "no topic, and the oldest are forgotten");
    let payload = &frames[0][2];
    // [time, [[12 items, "BlockStored"
    assert_eq!((payload[0], payload[10], payload[11]), (0x93, 0x91, 0x9c));
    assert_eq!(payload[12..24], *b"\xabBlockStored");
    let [resident, of_other] = [&mock, &other].map(|mock| mock.handle.kv_state(0).unwrap().resident);
    assert!(resident.is_disjoint(&of_other));
}

/// A request that holds its blocks from its first token on, until the stream is dropped.
async fn stuck(mock: &Running) -> tonic::Response<tonic::Streaming<vllm_proto::GenerateResponse>> {
    let stalled =
        FaultSpec { request: Some("stuck".to_owned()), ..FaultSpec::new(Fault::Stall { at_token: 1 }) };
    mock.handle.add_fault(stalled).unwrap();
    let before = mock.handle.kv_last_seq(0);
    let stream = mock.inference().await.generate_stream(request("stuck", &numbered(2), 5)).await.unwrap();
    wait_until("its batch", || mock.handle.kv_last_seq(0) > before).await;
    stream
}

/// Cached tokens of the prompt of a number.
async fn cached(mock: &Running, number: u32) -> Option<u32> {
    let answer = mock.inference().await.generate(request("again", &numbered(number), 1)).await;
    finish(&outputs(answer.unwrap().into_inner())).num_cached_tokens
}

#[tokio::test]
async fn a_reset_waits_for_its_blocks_and_is_told_with_the_next_step() {
    let mock = Running::start(config()).await;
    let mut client = mock.inference().await;
    generate_on(&mut client, 0, 1).await;
    let stream = stuck(&mock).await;
    let reset = async || mock.http("POST", "/reset_prefix_cache", "").await.1;
    assert_eq!(reset().await, r#"{"success":false}"#, "blocks are held");
    drop(stream);
    mock.wait_for_state("stuck", "aborted").await;
    assert_eq!(reset().await, r#"{"success":true}"#);
    assert_eq!(mock.handle.kv_state(0).unwrap().resident.len(), 4, "not told yet");
    generate_on(&mut client, 0, 3).await;
    let state = mock.handle.kv_state(0).unwrap();
    assert_eq!((state.last_seq, state.resident.len()), (Some(2), 2));
}

#[tokio::test]
async fn a_reset_of_what_runs_does_not_wait_for_its_blocks() {
    let mock = Running::start(config()).await;
    let _stream = stuck(&mock).await;
    generate_on(&mut mock.inference().await, 0, 1).await;
    assert_eq!(cached(&mock, 1).await, Some(64));
    let path = "/reset_prefix_cache?reset_running_requests=";
    let reset = async |how: &str| mock.http("POST", &format!("{path}{how}"), "").await;
    assert_eq!(reset("True&reset_external=true").await, (200, r#"{"success":true}"#.to_owned()));
    assert_eq!(cached(&mock, 1).await, Some(0));
    assert_eq!(reset("perhaps").await.0, 400);
}

/// What a listener believes under pressure is what the cache holds.
#[tokio::test]
async fn removals_keep_the_record_as_large_as_the_cache() {
    let mock = Running::start(MockConfig { num_gpu_blocks: 12, max_model_len: 256, ..config() }).await;
    let mut client = mock.inference().await;
    for number in 0..200 {
        let asked = request("r", &numbered(number % 7), 1 + number % 90);
        client.generate(asked).await.unwrap();
        let resident = mock.handle.kv_state(0).unwrap().resident.len();
        assert!(resident <= 11, "{resident}");
    }
    assert!(mock.handle.kv_last_seq(0).unwrap() > 100);
    assert_eq!(cached(&mock, 199 % 7).await, Some(64), "what the record says is there is found");
}

const KWARGS: &[u8] =
    b"\x81\xa1x\x82\xa4data\x93\xa5uint8\x91\x01\xc7\x01\x03\x00\xa5field\x92\xa7batched\x81\xabkeep_on_cpu\xc3";

fn image(identifier: &str, offset: u64) -> MediaItem {
    let (kwargs, identifier) = (Some(KWARGS.to_vec()), identifier.to_owned());
    let features = PreprocessedMediaFeatures {
        kwargs,
        identifier,
        offset,
        length: 4,
        ..PreprocessedMediaFeatures::default()
    };
    let source = Some(Source::Features(features));
    MediaItem { modality: Modality::Image as i32, source, ..MediaItem::default() }
}

#[tokio::test]
async fn images_with_one_layout_have_blocks_and_output_of_their_own() {
    let mock = Running::start(vision()).await;
    let mut client = mock.inference().await;
    let mut seen = Vec::new();
    for (media, cached) in [
        (vec![], 0),
        (vec![image("a", 40)], 32),
        (vec![image("b", 40)], 32),
        (vec![image("a", 40)], 64),
        (vec![image("a", 41)], 32),
        (vec![image("a", 30)], 0),
    ] {
        let asked = GenerateRequest { media, ..request("r", &prompt(1, 70), 4) };
        let output = outputs(client.generate(asked).await.unwrap().into_inner());
        assert_eq!(finish(&output).num_cached_tokens, Some(cached), "image {}", seen.len());
        seen.push(output.token_ids);
    }
    assert_eq!(seen[1], seen[3]);
    for (one, other) in [(0, 1), (1, 2), (1, 4), (1, 5)] {
        assert_ne!(seen[one], seen[other], "{one} and {other}");
    }
}
