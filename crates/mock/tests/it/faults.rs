//! Faults that hit single calls.

use std::time::Duration;

use futures_util::FutureExt;
use tito_mock::{AbortCause, BadFrame, Exit, Fault, FaultSpec, MockConfig, RequestState};
use tito_test_support::wait::within;
use tonic::Code;
use vllm_proto::finish_info::FinishReason;
use vllm_proto::{GenerateRequest, ResponseOptions};

use crate::support::{Running, assert_code, drain, finish, ids, outputs, prompt, request};

async fn with(fault: Fault) -> Running {
    Running::start(MockConfig { faults: vec![FaultSpec::new(fault)], ..MockConfig::new() }).await
}

#[tokio::test]
async fn death_comes_after_exactly_so_many_tokens() {
    for at_token in 0..=6 {
        let mut mock = with(Fault::Die { at_token }).await;
        let mut client = mock.inference().await;
        let stream = client.generate_stream(request("r", &prompt(1, 20), 6)).await;
        let (messages, end) = drain(stream.unwrap().into_inner()).await;
        assert!(end.is_some(), "the connection broke");
        assert_eq!(ids(&messages).len() as u32, at_token);
        let finished = messages.iter().filter_map(|message| message.outputs.as_ref());
        assert!(finished.into_iter().all(|output| output.finish_info.is_none()), "no end was sent");
        assert_eq!(mock.exit().await, Exit::Died);
        let refused = tokio::net::TcpStream::connect(mock.grpc).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
}

#[tokio::test]
async fn a_unary_call_dies_with_the_process() {
    let mut mock = with(Fault::Die { at_token: 3 }).await;
    let reply = mock.inference().await.generate(request("r", &prompt(1, 20), 6)).await;
    assert!(reply.is_err());
    assert_eq!(mock.exit().await, Exit::Died);
}

#[tokio::test]
async fn a_stalled_stream_is_silent_and_keeps_its_place() {
    let fault =
        FaultSpec { request: Some("stalls".to_owned()), ..FaultSpec::new(Fault::Stall { at_token: 2 }) };
    let mock = Running::start(MockConfig { faults: vec![fault], ..MockConfig::new() }).await;
    let mut client = mock.inference().await;
    let mut stream = client.generate_stream(request("stalls", &prompt(1, 20), 6)).await.unwrap().into_inner();
    for _ in 0..3 {
        within("a message", stream.message()).await.unwrap().unwrap();
    }
    // Another request runs to its end meanwhile, so there was time for more.
    let other = client.generate(request("other", &prompt(2, 20), 6)).await.unwrap();
    assert_eq!(outputs(other.into_inner()).num_tokens, 6);
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
    let reply = mock.inference().await.generate(request("r", &prompt(1, 20), 4)).await.unwrap();
    assert_eq!(outputs(reply.into_inner()).num_tokens, 4);
    assert!(started.elapsed() >= Duration::from_millis(60), "three gaps between four tokens");
}

#[tokio::test]
async fn an_error_is_the_status_it_says() {
    let code = Code::ResourceExhausted;
    let mock = with(Fault::Error { at_token: 0, code, message: "full".to_owned() }).await;
    let mut client = mock.inference().await;
    let status = client.generate(request("r", &prompt(1, 20), 6)).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (code, "full"));
    assert_code(client.generate_stream(request("r", &prompt(1, 20), 6)).await, code);
    assert!(mock.handle.requests().is_empty(), "nothing reached the engine");
    let mock = with(Fault::Error { at_token: 2, code, message: "full".to_owned() }).await;
    let stream = mock.inference().await.generate_stream(request("r", &prompt(1, 20), 6)).await.unwrap();
    let (messages, end) = drain(stream.into_inner()).await;
    assert_eq!((ids(&messages).len(), end.unwrap().code()), (2, code));
    mock.wait_for_state("r", "aborted").await;
    assert_eq!(mock.handle.requests()[0].state(), RequestState::Aborted(AbortCause::Fault));
}

#[tokio::test]
async fn an_early_abort_ends_with_its_reason() {
    let mock = with(Fault::Abort { at_token: 2 }).await;
    let stream = mock.inference().await.generate_stream(request("r", &prompt(1, 20), 6)).await.unwrap();
    let (messages, end) = drain(stream.into_inner()).await;
    assert!(end.is_none());
    assert_eq!(ids(&messages).len(), 2);
    let last = messages.last().unwrap().outputs.clone().unwrap();
    assert_eq!(finish(&last).finish_reason, FinishReason::Aborted as i32);
    mock.wait_for_state("r", "aborted").await;
}

#[tokio::test]
async fn frames_are_wrong_in_the_way_asked_for() {
    let mock = with(Fault::BadFrame { at_token: 1, frame: BadFrame::Malformed }).await;
    let stream = mock.inference().await.generate_stream(request("r", &prompt(1, 20), 4)).await.unwrap();
    let (messages, end) = drain(stream.into_inner()).await;
    assert_eq!((ids(&messages).len(), end.unwrap().code()), (1, Code::Internal));

    let mock = with(Fault::BadFrame { at_token: 1, frame: BadFrame::TokenCount }).await;
    let stream = mock.inference().await.generate_stream(request("r", &prompt(1, 20), 4)).await.unwrap();
    let (messages, _) = drain(stream.into_inner()).await;
    let wrong = |message: &vllm_proto::GenerateResponse| {
        let output = message.outputs.as_ref().unwrap();
        output.num_tokens as usize != output.token_ids.len()
    };
    assert_eq!(messages[1..].iter().map(wrong).collect::<Vec<_>>(), [false, true, false, false]);

    let mock = with(Fault::BadFrame { at_token: 0, frame: BadFrame::MissingFinish }).await;
    let stream = mock.inference().await.generate_stream(request("r", &prompt(1, 20), 4)).await.unwrap();
    let (messages, end) = drain(stream.into_inner()).await;
    assert!(end.is_none() && ids(&messages).len() == 4);
    assert!(messages.last().unwrap().outputs.as_ref().unwrap().finish_info.is_none());

    let mock = with(Fault::BadFrame { at_token: 0, frame: BadFrame::Index }).await;
    let output =
        outputs(mock.inference().await.generate(request("r", &prompt(1, 20), 4)).await.unwrap().into_inner());
    assert_eq!(output.index, 1);
}

#[tokio::test]
async fn a_logprob_can_be_no_number() {
    for value in [f32::NAN, f32::NEG_INFINITY] {
        let mock = with(Fault::Logprob { at_token: 2, value }).await;
        let response = ResponseOptions { output_logprobs: true, ..ResponseOptions::default() };
        let asked = GenerateRequest { response: Some(response), ..request("r", &prompt(1, 20), 4) };
        let output = outputs(mock.inference().await.generate(asked).await.unwrap().into_inner());
        let odd: Vec<bool> = output.logprobs.iter().map(|logprob| !logprob.is_finite()).collect();
        assert_eq!(odd, [false, false, true, false]);
    }
}

#[tokio::test]
async fn a_fault_hits_the_requests_it_names_and_so_many_of_them() {
    let mock = Running::start(MockConfig::new()).await;
    let mut client = mock.inference().await;
    let fault = r#"{"kind":"error","code":"UNAVAILABLE","request":"bad","count":2}"#;
    assert_eq!(mock.http("POST", "/mock/faults", fault).await, (200, r#"{"id":0}"#.to_owned()));
    let mut codes = Vec::new();
    for id in ["good", "a-bad-1", "bad-2", "bad-3"] {
        codes.push(
            client
                .generate(request(id, &prompt(1, 20), 1))
                .await
                .map_or_else(|status| status.code(), |_| Code::Ok),
        );
    }
    assert_eq!(codes, [Code::Ok, Code::Unavailable, Code::Unavailable, Code::Ok]);
    assert_eq!(mock.json("/mock/faults").await["faults"].as_array().unwrap().len(), 0);
}
