//! A server that answers Generate calls with recorded bytes and everything else as a healthy engine would.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tonic_health::pb::HealthCheckResponse;
use tonic_health::pb::health_check_response::ServingStatus;
use vllm_proto::{ModelInfo, ParallelismInfo, ServerInfo};

/// A call that reached the server.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// The message without its frame.
    pub(crate) message: Bytes,
}

/// What a Generate call is answered with.
#[derive(Debug)]
struct Recorded {
    replies: Vec<Bytes>,
    status: (i32, String),
    seen: Mutex<Option<Seen>>,
}

/// A server for one recording; it ends when this is dropped.
pub(crate) struct Replay {
    address: SocketAddr,
    recorded: Arc<Recorded>,
    _serving: JoinSet<()>,
}

impl Replay {
    pub(crate) async fn start(replies: Vec<Bytes>, status: (i32, String)) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound port has an address");
        let recorded = Arc::new(Recorded { replies, status, seen: Mutex::new(None) });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&recorded)));
        Self { address, recorded, _serving: serving }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The Generate call, if there was one.
    pub(crate) fn seen(&self) -> Option<Seen> {
        self.recorded.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(listener: TcpListener, recorded: Arc<Recorded>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        connections.spawn(connection(socket, Arc::clone(&recorded)));
    }
}

async fn connection(socket: TcpStream, recorded: Arc<Recorded>) {
    let service = service_fn(|request| answer(request, Arc::clone(&recorded)));
    let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // The client resets its streams and connections as it pleases.
    let _ = http2.serve_connection(TokioIo::new(socket), service).await;
}

async fn answer(request: Request<Incoming>, recorded: Arc<Recorded>) -> Result<Response<Reply>, Infallible> {
    let (head, body) = request.into_parts();
    let serving = HealthCheckResponse { status: ServingStatus::Serving.into() }.encode_to_vec();
    let ok = (0, String::new());
    let reply = match head.uri.path() {
        "/grpc.health.v1.Health/Check" => Reply::new(&[serving.into()], Some(&ok)),
        "/grpc.health.v1.Health/Watch" => Reply::new(&[serving.into()], None),
        "/vllm.Control/GetServerInfo" => Reply::new(&[server_info().encode_to_vec().into()], Some(&ok)),
        "/vllm.Control/GetKvEventSources" => Reply::new(&[Bytes::new()], Some(&ok)),
        "/vllm.Control/GetModelInfo" => Reply::new(&[model_info().encode_to_vec().into()], Some(&ok)),
        path => {
            let path = path.to_owned();
            let framed = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let message = framed.slice(framed.len().min(FRAME_BYTES)..);
            let seen = Seen { path, headers: head.headers, message };
            *recorded.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
            // A call that fails before its first message has its status in the headers.
            if recorded.replies.is_empty() {
                return Ok(response(status_map(&recorded.status), Reply::new(&[], None).ended()));
            }
            Reply::new(&recorded.replies, Some(&recorded.status))
        }
    };
    Ok(response(HeaderMap::new(), reply))
}

fn response(headers: HeaderMap, reply: Reply) -> Response<Reply> {
    let mut response = Response::new(reply);
    *response.headers_mut() = headers;
    response.headers_mut().insert("content-type", "application/grpc".parse().expect("visible ASCII"));
    response
}

fn server_info() -> ServerInfo {
    let parallelism = ParallelismInfo {
        tensor_parallel_size: 1,
        pipeline_parallel_size: 1,
        data_parallel_size: 1,
        data_parallel_size_local: 1,
        ..ParallelismInfo::default()
    };
    ServerInfo {
        engine_version: "0.32.0".to_owned(),
        instance_id: "recorded".to_owned(),
        parallelism: Some(parallelism),
        max_model_len: 2048,
        kv_block_size: 32,
        max_running_requests: 128,
        ..ServerInfo::default()
    }
}

fn model_info() -> ModelInfo {
    ModelInfo {
        served_model_name: "recorded".to_owned(),
        supports_token_ids_input: true,
        ..ModelInfo::default()
    }
}

/// Bytes before a message: one for compression, four for its length.
const FRAME_BYTES: usize = 5;

/// Messages, then trailers; without trailers the reply stays open for ever.
struct Reply {
    frames: VecDeque<Frame<Bytes>>,
    open: bool,
}

impl Reply {
    fn new(messages: &[Bytes], status: Option<&(i32, String)>) -> Self {
        let framed = messages.iter().map(|message| {
            let mut bytes = BytesMut::with_capacity(message.len() + FRAME_BYTES);
            bytes.put_u8(0);
            bytes.put_u32(message.len() as u32);
            bytes.put_slice(message);
            Frame::data(bytes.freeze())
        });
        let trailers = status.map(|status| Frame::trailers(status_map(status)));
        Self { frames: framed.chain(trailers).collect(), open: status.is_none() }
    }

    fn ended(mut self) -> Self {
        self.open = false;
        self
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            // Nobody wakes it: it is dropped with its connection.
            None if self.open => Poll::Pending,
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && !self.open
    }
}

fn status_map((code, message): &(i32, String)) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("grpc-status", (*code).into());
    let escaped: String = message.bytes().map(escape).collect();
    headers.insert("grpc-message", escaped.parse().expect("escaped to visible ASCII"));
    headers
}

/// As gRPC spells a message in a header.
fn escape(byte: u8) -> String {
    if (0x20..0x7f).contains(&byte) && byte != b'%' {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}
