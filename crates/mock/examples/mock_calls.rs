//! How many calls of 512 ids in and 16 out an instant mock serves over loopback, client included:
//! `cargo run --release -p tito-mock --example mock_calls -- [unary|stream] [concurrency] [calls] [kv]`. With `kv` it
//! publishes KV events meanwhile.

use std::net::SocketAddr;
use std::time::Instant;

use tito_mock::{KvEventsConfig, MockConfig};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use vllm_proto::generate_request::Prompt;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::{GenerateRequest, ResponseOptions, StoppingCriteria, TokenIds};

const PROMPT_TOKENS: u32 = 512;
const OUTPUT_TOKENS: u32 = 16;
const CONNECTIONS: usize = 4;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the number is what this is for")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| {
        arguments.get(index).map_or(Ok(default), |argument| argument.parse::<usize>())
    };
    let stream = arguments.first().is_some_and(|mode| mode == "stream");
    let (concurrency, calls) = (number(1, 64)?.max(1), number(2, 50_000)?);
    let events = KvEventsConfig {
        enable_kv_cache_events: true,
        endpoint: "tcp://*:0".to_owned(),
        ..KvEventsConfig::default()
    };
    let kv_events = arguments.get(3).is_some_and(|events| events == "kv").then_some(events);
    let sizes = MockConfig { max_num_seqs: 1024, max_num_batched_tokens: 16_384, ..MockConfig::new() };
    // A pool that forgets, so that blocks are stored all the time.
    let mock = MockConfig { num_gpu_blocks: 2048, kv_events, ..sizes }.build().await?;
    let address = mock.grpc_addr();
    let stop = CancellationToken::new();
    let mut serving = JoinSet::new();
    serving.spawn(mock.run(stop.clone()));
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(connect(address).await?);
    }
    let started = Instant::now();
    let mut workers = JoinSet::new();
    for worker in 0..concurrency {
        workers.spawn(work(clients[worker % CONNECTIONS].clone(), worker, calls / concurrency, stream));
    }
    let mut tokens = 0;
    while let Some(worker) = workers.join_next().await {
        tokens += worker??;
    }
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(tokens, calls / concurrency * concurrency * OUTPUT_TOKENS as usize, "every token came");
    println!(
        "{:.0} calls/s, {:.0} tokens/s",
        tokens as f64 / f64::from(OUTPUT_TOKENS) / seconds,
        tokens as f64 / seconds
    );
    stop.cancel();
    while let Some(served) = serving.join_next().await {
        served??;
    }
    Ok(())
}

async fn connect(address: SocketAddr) -> Result<InferenceClient<Channel>, Failure> {
    Ok(InferenceClient::new(Endpoint::from_shared(format!("http://{address}"))?.connect().await?))
}

async fn work(
    mut client: InferenceClient<Channel>,
    worker: usize,
    calls: usize,
    stream: bool,
) -> Result<usize, tonic::Status> {
    let mut tokens = 0;
    for call in 0..calls {
        let ids =
            (0..PROMPT_TOKENS).map(|index| (index * 7 + (worker * 1000 + call) as u32) % 1000).collect();
        let request = GenerateRequest {
            prompt: Some(Prompt::TokenIds(TokenIds { ids })),
            stopping: Some(StoppingCriteria { max_new_tokens: OUTPUT_TOKENS, ..StoppingCriteria::default() }),
            response: Some(ResponseOptions { output_token_ids: true, ..ResponseOptions::default() }),
            ..GenerateRequest::default()
        };
        if stream {
            let mut stream = client.generate_stream(request).await?.into_inner();
            while let Some(message) = stream.message().await? {
                tokens += message.outputs.map_or(0, |output| output.num_tokens as usize);
            }
        } else {
            let reply = client.generate(request).await?.into_inner();
            tokens += reply.outputs.map_or(0, |output| output.num_tokens as usize);
        }
    }
    Ok(tokens)
}
