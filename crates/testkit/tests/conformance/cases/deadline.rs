//! Deadlines that the client sets and the server enforces.

use tonic::Code;
use vllm_proto::GenerateRequest;

use super::cancel::expect_idle;
use crate::ask::{greedy, lasting, long, prompt, slow};
use crate::raw::{self, Ended, frame};
use crate::target::Target;

/// Whichever side notices first: both spellings mean that the deadline passed.
pub(crate) fn expired(ended: &Ended) -> bool {
    ended.code == Code::DeadlineExceeded
        || (ended.code == Code::Cancelled && ended.message == "Timeout expired")
}

async fn call(target: &Target, method: &str, timeout: &str, request: &GenerateRequest) -> Ended {
    let path = format!("/vllm.Inference/{method}");
    raw::call(&target.grpc, &path, &[("grpc-timeout", timeout)], frame(request)).await
}

pub(crate) async fn an_expired_deadline_ends_a_unary_call(target: &Target) {
    let ended = call(target, "Generate", "400m", &long(target, "deadline")).await;
    assert!(expired(&ended), "{ended:?}");
    assert_eq!(ended.body_bytes, 0, "no message");
}

/// Once a stream is open, only the client's side of the deadline ends it.
pub(crate) async fn a_deadline_binds_a_stream_only_until_it_opens(target: &Target) {
    let budget = lasting(target);
    let request = slow(target, greedy(&prompt(40, 5), budget));
    let ended = call(target, "GenerateStream", "400m", &request).await;
    assert_eq!(ended.code, Code::Ok, "{ended:?}");
    assert!(ended.body_bytes > budget as usize, "every token came: {ended:?}");
}

pub(crate) async fn an_expired_deadline_frees_the_engine(target: &Target) {
    call(target, "Generate", "400m", &long(target, "deadline")).await;
    expect_idle(target, "a deadline expired").await;
}
