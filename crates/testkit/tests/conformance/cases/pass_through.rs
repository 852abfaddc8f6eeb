//! Fields that the frontend hands to the engine unread.

use prost_types::value::Kind as Value;
use vllm_proto::{EngineReasoningGate, GenerateRequest, KvHintAction, KvHintsEnvelope};

use crate::ask::{Ask, greedy, prompt, structure};
use crate::reply::Reply;
use crate::target::Target;

type Edit = fn(&mut GenerateRequest);

fn hints() -> KvHintsEnvelope {
    let action = KvHintAction {
        action_id: "a".to_owned(),
        action_type: "t".to_owned(),
        action_version: "1".to_owned(),
        payload: Some(structure([("x", Value::NumberValue(1.0))])),
    };
    KvHintsEnvelope { protocol_version: "1".to_owned(), message_id: "m".to_owned(), actions: vec![action] }
}

fn gate(ended: Option<bool>) -> EngineReasoningGate {
    let kwargs = structure([("enable_thinking", Value::BoolValue(false))]);
    EngineReasoningGate { reasoning_ended: ended, chat_template_kwargs: Some(kwargs) }
}

pub(crate) async fn options_for_the_engine_change_no_greedy_token(target: &Target) {
    let expected = target.unary(greedy(&prompt(20, 1), 4)).await.unwrap();
    let table: [(&str, Edit); 9] = [
        ("a low priority", |r| r.priority = i32::MAX),
        ("a high priority", |r| r.priority = i32::MIN),
        ("a session", |r| r.session_id = Some("session-1".to_owned())),
        ("an empty session", |r| r.session_id = Some(String::new())),
        ("watermarking off", |r| r.watermarking = Some(false)),
        ("hints", |r| r.kv_hints = Some(hints())),
        ("empty hints", |r| r.kv_hints = Some(KvHintsEnvelope::default())),
        ("a reasoning gate", |r| r.engine_reasoning_gate = Some(gate(Some(true)))),
        ("an undecided reasoning gate", |r| r.engine_reasoning_gate = Some(gate(None))),
    ];
    for (name, edit) in table {
        let reply = target.unary(greedy(&prompt(20, 1), 4).with(edit)).await;
        assert_eq!(reply.as_ref().map(Reply::tokens).ok(), Some(expected.tokens()), "{name}: {reply:?}");
    }
}

pub(crate) async fn any_request_id_is_accepted(target: &Target) {
    let expected = target.unary(greedy(&prompt(20, 1), 2)).await.unwrap();
    for id in ["", "idé with blanks", "a/b", &"x".repeat(5000)] {
        let reply = target.both(&greedy(&prompt(20, 1), 2).with(|r| id.clone_into(&mut r.request_id))).await;
        assert_eq!(reply.tokens(), expected.tokens(), "{} bytes", id.len());
    }
}

pub(crate) async fn one_sequence_is_the_default(target: &Target) {
    let expected = target.unary(greedy(&prompt(20, 1), 4)).await.unwrap();
    for sequences in [0, 1] {
        let request = greedy(&prompt(20, 1), 4).with(|r| r.sampling().num_sequences = sequences);
        assert_eq!(target.both(&request).await.tokens(), expected.tokens(), "{sequences}");
    }
}

pub(crate) async fn transfer_parameters_without_a_connector_are_ignored(target: &Target) {
    let expected = target.unary(greedy(&prompt(20, 1), 2)).await.unwrap();
    for parameters in [structure([]), structure([("do_remote_decode", Value::BoolValue(true))])] {
        let request = greedy(&prompt(20, 1), 2).with(|r| {
            r.kv().kv_transfer_params = Some(parameters.clone());
            r.kv().ec_transfer_params = Some(parameters.clone());
        });
        let reply = target.both(&request).await;
        assert_eq!(reply.tokens(), expected.tokens(), "{parameters:?}");
        assert_eq!(reply.finish.kv_transfer_params, None, "{parameters:?}");
    }
}
