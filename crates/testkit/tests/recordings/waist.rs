//! Recorded messages as requests of the waist.

use std::sync::Arc;

use serde_json::Value;
use tito_types::{
    Candidates, Delivery, GenerateRequest, KvOptions, Outputs, RawJson, Reasoning, RequestId, Sampling,
    Stopping, StructuredOutput,
};
use vllm_proto::candidate_tokens::Select;
use vllm_proto::decoding_parameters::StructuredOutput as Wire;
use vllm_proto::generate_request::Prompt;
use vllm_proto::{CandidateTokens, DecodingParameters, GenerateRequest as Message, RandomSampling};

use crate::fixture::Fixture;

/// The request that a recorded message means, and the fields that the waist has no place for.
pub(crate) fn request_of(fixture: &Fixture) -> (GenerateRequest, Vec<&'static str>) {
    let mut lost = Vec::new();
    let message = fixture.request.clone().unwrap_or_else(|| {
        lost.push("bytes");
        Message::default()
    });
    let (prompt, sampling) = (prompt_of(&message, &mut lost), sampling_of(&message, &mut lost));
    for (field, set) in [
        ("truncate_prompt_tokens", message.truncate_prompt_tokens > 0),
        ("media", !message.media.is_empty()),
        ("lora_name", !message.lora_name.is_empty()),
        ("kv_hints", message.kv_hints.is_some()),
        ("sampling.num_sequences", message.sampling.as_ref().is_some_and(|s| s.num_sequences > 1)),
    ] {
        if set {
            lost.push(field);
        }
    }
    let id = RequestId::parse(&message.request_id).unwrap_or_else(|_| {
        if !message.request_id.is_empty() {
            lost.push("request_id");
        }
        RequestId::parse("unnamed").expect("visible ASCII")
    });
    let request = GenerateRequest {
        id,
        model: message.model.clone(),
        prompt,
        media: tito_types::Media::None,
        n: 1,
        sampling,
        stopping: stopping_of(&message),
        native_sampling: None,
        outputs: outputs_of(&message),
        kv: kv_of(&message, &fixture.json),
        priority: message.priority,
        session: message.session_id.clone(),
        rank: rank_of(fixture, &mut lost),
        worker: None,
        reasoning: message.engine_reasoning_gate.as_ref().map(|gate| Reasoning {
            ended: gate.reasoning_ended,
            chat_template_kwargs: raw(&fixture.json["engine_reasoning_gate"]["chat_template_kwargs"]),
        }),
        delivery: if fixture.streaming { Delivery::Deltas } else { Delivery::Whole },
    };
    (request, lost)
}

fn prompt_of(message: &Message, lost: &mut Vec<&'static str>) -> Arc<[u32]> {
    match &message.prompt {
        Some(Prompt::TokenIds(ids)) if !ids.ids.is_empty() => return ids.ids.as_slice().into(),
        Some(Prompt::TokenIds(_)) | None => lost.push("prompt.empty"),
        Some(Prompt::Text(_)) => lost.push("prompt.text"),
    }
    Arc::from([1])
}

fn sampling_of(message: &Message, lost: &mut Vec<&'static str>) -> Sampling {
    let RandomSampling { num_sequences: _, top_k, top_p, min_p, seed } = message.sampling.unwrap_or_default();
    let DecodingParameters {
        presence_penalty,
        frequency_penalty,
        repetition_penalty,
        logit_bias,
        allowed_token_ids,
        bad_words_token_ids,
        structured_output,
    } = message.decoding.clone().unwrap_or_default();
    let bad_words: Vec<Vec<u32>> = bad_words_token_ids.into_iter().map(|word| word.ids).collect();
    if structured_output == Some(Wire::JsonObject(false)) {
        lost.push("decoding.json_object.false");
    }
    let unless_zero = |value: f32| (value != 0.0).then_some(value);
    Sampling {
        temperature: message.temperature,
        top_p,
        top_k,
        min_p,
        seed,
        presence_penalty: unless_zero(presence_penalty),
        frequency_penalty: unless_zero(frequency_penalty),
        repetition_penalty: unless_zero(repetition_penalty),
        logit_bias: logit_bias.into_iter().collect(),
        allowed_token_ids,
        bad_words_token_ids: bad_words,
        structured: structured_output.and_then(structured_of),
        watermarking: message.watermarking,
    }
}

fn structured_of(structured: Wire) -> Option<StructuredOutput> {
    Some(match structured {
        Wire::Json(schema) => StructuredOutput::JsonSchema(schema),
        Wire::Regex(regex) => StructuredOutput::Regex(regex),
        Wire::Choice(choice) => StructuredOutput::Choice(choice.choices),
        Wire::Grammar(grammar) => StructuredOutput::Grammar(grammar),
        Wire::StructuralTag(tag) => StructuredOutput::StructuralTag(tag),
        Wire::JsonObject(true) => StructuredOutput::JsonObject,
        Wire::JsonObject(false) => return None,
    })
}

fn stopping_of(message: &Message) -> Stopping {
    let stopping = message.stopping.clone().unwrap_or_default();
    Stopping {
        max_tokens: (stopping.max_new_tokens > 0).then_some(stopping.max_new_tokens),
        min_tokens: stopping.min_new_tokens,
        stop: stopping.stop_strings,
        stop_token_ids: stopping.stop_token_ids,
        include_stop_str_in_output: stopping.include_stop_strings,
        ignore_eos: stopping.ignore_eos,
        thinking_token_budget: stopping.thinking_token_budget,
    }
}

fn outputs_of(message: &Message) -> Outputs {
    let response = message.response.clone().unwrap_or_default();
    let candidates = |on: bool, candidates: Option<CandidateTokens>| on.then(|| candidates_of(candidates));
    Outputs {
        logprobs: candidates(response.output_logprobs, response.output_candidates),
        prompt_logprobs: candidates(response.prompt_logprobs, response.prompt_candidates),
        text: response.output_text.unwrap_or(true),
        prompt_token_ids: response.prompt_token_ids,
        skip_special_tokens: response.skip_special_tokens.unwrap_or(true),
        routed_experts_prompt_start: None,
    }
}

fn candidates_of(candidates: Option<CandidateTokens>) -> Candidates {
    match candidates.and_then(|candidates| candidates.select) {
        None | Some(Select::All(false)) => Candidates::Top(0),
        Some(Select::TopN(n)) => Candidates::Top(n),
        Some(Select::All(true)) => Candidates::All,
        Some(Select::TokenIds(ids)) if ids.ids.is_empty() => Candidates::Top(0),
        Some(Select::TokenIds(ids)) => Candidates::Ids(ids.ids),
    }
}

fn kv_of(message: &Message, json: &Value) -> KvOptions {
    let kv = message.kv.clone().unwrap_or_default();
    KvOptions {
        cache_salt: (!kv.cache_salt.is_empty()).then_some(kv.cache_salt),
        bypass_prefix_cache: kv.bypass_prefix_cache,
        transfer_params: raw(&json["kv"]["kv_transfer_params"]),
        ec_transfer_params: raw(&json["kv"]["ec_transfer_params"]),
    }
}

fn raw(value: &Value) -> Option<RawJson> {
    (!value.is_null()).then(|| RawJson::new(value.to_string()))
}

fn rank_of(fixture: &Fixture, lost: &mut Vec<&'static str>) -> Option<u32> {
    match fixture.metadata.as_slice() {
        [] => None,
        [(key, value)] if key == "x-data-parallel-rank" => {
            let rank = value.parse().ok();
            if rank.is_none() {
                lost.push("metadata.rank");
            }
            rank
        }
        _ => {
            lost.push("metadata");
            None
        }
    }
}
