//! Weight versions and the order of a weight session.

use tonic::Code;
use vllm_proto::{
    FinishWeightUpdateRequest, GetWeightVersionRequest, InitWeightTransferEngineRequest,
    StartDraftWeightUpdateRequest, StartWeightUpdateRequest, UpdateWeightVersionRequest,
    UpdateWeightsRequest,
};

use crate::ask::{greedy, prompt};
use crate::reply::code_of;
use crate::target::Target;

/// An update of no tensors.
const NOTHING: &str = r#"{"names":[],"dtype_names":[],"shapes":[]}"#;

async fn version(target: &Target) -> String {
    let reply = target.control().get_weight_version(GetWeightVersionRequest {}).await;
    reply.unwrap().into_inner().weight_version
}

async fn set_version(target: &Target, version: &str) -> Code {
    let request = UpdateWeightVersionRequest { weight_version: version.to_owned() };
    code_of(target.control().update_weight_version(request)).await
}

async fn init(target: &Target, json: &str) -> Code {
    let request = InitWeightTransferEngineRequest { init_info_json: json.as_bytes().to_vec() };
    code_of(target.control().init_weight_transfer_engine(request)).await
}

async fn start(target: &Target) -> Code {
    code_of(target.control().start_weight_update(StartWeightUpdateRequest {})).await
}

async fn start_draft(target: &Target) -> Code {
    code_of(target.control().start_draft_weight_update(StartDraftWeightUpdateRequest {})).await
}

async fn update(target: &Target, json: &str) -> Code {
    let request = UpdateWeightsRequest { update_info_json: json.as_bytes().to_vec() };
    code_of(target.control().update_weights(request)).await
}

async fn finish(target: &Target, version: Option<&str>) -> Code {
    let request = FinishWeightUpdateRequest { weight_version: version.map(str::to_owned) };
    code_of(target.control().finish_weight_update(request)).await
}

pub(crate) async fn the_version_can_be_set_and_read(target: &Target) {
    let before = version(target).await;
    for name in ["step-1", "step-1", "another version"] {
        assert_eq!(set_version(target, name).await, Code::Ok, "{name}");
        assert_eq!(version(target).await, name);
    }
    assert_eq!(set_version(target, &before).await, Code::Ok);
}

pub(crate) async fn a_blank_version_is_refused(target: &Target) {
    let before = version(target).await;
    for blank in ["", " ", "\t\n"] {
        assert_eq!(set_version(target, blank).await, Code::InvalidArgument, "{blank:?}");
    }
    assert_eq!(version(target).await, before);
}

pub(crate) async fn a_fresh_engine_is_at_default(target: &Target) {
    assert_eq!(version(target).await, "default");
}

pub(crate) async fn without_a_backend_every_step_is_refused_first(target: &Target) {
    let found = [
        ("init", init(target, "{}").await),
        ("init with garbage", init(target, "nope").await),
        ("start", start(target).await),
        ("start draft", start_draft(target).await),
        ("update", update(target, "{}").await),
        ("update with a list", update(target, "[]").await),
        ("finish", finish(target, Some("v2")).await),
        ("finish with a blank version", finish(target, Some(" ")).await),
    ];
    for (what, code) in found {
        assert_eq!(code, Code::FailedPrecondition, "{what}: before the payload is looked at");
    }
}

pub(crate) async fn the_session_has_an_order(target: &Target) {
    let before = version(target).await;
    assert_eq!(finish(target, None).await, Code::Internal, "finish without start");
    assert_eq!(start(target).await, Code::Ok, "start, even without init");
    assert_eq!(start(target).await, Code::Internal, "start twice");
    assert_eq!(update(target, NOTHING).await, Code::Internal, "update without init");
    assert_eq!(finish(target, Some("v3")).await, Code::Internal, "a failed update closed the session");
    assert_eq!(version(target).await, before, "a failed finish sets no version");
    assert_eq!(start(target).await, Code::Ok, "a new session");
    assert_eq!(finish(target, Some("v4")).await, Code::Ok);
    assert_eq!(version(target).await, "v4", "a finish sets the version");
    assert_eq!(start(target).await, Code::Ok);
    assert_eq!(finish(target, None).await, Code::Ok, "a finish without a version");
    assert_eq!(version(target).await, "v4", "leaves it");
    assert_eq!(target.unary(greedy(&prompt(20, 1), 2)).await.unwrap().end(), "length", "still serving");
    assert_eq!(set_version(target, &before).await, Code::Ok);
}

pub(crate) async fn payloads_are_checked_before_the_session(target: &Target) {
    assert_eq!(start(target).await, Code::Ok);
    assert_eq!(init(target, "nope").await, Code::InvalidArgument, "init: no JSON");
    assert_eq!(init(target, "[]").await, Code::InvalidArgument, "init: no object");
    assert_eq!(init(target, "{}").await, Code::Internal, "init: the backend misses fields");
    assert_eq!(init(target, r#"{"zzz":1}"#).await, Code::Internal, "init: the backend knows no such field");
    assert_eq!(update(target, "nope").await, Code::InvalidArgument, "update: no JSON");
    assert_eq!(update(target, "[]").await, Code::InvalidArgument, "update: a list, which only HTTP takes");
    assert_eq!(finish(target, Some(" ")).await, Code::InvalidArgument, "finish: a blank version");
    assert_eq!(finish(target, None).await, Code::Ok, "none of these closed the session");
}

pub(crate) async fn drafts_need_a_draft_model(target: &Target) {
    assert_eq!(start_draft(target).await, Code::FailedPrecondition);
}
