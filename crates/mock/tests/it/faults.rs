//! Faults that hit single calls.

use std::time::Duration;

use futures_util::FutureExt;
use tito_mock::{AbortCause, BadFrame, Exit, Fault, FaultSpec, MockConfig, RequestState};
use tito_test_support::wait::within;
use tonic::Code;
use vllm_proto::finish_info::FinishReason;
use vllm_proto::{GenerateRequest, GenerateResponse, ResponseOptions};

use crate::support::{Running, ids, prompt, request};

async fn with(fault: Fault) -> Running {
    Running::start(MockConfig { faults: vec![FaultSpec::new(fault)], ..MockConfig::new() }).await
}

fn six() -> GenerateRequest {
    request("r", &prompt(1, 20), 6)
}

/// What a stream of six tokens sends under a fault: messages, and the code at its end.
async fn streamed(fault: Fault) -> (Running, Vec<GenerateResponse>, Code) {
    let mock = with(fault).await;
    let (messages, end) = mock.stream(six()).await;
    (mock, messages, end.map_or(Code::Ok, |status| status.code()))
}

#[tokio::test]
async fn death_comes_after_exactly_so_many_tokens() {
    for at_token in 0..=6 {
        let (mut mock, messages, end) = streamed(Fault::Die { at_token }).await;
        assert_ne!(end, Code::Ok, "the connection broke");
        assert_eq!(ids(&messages).len() as u32, at_token);
        let mut outputs = messages.iter().filter_map(|message| message.outputs.as_ref());
        assert!(outputs.all(|output| output.finish_info.is_none()), "no end was sent");
        assert_eq!(mock.exit().await, Exit::Died);
        let refused = tokio::net::TcpStream::connect(mock.grpc).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    let mut mock = with(Fault::Die { at_token: 3 }).await;
    assert_ne!(mock.code(six()).await, Code::Ok, "a unary call dies with the process");
    assert_eq!(mock.exit().await, Exit::Died);
}

#[tokio::test]
async fn a_stalled_stream_is_silent_and_keeps_its_place() {
    let stall = FaultSpec::new(Fault::Stall { at_token: 2 });
    let faults = vec![FaultSpec { request: Some("stalls".to_owned()), ..stall }];
    let mock = Running::start(MockConfig { faults, ..MockConfig::new() }).await;
    let mut stream = mock.open(request("stalls", &prompt(1, 20), 6)).await;
    for _ in 0..3 {
        within("a message", stream.message()).await.unwrap().unwrap();
    }
    // Another request runs to its end meanwhile, so there was time for more.
    assert_eq!(mock.generate(request("other", &prompt(2, 20), 6)).await.num_tokens, 6);
    assert!(stream.message().now_or_never().is_none(), "silence");
    let entry = mock.handle.requests().into_iter().next().unwrap();
    assert_eq!((entry.state(), entry.output_tokens()), (RequestState::Running, 2));
    drop(stream);
    mock.wait_for_state("stalls", "aborted").await;
}

#[tokio::test]
async fn a_slow_stream_takes_its_time() {
    let mock = with(Fault::Slow { delay: Duration::from_millis(20) }).await;
    let started = tokio::time::Instant::now();
    assert_eq!(mock.generate(request("r", &prompt(1, 20), 4)).await.num_tokens, 4);
    assert!(started.elapsed() >= Duration::from_millis(60), "three gaps between four tokens");
}

#[tokio::test]
async fn an_error_is_the_status_it_says() {
    let code = Code::ResourceExhausted;
    let full = |at_token| Fault::Error { at_token, code, message: "full".to_owned() };
    let mock = with(full(0)).await;
    let status = mock.inference().await.generate(six()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (code, "full"));
    let refused = mock.inference().await.generate_stream(six()).await.unwrap_err();
    assert_eq!(refused.code(), code);
    assert!(mock.handle.requests().is_empty(), "nothing reached the engine");
    let (mock, messages, end) = streamed(full(2)).await;
    assert_eq!((ids(&messages).len(), end), (2, code));
    mock.wait_for_state("r", "aborted").await;
    assert_eq!(mock.state("r"), RequestState::Aborted(AbortCause::Fault));
}

#[tokio::test]
async fn an_early_abort_ends_with_its_reason() {
    let (mock, messages, end) = streamed(Fault::Abort { at_token: 2 }).await;
    assert_eq!((ids(&messages).len(), end), (2, Code::Ok));
    let last = messages.last().unwrap().outputs.as_ref().unwrap().finish_info.as_ref().unwrap();
    assert_eq!(last.finish_reason, FinishReason::Aborted as i32);
    mock.wait_for_state("r", "aborted").await;
}

#[tokio::test]
async fn frames_are_wrong_in_the_way_asked_for() {
    let bad = |at_token, frame| streamed(Fault::BadFrame { at_token, frame });
    let (_mock, messages, end) = bad(1, BadFrame::Malformed).await;
    assert_eq!((ids(&messages).len(), end), (1, Code::Internal));

    let (_mock, messages, _) = bad(1, BadFrame::TokenCount).await;
    let outputs = messages.iter().filter_map(|message| message.outputs.as_ref());
    let wrong: Vec<bool> =
        outputs.map(|output| output.num_tokens as usize != output.token_ids.len()).collect();
    assert_eq!(wrong, [false, true, false, false, false, false]);

    let (_mock, messages, end) = bad(0, BadFrame::MissingFinish).await;
    assert_eq!((ids(&messages).len(), end), (6, Code::Ok));
    assert!(messages.last().unwrap().outputs.as_ref().unwrap().finish_info.is_none());

    let mock = with(Fault::BadFrame { at_token: 0, frame: BadFrame::Index }).await;
    assert_eq!(mock.generate(six()).await.index, 1);
}

#[tokio::test]
async fn a_logprob_can_be_no_number() {
    for value in [f32::NAN, f32::NEG_INFINITY] {
        let mock = with(Fault::Logprob { at_token: 2, value }).await;
        let response = ResponseOptions { output_logprobs: true, ..ResponseOptions::default() };
        let output = mock.generate(GenerateRequest { response: Some(response), ..six() }).await;
        let odd: Vec<bool> = output.logprobs.iter().map(|logprob| !logprob.is_finite()).collect();
        assert_eq!(odd, [false, false, true, false, false, false]);
    }
}

#[tokio::test]
async fn a_fault_hits_the_requests_it_names_and_so_many_of_them() {
    let mock = Running::start(MockConfig::new()).await;
    let fault = r#"{"kind":"error","code":"UNAVAILABLE","request":"bad","count":2}"#;
    assert_eq!(mock.http("POST", "/mock/faults", fault).await, (200, r#"{"id":0}"#.to_owned()));
    for (id, code) in [
        ("good", Code::Ok),
        ("a-bad-1", Code::Unavailable),
        ("bad-2", Code::Unavailable),
        ("bad-3", Code::Ok),
    ] {
        assert_eq!(mock.code(request(id, &prompt(1, 20), 1)).await, code, "{id}");
    }
    assert_eq!(mock.json("/mock/faults").await["faults"].as_array().unwrap().len(), 0);
}
