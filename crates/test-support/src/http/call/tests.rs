//! The clients against a server that shows what it was sent.

use std::convert::Infallible;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::http::{Raw, get_text, post_text};
use crate::tls::{ALL_VERSIONS, Authority, client};

/// Answers with the method, the path, a header, the version and the body that came.
async fn shown(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let key = head.headers.get("authorization").map(|key| key.to_str().unwrap());
    let shown = json!([
        head.method.as_str(),
        head.uri.path(),
        key,
        format!("{:?}", head.version),
        String::from_utf8_lossy(&body)
    ]);
    let reply = Response::builder()
        .status(201)
        .header("x-request-id", "r")
        .header("content-type", "application/json");
    Ok(reply.body(Full::from(shown.to_string())).unwrap())
}

async fn serve(tls: Option<Arc<ServerConfig>>) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let tls = tls.clone().map(TlsAcceptor::from);
            connections.spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                let service = service_fn(shown);
                // A client that leaves is no failure.
                let _ = match tls {
                    None => server.serve_connection(TokioIo::new(socket), service).await,
                    Some(tls) => match tls.accept(socket).await {
                        Ok(socket) => server.serve_connection(TokioIo::new(socket), service).await,
                        Err(_) => Ok(()),
                    },
                };
            });
        }
    });
    (address, serving)
}

#[tokio::test]
async fn a_request_arrives_as_it_was_made_over_every_transport() {
    let authority = Authority::new();
    let server = authority.sign();
    let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(server.certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(server.key.as_bytes()).unwrap(),
        )
        .unwrap();
    let (plain, _plain) = serve(None).await;
    let (secure, _secure) = serve(Some(Arc::new(server))).await;
    let tls = client(&[&authority], None, &[], ALL_VERSIONS);
    for (address, tls) in [(plain, None), (secure, Some(&tls))] {
        for (http2, version) in [(false, "HTTP/1.1"), (true, "HTTP/2.0")] {
            let mut call = Call::post(address, "/p", &json!({ "a": 1 })).bearer("k").method("PUT");
            call = if http2 { call.http2() } else { call };
            call = tls.map_or(call.clone(), |tls| call.tls(tls));
            let reply = call.send().await;
            assert_eq!((reply.status, reply.header("x-request-id")), (201, Some("r")));
            assert_eq!(reply.json(), json!(["PUT", "/p", "Bearer k", version, "{\"a\":1}"]));
        }
    }
    let stranger = client(&[&Authority::new()], None, &[], ALL_VERSIONS);
    Call::get(secure, "/p").tls(&stranger).try_open().await.expect_err("an unknown authority");
}

#[tokio::test]
async fn bytes_arrive_as_they_were_spelled_and_replies_are_taken_apart() {
    let (address, _server) = serve(None).await;
    let mut client = Raw::connect(address).await;
    client.send(post_text("/one", "body") + &get_text("/two")).await;
    let (one, two) = (client.reply().await, client.reply().await);
    assert_eq!((one.status, one.headers.len(), one.header("x-request-id")), (201, 4, Some("r")));
    assert_eq!(one.json(), json!(["POST", "/one", null, "HTTP/1.1", "body"]));
    assert_eq!(two.json(), json!(["GET", "/two", null, "HTTP/1.1", ""]));
    client.send("nonsense\r\n\r\n").await;
    assert!(client.rest().await.starts_with(b"HTTP/1.1 400 "));
}

#[tokio::test]
async fn a_request_in_the_background_ends_with_a_reply_or_without() {
    let (address, server) = serve(None).await;
    assert_eq!(Call::get(address, "/").begin().reply().await.status, 201);
    drop(server);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let sent = Call::get(listener.local_addr().unwrap(), "/").begin();
    let (mut socket, _) = listener.accept().await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut socket, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
        .await
        .unwrap();
    drop(socket);
    assert!(sent.failed().await);
}

#[tokio::test]
async fn a_stream_is_read_event_by_event_and_to_its_end() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let call = Call::get(listener.local_addr().unwrap(), "/");
    let serving = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let body = ": ping\n\ndata: {\"choices\":[{\"token_ids\":[1,2],\"finish_reason\":\"length\"}]}\n\n: ping\n\n\
                    data: {\"error\":{\"code\":\"late\"}}\n\ndata: [DONE]\n\n";
        let head = format!("content-type: text/event-stream\r\ncontent-length: {}", body.len());
        let text = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}");
        tokio::io::AsyncWriteExt::write_all(&mut socket, text.as_bytes()).await.unwrap();
    };
    let (mut open, ()) = tokio::join!(call.open(), serving);
    assert_eq!(open.comment().await, ": ping");
    assert!(open.event().await.unwrap().contains("token_ids"));
    let rest = open.whole().await;
    assert_eq!((rest.is_stream(), rest.error_code().as_deref()), (true, Some("late")));
    assert_eq!(
        (rest.tokens(), rest.finish_reason()),
        (vec![], None),
        "what was read before is not read again"
    );
}
