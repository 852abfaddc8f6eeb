//! A scripted HTTP server for tests, over memory or TCP.
//!
//! It writes raw bytes, so that a reply can be split, delayed or cut anywhere.

use std::future::{Future, ready};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_rustls::TlsAcceptor;

use crate::config::{
    Api, BenchConfig, Lengths, Limits, Load, PrefixConfig, PromptSource, ReportConfig, Stop, Target, Trust,
    WorkloadConfig, defaults,
};
use crate::connection::Transport;
use crate::goodput::Slo;
use crate::pacer::Pacer;
use crate::progress::{Progress, Silent};
use crate::report::Report;
use crate::run::run_over;
use crate::workload::Body;

/// A request as the server saw it.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Requests seen before this one, over all connections.
    pub(crate) number: u64,
    /// Request line and headers.
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) media_type: &'static str,
    /// Each piece is a chunk of its own.
    pub(crate) pieces: Vec<Vec<u8>>,
    /// Waited for before each piece.
    pub(crate) gap: Duration,
    /// Nothing is written before this moment.
    pub(crate) not_before: Option<Instant>,
    /// Close the connection after the pieces: before the end of the body, or after it.
    pub(crate) close: Option<Close>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    BeforeEnd,
    AfterEnd,
}

impl Answer {
    pub(crate) fn json(body: &str) -> Self {
        let pieces = vec![body.as_bytes().to_vec()];
        let gap = Duration::ZERO;
        Self { status: 200, media_type: "application/json", pieces, gap, not_before: None, close: None }
    }

    pub(crate) fn events(pieces: &[&str]) -> Self {
        let pieces = pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect();
        Self { pieces, media_type: "text/event-stream", ..Self::json("") }
    }

    /// The same bytes, one per piece.
    pub(crate) fn byte_by_byte(mut self) -> Self {
        self.pieces = self.pieces.concat().iter().map(|byte| vec![*byte]).collect();
        self
    }
}

type Script = dyn Fn(Asked) -> Answer + Send + Sync;

/// A server reached through pipes in memory, so that a paused clock sees all there is to wait for.
pub(crate) struct Memory {
    script: Arc<Script>,
    asked: Arc<AtomicU64>,
    /// Bytes a pipe holds before its writer waits.
    pipe_bytes: usize,
    connections: Arc<Mutex<JoinSet<()>>>,
}

impl Memory {
    pub(crate) fn new(pipe_bytes: usize, script: impl Fn(Asked) -> Answer + Send + Sync + 'static) -> Self {
        let asked = Arc::new(AtomicU64::new(0));
        Self { script: Arc::new(script), asked, pipe_bytes, connections: Arc::default() }
    }

    /// The server's side of each connection; it ends when its client has gone.
    pub(crate) fn connections(&self) -> Arc<Mutex<JoinSet<()>>> {
        Arc::clone(&self.connections)
    }
}

impl Transport for Memory {
    type Io = DuplexStream;

    async fn connect(&self) -> io::Result<DuplexStream> {
        let (client, server) = duplex(self.pipe_bytes);
        let (script, asked) = (Arc::clone(&self.script), Arc::clone(&self.asked));
        // An error is the client leaving; the client's own report tells that better.
        self.connections.lock().unwrap().spawn(async move { drop(serve(server, &*script, &asked).await) });
        Ok(client)
    }
}

/// A server on a port of its own; it ends with the value.
pub(crate) struct OverTcp {
    pub(crate) url: String,
    _tasks: JoinSet<()>,
}

impl OverTcp {
    pub(crate) async fn start(script: impl Fn(Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::accepting(|stream| ready(Ok(stream)), script).await
    }

    /// The same behind TLS. A client that gives up the handshake is not counted.
    pub(crate) async fn with_tls(
        acceptor: TlsAcceptor,
        script: impl Fn(Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::accepting(move |stream| acceptor.accept(stream), script).await
    }

    async fn accepting<I, F>(
        accept: impl Fn(TcpStream) -> F + Send + Sync + 'static,
        script: impl Fn(Asked) -> Answer + Send + Sync + 'static,
    ) -> Self
    where
        I: AsyncRead + AsyncWrite + Unpin + Send,
        F: Future<Output = io::Result<I>> + Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (script, asked): (Arc<Script>, _) = (Arc::new(script), Arc::new(AtomicU64::new(0)));
        let accept = Arc::new(accept);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (script, asked) = (Arc::clone(&script), Arc::clone(&asked));
                let accept = Arc::clone(&accept);
                connections.spawn(async move {
                    // An error is the client leaving; the client's own report tells that better.
                    if let Ok(stream) = accept(stream).await {
                        drop(serve(stream, &*script, &asked).await);
                    }
                });
            }
        });
        Self { url, _tasks: tasks }
    }
}

async fn serve(
    mut io: impl AsyncRead + AsyncWrite + Unpin,
    script: &Script,
    asked: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let (head, body) = read_request(&mut io, &mut buffer).await?;
        let number = asked.fetch_add(1, Relaxed);
        let body = match body.as_slice() {
            [] => Value::Null,
            json => serde_json::from_slice(json).expect("the generator sends valid JSON"),
        };
        let answer = script(Asked { number, head, body });
        if let Some(moment) = answer.not_before {
            sleep_until(moment).await;
        }
        let (status, media_type) = (answer.status, answer.media_type);
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        io.write_all(head.as_bytes()).await?;
        for piece in answer.pieces.iter().filter(|piece| !piece.is_empty()) {
            if !answer.gap.is_zero() {
                sleep(answer.gap).await;
            }
            io.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
            io.write_all(piece).await?;
            io.write_all(b"\r\n").await?;
            io.flush().await?;
        }
        if answer.close == Some(Close::BeforeEnd) {
            return Ok(());
        }
        io.write_all(b"0\r\n\r\n").await?;
        io.flush().await?;
        if answer.close == Some(Close::AfterEnd) {
            return Ok(());
        }
    }
}

/// Head and body of the next request; an error when the client has gone.
async fn read_request(
    io: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<(String, Vec<u8>)> {
    let mut read_more = async |buffer: &mut Vec<u8>| match io.read_buf(buffer).await? {
        0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        _ => Ok(()),
    };
    let head_bytes = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        read_more(buffer).await?;
    };
    let head = String::from_utf8(buffer.drain(..head_bytes).collect()).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().unwrap());
    while buffer.len() < length {
        read_more(buffer).await?;
    }
    Ok((head, buffer.drain(..length).collect()))
}

/// One client, one request of four prompt and two output tokens.
pub(crate) fn config(api: Api, stream: bool) -> BenchConfig {
    BenchConfig {
        target: Target {
            name: "it".to_owned(),
            url: "http://it.test/base/".to_owned(),
            api,
            model: None,
            api_key: None,
            headers: Vec::new(),
            trust: Trust::PublicRoots,
            extra_body: Map::new(),
            pids: Vec::new(),
        },
        workload: WorkloadConfig {
            prompts: random("4", PrefixConfig::NONE),
            session: None,
            output_tokens: Lengths::fixed(2),
            ids: defaults::IDS,
            ignore_eos: true,
            stream,
            seed: 7,
            prompt_seed: 7,
        },
        load: Load::Closed { concurrency: 1, stop: Stop::Requests(1) },
        limits: Limits {
            request_timeout: Duration::from_secs(30),
            reply_bytes_max: 4096,
            failures_max: defaults::FAILURES_MAX,
        },
        warmup_requests: 0,
        // A test machine is busy; lateness has tests of its own.
        report: ReportConfig {
            slo: Slo::default(),
            interval: defaults::INTERVAL,
            lag_max: Duration::from_hours(1),
            late_allowed: true,
        },
    }
}

/// Random prompts of lengths as a command line writes them.
pub(crate) fn random(prompt_tokens: &str, prefix: PrefixConfig) -> PromptSource {
    PromptSource::Random { prompt_tokens: prompt_tokens.parse().unwrap(), prefix }
}

/// Runs over memory; call it with the clock paused.
pub(crate) async fn run_in_memory(
    config: &BenchConfig,
    script: impl Fn(Asked) -> Answer + Send + Sync + 'static,
) -> Report {
    run_over(config, Memory::new(64 << 10, script), &Pacer::Runtime, &silent()).await.unwrap()
}

/// A progress that shows nothing.
pub(crate) fn silent() -> Arc<dyn Progress> {
    Arc::new(Silent)
}

/// A right unary reply with two tokens.
pub(crate) const TWO_TOKENS: &str =
    r#"{"choices":[{"index":0,"token_ids":[5,6],"finish_reason":"length"}],"usage":{"completion_tokens":2}}"#;

/// A stream of two tokens, one event each.
pub(crate) const STREAM: [&str; 4] = [
    "data: {\"choices\":[{\"index\":0,\"token_ids\":[5]}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"token_ids\":[6],\"finish_reason\":\"length\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"completion_tokens\":2}}\n\n",
    "data: [DONE]\n\n",
];

/// The prompt of a body of the generate route, whose lengths are what the body says of itself.
pub(crate) fn ids(body: &Body) -> Vec<u64> {
    let json: Value = serde_json::from_slice(&body.json).unwrap();
    let ids: Vec<_> = json["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    assert_eq!(ids.len(), body.prompt_tokens as usize);
    assert_eq!(json["sampling_params"]["max_tokens"], body.output_tokens);
    ids
}
