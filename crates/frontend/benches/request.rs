//! What one request costs this crate: `cargo bench -p tito-frontend`.
//!
//! The frontend runs on threads of its own over an engine that answers at once; raw keep-alive clients on other
//! threads ask for 16 tokens after 512. Printed is the CPU time of the frontend's threads alone, sockets included.
//!
//! The lines of ratios are that time over the time of a reference, which takes turns with the frontend: a server on as many
//! threads of tokio that reads the same bytes and writes one fixed reply. `cargo xtask ratios` compares them with stored ones.
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt, stream};
use tito_engine::{BoxEngine, Engine, TokenStream};
use tito_formats::{OpenAiCompletions, VllmGenerate};
use tito_frontend::{FormatRoute, FrontendConfig, Operator, Parts, Route};
use tito_runtime::{ShutdownConfig, Tasks, registry, reload};
use tito_types::{
    Catalog, CatalogModel, ClearReport, Delivery, Delta, EngineError, Extras, Finish, FinishReason,
    GenerateRequest, PromptOutput, RouteReport, WorkerId, WorkerReport,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

const PROMPT_TOKENS: u32 = 512;
const OUTPUT_TOKENS: u32 = 16;
const CLIENTS: usize = 16;
const REQUESTS_EACH: usize = 4_000;
/// How often frontend and reference take turns; the ratio is the median over them.
const TURNS: usize = 50;
/// Threads of the frontend; the name is how their time is found.
const THREADS: usize = 1;
const THREAD_NAME: &str = "frontend";
const REFERENCE_NAME: &str = "reference";
/// What the reference answers, whatever it reads.
const REFERENCE_REPLY: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// Nobody asks it anything.
struct Silent;

impl Operator for Silent {
    fn workers(&self) -> Vec<WorkerReport> {
        Vec::new()
    }

    fn explain(&self, request: &GenerateRequest) -> RouteReport {
        let prompt_tokens = request.prompt.len() as u64;
        RouteReport {
            policy: String::new(),
            prompt_tokens,
            chosen: None,
            rule: None,
            reason: None,
            candidates: Vec::new(),
        }
    }

    fn clear_caches(
        &self,
        _: Vec<WorkerId>,
        _: bool,
    ) -> BoxFuture<'static, Result<Vec<ClearReport>, EngineError>> {
        ready(Ok(Vec::new())).boxed()
    }
}

/// Answers at once: whole, or token by token with a wait between two.
struct Instantly;

impl Engine for Instantly {
    async fn generate(&self, request: GenerateRequest) -> Result<TokenStream, EngineError> {
        let prompt_tokens = request.prompt.len() as u32;
        if request.delivery == Delivery::Whole {
            return Ok(TokenStream::whole(delta(0..OUTPUT_TOKENS, prompt_tokens)));
        }
        Ok(TokenStream::new(
            1,
            stream::unfold(0, move |token| async move {
                tokio::task::yield_now().await;
                (token < OUTPUT_TOKENS).then(|| (Ok(delta(token..token + 1, prompt_tokens)), token + 1))
            }),
        ))
    }
}

fn delta(tokens: std::ops::Range<u32>, prompt_tokens: u32) -> Delta {
    let prompt =
        (tokens.start == 0).then(|| Box::new(PromptOutput { prompt_tokens, ..PromptOutput::default() }));
    let finish = (tokens.end == OUTPUT_TOKENS).then(|| {
        Box::new(Finish {
            reason: FinishReason::Length,
            stop: None,
            output_tokens: OUTPUT_TOKENS,
            cached_tokens: Some(0),
            extras: Extras::default(),
        })
    });
    let text = "word ".repeat(tokens.len());
    let token_ids = tokens.map(|token| 1_000 + token).collect();
    Delta { index: 0, prompt, token_ids, text, logprobs: Vec::new(), finish }
}

fn main() {
    let addr = start();
    for (name, path, body) in [
        ("generate-unary", "/inference/v1/generate", body("token_ids", false)),
        ("generate-streamed", "/inference/v1/generate", body("token_ids", true)),
        ("completions-unary", "/v1/completions", body("prompt", false)),
        ("completions-streamed", "/v1/completions", body("prompt", true)),
    ] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let reference = start_reference(request.len());
        load(addr, &request, REQUESTS_EACH / 10);
        load(reference, &request, REQUESTS_EACH / 10);
        let (mut cpu, mut wall) = (Duration::ZERO, Duration::ZERO);
        let mut ratios = Vec::with_capacity(TURNS);
        for _ in 0..TURNS {
            let (before, started) = (cpu_time(THREAD_NAME), Instant::now());
            load(addr, &request, REQUESTS_EACH / TURNS);
            wall += started.elapsed();
            let turn = cpu_time(THREAD_NAME).saturating_sub(before);
            cpu += turn;
            let before = cpu_time(REFERENCE_NAME);
            load(reference, &request, REQUESTS_EACH / TURNS);
            ratios.push(turn.as_secs_f64() / cpu_time(REFERENCE_NAME).saturating_sub(before).as_secs_f64());
        }
        let requests = (CLIENTS * REQUESTS_EACH) as u32;
        let rate = f64::from(requests) / wall.as_secs_f64();
        println!("{name:<22} {:>7.1} µs CPU per request, {rate:>7.0} requests/s", micros(cpu / requests));
        ratios.sort_by(f64::total_cmp);
        println!("ratio frontend-{name} {:.3}", ratios[TURNS / 2]);
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn body(prompt: &str, stream: bool) -> String {
    let ids: Vec<String> = (0..PROMPT_TOKENS).map(|index| (index * 37 % 50_000).to_string()).collect();
    let ids = ids.join(",");
    if prompt == "prompt" {
        return format!(r#"{{"model":"m","prompt":[{ids}],"max_tokens":{OUTPUT_TOKENS},"stream":{stream}}}"#);
    }
    format!(r#"{{"token_ids":[{ids}],"sampling_params":{{"max_tokens":{OUTPUT_TOKENS}}},"stream":{stream}}}"#)
}

/// A frontend on threads of its own, for as long as the process runs.
fn start() -> SocketAddr {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name(THREAD_NAME)
        .enable_all()
        .build()
        .expect("a runtime");
    let model = CatalogModel {
        names: vec!["m".to_owned()],
        source: "m".to_owned(),
        parent: None,
        max_model_len: 8_192,
        n_max: 8,
        routable: true,
    };
    let (sender, catalog) = watch::channel(Arc::new(Catalog { models: vec![model], reasons: Vec::new() }));
    let mut registry = registry();
    let hour = Duration::from_secs(3_600);
    let (sequence, shutdown, trigger) = ShutdownConfig { unready: hour, drain: hour }.build();
    let tasks = Tasks::new(trigger, &mut registry);
    let (reload_trigger, reload) = reload();
    let parts = Parts {
        engine: BoxEngine::new(Instantly),
        operator: Arc::new(Silent),
        catalog,
        formats: vec![
            FormatRoute {
                path: "/inference/v1/generate",
                route: Route::Generate,
                format: Box::new(VllmGenerate),
            },
            FormatRoute {
                path: "/v1/completions",
                route: Route::Completions,
                format: Box::new(OpenAiCompletions),
            },
        ],
        shutdown,
        reload,
        tasks: tasks.clone(),
    };
    let config = FrontendConfig::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let frontend = {
        let _runtime = runtime.enter();
        config.build(parts, &mut registry).expect("a free port")
    };
    let addr = frontend.local_addr();
    runtime.block_on(async { drop(tasks.spawn_owned("frontend", frontend.run(Arc::new(registry)))) });
    thread::spawn(move || {
        runtime.block_on(std::future::pending::<()>());
        drop((sequence, sender, reload_trigger));
    });
    addr
}

/// The reference for requests of this many bytes, for as long as the process runs.
fn start_reference(request_bytes: usize) -> SocketAddr {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name(REFERENCE_NAME)
        .enable_all()
        .build()
        .expect("a runtime");
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        // On a worker thread, not on this one, whose time is not counted.
        let accepting = runtime.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                connections.spawn(async move {
                    let mut request = vec![0; request_bytes];
                    while socket.read_exact(&mut request).await.is_ok() {
                        socket.write_all(REFERENCE_REPLY).await.expect("the client reads");
                    }
                });
            }
        });
        runtime.block_on(accepting)
    });
    addr
}

/// CPU time of the threads of this name so far.
fn cpu_time(thread_name: &str) -> Duration {
    let threads = fs::read_dir("/proc/self/task").expect("Linux");
    let nanos = threads.flatten().filter_map(|thread| {
        let name = fs::read_to_string(thread.path().join("comm")).ok()?;
        let times = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        (name.trim_end() == thread_name).then(|| times.split(' ').next()?.parse::<u64>().ok())?
    });
    Duration::from_nanos(nanos.sum())
}

fn load(addr: SocketAddr, request: &str, requests_each: usize) {
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(move || {
                let socket = TcpStream::connect(addr).expect("the frontend listens");
                socket.set_nodelay(true).expect("a TCP socket");
                let mut reader = BufReader::new(socket);
                for _ in 0..requests_each {
                    reader.get_mut().write_all(request.as_bytes()).expect("the frontend reads");
                    read_reply(&mut reader);
                }
            });
        }
    });
}

/// Reads one reply, of known length or in chunks, and insists that it is a good one.
fn read_reply(reader: &mut BufReader<TcpStream>) {
    let mut line = String::new();
    let mut length = None;
    let mut next = |reader: &mut BufReader<TcpStream>| {
        line.clear();
        reader.read_line(&mut line).expect("the frontend answers");
        line.trim_end().to_owned()
    };
    assert_eq!(next(reader), "HTTP/1.1 200 OK");
    loop {
        let header = next(reader);
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = Some(value.parse::<usize>().expect("a length"));
        }
    }
    if let Some(length) = length {
        reader.read_exact(&mut vec![0; length]).expect("a whole body");
        return;
    }
    loop {
        let chunk = usize::from_str_radix(&next(reader), 16).expect("a chunk length");
        reader.read_exact(&mut vec![0; chunk + 2]).expect("a whole chunk");
        if chunk == 0 {
            return;
        }
    }
}
