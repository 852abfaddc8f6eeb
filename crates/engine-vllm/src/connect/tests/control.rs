//! An engine that answers the questions of a connector, and nothing else.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic_health::pb::HealthCheckResponse;
use tonic_health::pb::health_check_response::ServingStatus;
use vllm_proto::{
    GetKvEventSourcesResponse, KvEventSource, ListLorasResponse, LoraAdapter, ModelInfo, ServerInfo,
};

/// What it says.
pub(crate) struct Answers {
    /// About itself, one after the other; the last one from then on.
    pub servers: Vec<ServerInfo>,
    /// About its event sources; `None` when it does not know the question.
    pub sources: Option<Vec<KvEventSource>>,
    /// About its adapters, or the status that the question is answered with.
    pub adapters: Result<Vec<LoraAdapter>, &'static str>,
}

type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Serves on a free port until the set is dropped.
pub(crate) async fn serve(answers: Answers) -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let answers = Arc::new(Mutex::new(answers));
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let answers = Arc::clone(&answers);
            connections.spawn(async move {
                let service = service_fn(move |request| {
                    let reply = answer(&request, &mut answers.lock().expect("no panic"));
                    async { Ok::<_, Infallible>(reply) }
                });
                let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                // The client ends it as it pleases.
                let _ = http2.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    (port, serving)
}

fn answer(request: &Request<Incoming>, answers: &mut Answers) -> Reply {
    let serving = HealthCheckResponse { status: ServingStatus::Serving.into() };
    let model =
        ModelInfo { served_model_name: "m".into(), supports_token_ids_input: true, ..ModelInfo::default() };
    match request.uri().path() {
        "/grpc.health.v1.Health/Check" => reply(&serving, true),
        "/grpc.health.v1.Health/Watch" => reply(&serving, false),
        "/vllm.Control/GetServerInfo" => {
            let more = answers.servers.len() > 1;
            reply(&if more { answers.servers.remove(0) } else { answers.servers[0].clone() }, true)
        }
        "/vllm.Control/GetModelInfo" => reply(&model, true),
        "/vllm.Control/GetKvEventSources" => match &answers.sources {
            Some(sources) => reply(&GetKvEventSourcesResponse { sources: sources.clone() }, true),
            None => failed("12"),
        },
        "/vllm.Control/ListLoras" => match &answers.adapters {
            Ok(adapters) => reply(&ListLorasResponse { adapters: adapters.clone() }, true),
            Err(code) => failed(code),
        },
        _ => failed("12"),
    }
}

/// One message, and the end unless the stream stays open.
fn reply(message: &impl Message, ends: bool) -> Reply {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(message.encoded_len() as u32);
    message.encode(&mut bytes).expect("a buffer that grows");
    let end = stream::iter([Frame::trailers(status("0"))]);
    let rest = if ends { end.boxed() } else { stream::pending().boxed() };
    let body = stream::iter([Frame::data(bytes.freeze())]).chain(rest).map(Ok);
    response(HeaderMap::new(), StreamBody::new(body).boxed_unsync())
}

fn failed(code: &'static str) -> Reply {
    response(status(code), StreamBody::new(stream::empty()).boxed_unsync())
}

fn status(code: &'static str) -> HeaderMap {
    HeaderMap::from_iter([("grpc-status".parse().expect("a name"), code.parse().expect("a value"))])
}

fn response(headers: HeaderMap, body: UnsyncBoxBody<Bytes, Infallible>) -> Reply {
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response.headers_mut().insert("content-type", "application/grpc".parse().expect("a value"));
    response
}
