//! Records how a real engine serves a trace of conversations, for `tito replay` to be held against.
//!
//! `cargo xtask anchor` starts the engine and runs this. Sessions of several turns arrive at random; a turn's prompt is
//! the one before, what the engine answered, and new tokens. Each request is one line in the format of `tito replay`, with
//! what was measured beside it: so the recording is the trace, too.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use vllm_proto::generate_request::Prompt;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::{GenerateRequest, ResponseOptions, StoppingCriteria, TokenIds};

mod blocks;
mod plan;

use blocks::Blocks;
use plan::{Plan, Session};

/// Longest wait for one reply: many times what the slowest takes.
const REPLY_LIMIT: Duration = Duration::from_secs(120);
/// Requests that wake the engine's code paths before the clock starts.
const WARM_UP_TOKENS: [u32; 4] = [8, 200, 900, 1900];

/// One request as it was sent and answered. Times since the recording's start.
struct Served {
    session: usize,
    sent: Duration,
    first_token: Duration,
    ended: Duration,
    cached_tokens: u32,
    prompt: Vec<u32>,
    output: Vec<u32>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what| arguments.next().context(what);
    let address = next("which engine? HOST:PORT of its gRPC services")?;
    let path = PathBuf::from(next("where to? a file for the recording")?);
    let block_tokens: u32 = next("what is the engine's block size in tokens?")?.parse()?;
    let plan = Plan {
        seed: next("which seed?")?.parse()?,
        sessions_per_second: next("how many sessions a second on average?")?.parse()?,
        seconds: next("for how many seconds?")?.parse()?,
    };
    let channel = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).connect().await?;
    let client = InferenceClient::new(channel);
    for (at, tokens) in WARM_UP_TOKENS.into_iter().enumerate() {
        let prompt = (0..tokens).map(|token| (token * 7 + at as u32) % 1000).collect();
        ask(&client, prompt, 16).await?;
    }
    let served = serve(&client, plan.sessions()).await?;
    std::fs::write(&path, recording(served, block_tokens)).with_context(|| path.display().to_string())
}

/// Runs all sessions to their end.
async fn serve(client: &InferenceClient<Channel>, sessions: Vec<Session>) -> Result<Vec<Served>> {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for (index, session) in sessions.into_iter().enumerate() {
        running.spawn(converse(client.clone(), start, index, session));
    }
    let mut served = Vec::new();
    while let Some(session) = running.join_next().await {
        served.extend(session??);
    }
    served.sort_by_key(|request| request.sent);
    Ok(served)
}

async fn converse(
    client: InferenceClient<Channel>,
    start: Instant,
    index: usize,
    session: Session,
) -> Result<Vec<Served>> {
    let mut served = Vec::new();
    let mut prompt = Vec::new();
    let mut due = start + session.start;
    for plan in session.turns {
        prompt.extend(plan.tokens);
        tokio::time::sleep_until(due).await;
        let sent = start.elapsed();
        let (output, cached_tokens, first_token, ended) = ask(&client, prompt.clone(), plan.output).await?;
        served.push(Served {
            session: index,
            sent,
            first_token: first_token - start,
            ended: ended - start,
            cached_tokens,
            prompt: prompt.clone(),
            output: output.clone(),
        });
        prompt.extend(output);
        due = ended + plan.think;
    }
    Ok(served)
}

/// The output of one request, its cached tokens, and when its first and last token came.
async fn ask(
    client: &InferenceClient<Channel>,
    prompt: Vec<u32>,
    tokens: u32,
) -> Result<(Vec<u32>, u32, Instant, Instant)> {
    let request = GenerateRequest {
        prompt: Some(Prompt::TokenIds(TokenIds { ids: prompt })),
        temperature: Some(0.0),
        stopping: Some(StoppingCriteria { max_new_tokens: tokens, ignore_eos: true, ..Default::default() }),
        // Text would hold tokens back until they are whole characters.
        response: Some(ResponseOptions {
            output_token_ids: true,
            output_text: Some(false),
            ..Default::default()
        }),
        ..Default::default()
    };
    let reading = async {
        let mut messages = client.clone().generate_stream(request).await?.into_inner();
        let (mut output, mut cached, mut first) = (Vec::new(), None, None);
        while let Some(message) = messages.message().await? {
            let Some(part) = message.outputs else { continue };
            if !part.token_ids.is_empty() {
                first.get_or_insert_with(Instant::now);
            }
            output.extend(part.token_ids);
            if let Some(finish) = part.finish_info {
                cached = finish.num_cached_tokens;
            }
        }
        anyhow::Ok((output, cached, first, Instant::now()))
    };
    let (output, cached, first, ended) = tokio::time::timeout(REPLY_LIMIT, reading).await??;
    ensure!(output.len() == tokens as usize, "asked for {tokens} tokens and got {}", output.len());
    let cached = cached.context("the engine does not say how much was cached")?;
    Ok((output, cached, first.context("a reply without a token")?, ended))
}

/// One line per request, by arrival.
fn recording(served: Vec<Served>, block_tokens: u32) -> String {
    let mut blocks = Blocks::new(block_tokens);
    let mut ended = BTreeMap::new();
    let mut text = String::new();
    for request in served {
        let tokens = [request.prompt.as_slice(), &request.output].concat();
        let full = request.prompt.len() / block_tokens as usize;
        let mut ids = blocks.ids(&tokens);
        let output_ids = ids.split_off(full);
        let millis = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        let before = ended.insert(request.session, request.ended);
        let mut line = serde_json::json!({
            "timestamp": millis(request.sent),
            "session_id": format!("{}", request.session),
            "input_length": request.prompt.len(),
            "output_length": request.output.len(),
            "hash_ids": ids,
            "output_hash_ids": output_ids,
            "ttft_ms": millis(request.first_token.saturating_sub(request.sent)),
            "e2e_ms": millis(request.ended.saturating_sub(request.sent)),
            "cached_tokens": request.cached_tokens,
        });
        if let Some(before) = before {
            line["delay"] = millis(request.sent.saturating_sub(before)).into();
        }
        text.push_str(&line.to_string());
        text.push('\n');
    }
    text
}
