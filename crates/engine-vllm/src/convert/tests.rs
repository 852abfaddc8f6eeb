use tito_types::RawJson;
use vllm_proto::decoding_parameters::StructuredOutput as Wire;

use super::*;
use crate::output::tests::request;

fn served() -> ModelInfo {
    ModelInfo { source: "s".into(), names: vec!["m".into(), "alias".into()], lora: true, multimodal: true }
}

/// After `change`, the message must differ from the plain one exactly as `edit` says.
#[track_caller]
fn check(change: impl FnOnce(&mut GenerateRequest), edit: impl FnOnce(&mut Message)) {
    let mut asked = request();
    let mut expected = message(&asked, "e".into(), &served()).expect("the plain request converts");
    change(&mut asked);
    edit(&mut expected);
    assert_eq!(message(&asked, "e".into(), &served()), Ok(expected));
}

fn ids(ids: &[u32]) -> vllm_proto::TokenIds {
    vllm_proto::TokenIds { ids: ids.to_vec() }
}

type Message = vllm_proto::GenerateRequest;

fn sampling(message: &mut Message) -> &mut vllm_proto::RandomSampling {
    message.sampling.as_mut().expect("always sent")
}

fn decoding(message: &mut Message) -> &mut vllm_proto::DecodingParameters {
    message.decoding.as_mut().expect("always sent")
}

fn stopping(message: &mut Message) -> &mut vllm_proto::StoppingCriteria {
    message.stopping.as_mut().expect("always sent")
}

fn response(message: &mut Message) -> &mut vllm_proto::ResponseOptions {
    message.response.as_mut().expect("always sent")
}

fn kv(message: &mut Message) -> &mut vllm_proto::KvCacheParameters {
    message.kv.get_or_insert_default()
}

#[test]
fn the_plain_request_asks_for_ids_alone_and_sends_no_cache_options() {
    let message = message(&request(), "e".into(), &served()).expect("converts");
    assert_eq!(message.prompt, Some(generate_request::Prompt::TokenIds(ids(&[1, 2, 3]))));
    assert_eq!((message.request_id.as_str(), message.model.as_str()), ("e", "m"));
    let response = message.response.expect("always sent");
    assert!(response.output_token_ids && response.output_text == Some(false));
    assert_eq!((message.kv, message.temperature), (None, None));
}

#[test]
fn every_sampling_field_reaches_the_message() {
    check(|r| r.sampling.temperature = Some(0.5), |m| m.temperature = Some(0.5));
    check(|r| r.sampling.top_p = Some(0.5), |m| sampling(m).top_p = Some(0.5));
    check(|r| r.sampling.top_k = Some(0), |m| sampling(m).top_k = Some(0));
    check(|r| r.sampling.min_p = Some(0.0), |m| sampling(m).min_p = Some(0.0));
    check(|r| r.sampling.seed = Some(-7), |m| sampling(m).seed = Some(-7));
    check(|r| r.sampling.presence_penalty = Some(-2.0), |m| decoding(m).presence_penalty = -2.0);
    check(|r| r.sampling.frequency_penalty = Some(2.0), |m| decoding(m).frequency_penalty = 2.0);
    check(|r| r.sampling.repetition_penalty = Some(1.5), |m| decoding(m).repetition_penalty = 1.5);
    check(|r| r.sampling.logit_bias = vec![(4, 150.0)], |m| decoding(m).logit_bias = [(4, 150.0)].into());
    check(|r| r.sampling.allowed_token_ids = vec![4], |m| decoding(m).allowed_token_ids = vec![4]);
    check(
        |r| r.sampling.bad_words_token_ids = vec![vec![4]],
        |m| decoding(m).bad_words_token_ids = vec![ids(&[4])],
    );
    check(|r| r.sampling.watermarking = Some(false), |m| m.watermarking = Some(false));
    let choices = StringChoices { choices: vec!["a".into()] };
    for (structured, wire) in [
        (StructuredOutput::JsonSchema("{}".into()), Wire::Json("{}".into())),
        (StructuredOutput::JsonObject, Wire::JsonObject(true)),
        (StructuredOutput::Regex("a+".into()), Wire::Regex("a+".into())),
        (StructuredOutput::Choice(vec!["a".into()]), Wire::Choice(choices)),
        (StructuredOutput::Grammar("g".into()), Wire::Grammar("g".into())),
        (StructuredOutput::StructuralTag("{}".into()), Wire::StructuralTag("{}".into())),
    ] {
        check(|r| r.sampling.structured = Some(structured), |m| decoding(m).structured_output = Some(wire));
    }
}

#[test]
fn every_stopping_and_output_field_reaches_the_message() {
    check(|r| r.stopping.max_tokens = Some(9), |m| stopping(m).max_new_tokens = 9);
    check(|r| r.stopping.min_tokens = 3, |m| stopping(m).min_new_tokens = 3);
    check(|r| r.stopping.stop = vec!["x".into()], |m| stopping(m).stop_strings = vec!["x".into()]);
    check(|r| r.stopping.stop_token_ids = vec![7], |m| stopping(m).stop_token_ids = vec![7]);
    check(|r| r.stopping.include_stop_str_in_output = true, |m| stopping(m).include_stop_strings = true);
    check(|r| r.stopping.ignore_eos = true, |m| stopping(m).ignore_eos = true);
    check(|r| r.stopping.thinking_token_budget = Some(0), |m| stopping(m).thinking_token_budget = Some(0));
    check(|r| r.outputs.text = true, |m| response(m).output_text = Some(true));
    check(|r| r.outputs.skip_special_tokens = true, |m| response(m).skip_special_tokens = Some(true));
    check(|r| r.outputs.prompt_token_ids = true, |m| response(m).prompt_token_ids = true);
    let candidates = |select| Some(vllm_proto::CandidateTokens { select: Some(select) });
    for (asked, wire) in [
        (Candidates::Top(0), None),
        (Candidates::Top(3), candidates(candidate_tokens::Select::TopN(3))),
        (Candidates::All, candidates(candidate_tokens::Select::All(true))),
        (Candidates::Ids(vec![4]), candidates(candidate_tokens::Select::TokenIds(ids(&[4])))),
    ] {
        let output = |m: &mut Message| {
            (response(m).output_logprobs, response(m).output_candidates) = (true, wire.clone());
        };
        check(|r| r.outputs.logprobs = Some(asked.clone()), output);
        let prompt =
            |m: &mut Message| (response(m).prompt_logprobs, response(m).prompt_candidates) = (true, wire);
        check(|r| r.outputs.prompt_logprobs = Some(asked), prompt);
    }
}

#[test]
fn every_other_field_reaches_the_message() {
    check(|r| r.priority = -5, |m| m.priority = -5);
    check(|r| r.session = Some("s".into()), |m| m.session_id = Some("s".into()));
    check(|r| r.kv.cache_salt = Some("v7".into()), |m| kv(m).cache_salt = "v7".into());
    check(|r| r.kv.bypass_prefix_cache = true, |m| kv(m).bypass_prefix_cache = true);
    let (json, empty) = (|| Some(RawJson::new("{}".into())), prost_types::Struct::default());
    check(|r| r.kv.transfer_params = json(), |m| kv(m).kv_transfer_params = Some(empty.clone()));
    check(|r| r.kv.ec_transfer_params = json(), |m| kv(m).ec_transfer_params = Some(empty.clone()));
    let reasoning = Reasoning { ended: Some(false), chat_template_kwargs: json() };
    let gate =
        vllm_proto::EngineReasoningGate { reasoning_ended: Some(false), chat_template_kwargs: Some(empty) };
    check(|r| r.reasoning = Some(reasoning), |m| m.engine_reasoning_gate = Some(gate));
}

#[test]
fn several_continuations_do_not_fit_one_call() {
    let refused = message(&GenerateRequest { n: 2, ..request() }, "e".into(), &served())
        .expect_err("n is fanned out above");
    assert_eq!(refused.to_string(), "n: must be 1 for one call");
}

#[test]
fn an_adapter_has_a_field_of_its_own_where_the_engine_takes_any() {
    let named = |name: &str, lora| {
        let asked = GenerateRequest { model: name.into(), ..request() };
        let message = message(&asked, "e".into(), &ModelInfo { lora, ..served() }).expect("converts");
        (message.model, message.lora_name)
    };
    assert_eq!(named("alias", true), ("alias".into(), String::new()));
    assert_eq!(named("ad", true), (String::new(), "ad".into()));
    assert_eq!(named("ad", false), ("ad".into(), String::new()));
}
