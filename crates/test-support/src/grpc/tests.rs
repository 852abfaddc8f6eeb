use super::*;
use crate::http;

/// The call with a message of one byte: the bytes of the answer and what its status says.
async fn call(server: &Server, path: &str) -> (Vec<u8>, Option<String>, Option<String>) {
    let call = http::Call::get(server.address(), path).method("POST").http2();
    let reply = call.header("te", "trailers").body(framed(b"x")).send().await;
    let status = if reply.trailers.is_empty() { &reply.headers } else { &reply.trailers };
    let text = |name: &str| status.get(name).map(|value| value.to_str().unwrap().to_owned());
    (reply.body.clone(), text("grpc-status"), text("grpc-message"))
}

#[tokio::test]
async fn messages_and_status_come_as_they_were_given() {
    let server = Server::start(|call| {
        assert_eq!(&call.message[..], b"x");
        match call.path.as_str() {
            "/two" => {
                Answer { messages: vec![Bytes::from_static(b"ab"); 2], status: Some((13, "é %\n".into())) }
            }
            _ => Answer::failed(12),
        }
    });
    let server = server.await;
    let (ok, broken) = (Some("0".to_owned()), Some("13".to_owned()));
    let serving = (b"\0\0\0\0\x02\x08\x01".to_vec(), ok, Some(String::new()));
    assert_eq!(call(&server, "/grpc.health.v1.Health/Check").await, serving);
    let two = (b"\0\0\0\0\x02ab\0\0\0\0\x02ab".to_vec(), broken, Some("%C3%A9 %25%0A".to_owned()));
    assert_eq!(call(&server, "/two").await, two);
    let (body, code, _) = call(&server, "/none").await;
    assert_eq!((body.len(), code.as_deref()), (0, Some("12")));
}
