//! `tito demo`: the whole product on simulated engines, with nothing else to start.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tito_dataplane::AdmitConfig;
use tito_engine_vllm::VllmConfig;
use tito_frontend::FrontendConfig;
use tito_kv_index::IndexConfig;
use tito_mock::{KvEventsConfig, Mock, MockConfig, MockHandle, Timing};
use tito_policy::PolicyKind;
use tito_router::RouteConfig;
use tito_runtime::{OnError, ShutdownConfig, Tasks};
use tokio_util::sync::CancellationToken;

use crate::args::DemoArgs;
use crate::process;
use crate::serve::Server;
use crate::settings::{Settings, fleet_config};

mod client;

/// The model that the simulated engines serve.
const MODEL: &str = "mock-model";
/// Slow enough that requests overlap, and fast enough not to wait for.
const TIMING: Timing = Timing { step: Duration::from_millis(20), speed: 1.0, ..Timing::INSTANT };
/// A demo that takes longer than this to come up is broken.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// The engines tell what they store, so that requests find their prefixes again.
const EVENTS: &str =
    r#"{"enable_kv_cache_events":true,"endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0"}"#;
/// Requests that are sent, and tokens that each asks for.
const REQUESTS: usize = 4;
const TOKENS: usize = 6;
/// Requests that may wait, and for how long.
const QUEUE_REQUESTS: usize = 1024;
const QUEUE_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &DemoArgs) -> ExitCode {
    process::block_on(demo(args))
}

async fn demo(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let mut mocks = Vec::new();
    for _ in 0..args.engines {
        let events = KvEventsConfig::parse(EVENTS).context("read the demo's own event settings")?;
        let config = MockConfig {
            model: MODEL.to_owned(),
            timing: TIMING,
            kv_events: Some(events),
            ..MockConfig::new()
        };
        mocks.push(config.build().await.context("start a simulated engine")?);
    }
    let handles: Vec<_> = mocks.iter().map(|mock| (mock.grpc_addr(), mock.handle())).collect();
    let server = Server::build(settings(args.port, &mocks))?.ended_by_signals()?;
    let engines: Vec<_> = mocks.iter().map(|mock| mock.grpc_addr().to_string()).collect();
    println!("{} simulated vLLM engines: {}", engines.len(), engines.join(", "));
    println!("tito serve listens on {}", server.url());

    let (url, mut catalog, trigger) = (server.url(), server.catalog(), server.trigger());
    let tasks = Tasks::new(trigger.clone(), &mut tito_runtime::registry());
    let stop = CancellationToken::new();
    for mock in mocks {
        let stop = stop.clone();
        tasks.spawn("mock", OnError::Stop, async move {
            mock.run(stop).await?;
            Ok(())
        });
    }
    let exit = args.exit;
    let (done, outcome) = tokio::sync::oneshot::channel();
    tasks.spawn("requests", OnError::Log, async move {
        let ready = catalog.wait_for(|catalog| catalog.reasons.is_empty());
        let ready = tokio::time::timeout(READY_TIMEOUT, ready).await.is_ok_and(|seen| seen.is_ok());
        let sent = if ready {
            requests(&url, &handles).await
        } else {
            Err(anyhow::anyhow!("the engines were not ready within {READY_TIMEOUT:?}"))
        };
        match &sent {
            Ok(()) if exit => trigger.fire("the demo is over"),
            Ok(()) => invite(&url),
            Err(_) => trigger.fire("the demo failed"),
        }
        let _ = done.send(sent);
        Ok(())
    });
    let served = server.run().await;
    stop.cancel();
    tasks.stop().await;
    let served = served?;
    match outcome.await {
        Ok(Ok(())) => Ok(served),
        Ok(Err(error)) => Err(error),
        Err(_) => bail!("ended before the requests were answered"),
    }
}

fn settings(port: u16, mocks: &[Mock]) -> Settings {
    let engine = |mock: &Mock| VllmConfig {
        host: mock.grpc_addr().ip().to_string(),
        port: mock.grpc_addr().port(),
        tls: None,
        channels: 1,
        connect_timeout: READY_TIMEOUT,
        stall_timeout: None,
        response_bytes_max: 64 << 20,
        pixels: None,
        metrics: None,
    };
    Settings {
        frontend: FrontendConfig::new(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        engines: mocks.iter().map(engine).collect(),
        fleet: fleet_config(),
        index: IndexConfig { bytes_max: 64 << 20 },
        routing: RouteConfig::new(PolicyKind::Kv, 0),
        admission: AdmitConfig {
            in_flight_max: 1024,
            queue_requests_max: QUEUE_REQUESTS,
            queue_timeout: QUEUE_TIMEOUT,
        },
        shutdown: ShutdownConfig { unready: Duration::ZERO, drain: Duration::from_secs(5) },
    }
}

/// Sends the requests side by side and prints what was sent, what came back and which engine served it.
async fn requests(url: &str, engines: &[(SocketAddr, MockHandle)]) -> anyhow::Result<()> {
    let exchanges = (0..REQUESTS).map(|at| async move {
        let (id, stream) = (format!("demo-{at}"), at == REQUESTS - 1);
        let body = json!({
            "token_ids": (0..8).map(|token| token + 100 * (at + 1)).collect::<Vec<_>>(),
            "sampling_params": {"max_tokens": TOKENS},
            "stream": stream,
        });
        let reply = client::post(url, "/inference/v1/generate", &id, &body).await?;
        Ok::<_, anyhow::Error>((id, stream, body, reply))
    });
    for (id, stream, body, reply) in try_join_all(exchanges).await? {
        println!("\n> POST /inference/v1/generate  X-Request-Id: {id}\n> {body}");
        for line in reply.lines().filter(|line| !line.is_empty()) {
            println!("< {line}");
        }
        let tokens = if stream { streamed_tokens(&reply)? } else { tokens(&serde_json::from_str(&reply)?) };
        ensure!(tokens == TOKENS, "asked for {TOKENS} tokens and got {tokens}");
        let saw =
            |engine: &MockHandle| engine.requests().iter().any(|entry| entry.request_id.starts_with(&id));
        let served = engines.iter().find(|(_, engine)| saw(engine));
        println!("{tokens} tokens from engine {}", served.context("no engine saw the request")?.0);
    }
    Ok(())
}

fn streamed_tokens(reply: &str) -> anyhow::Result<usize> {
    ensure!(reply.ends_with("data: [DONE]\n\n"), "the stream did not end");
    let events =
        reply.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|event| *event != "[DONE]");
    events.map(|event| Ok(tokens(&serde_json::from_str(event)?))).sum()
}

fn tokens(reply: &Value) -> usize {
    reply["choices"][0]["token_ids"].as_array().map_or(0, Vec::len)
}

fn invite(url: &str) {
    let body = r#"{"token_ids":[1,2,3],"sampling_params":{"max_tokens":8}}"#;
    println!("\nThe server stays up; try it (Ctrl-C ends it):");
    println!("  curl {url}/inference/v1/generate -H 'Content-Type: application/json' -d '{body}'");
}
