//! The message that the adapter sent, beside the recorded one.

use std::collections::BTreeMap;

use prost::Message as _;
use tito_test_support::grpc::Call;
use vllm_proto::candidate_tokens::Select;
use vllm_proto::{CandidateTokens, DecodingParameters, GenerateRequest, KvCacheParameters, ResponseOptions};

use crate::Difference;
use crate::fixture::Fixture;

/// Every field on its own, then method and metadata.
pub(crate) fn compare(fixture: &Fixture, seen: &Call) -> Vec<Difference> {
    let recorded = fixture.request.clone().unwrap_or_default();
    let sent = match GenerateRequest::decode(seen.message.clone()) {
        Ok(sent) => sent,
        Err(error) => return vec![Difference::new("call", format!("undecodable: {error}"))],
    };
    let mut found = Vec::new();
    if !recorded.request_id.is_empty() && !sent.request_id.starts_with(&format!("{}-", recorded.request_id)) {
        found.push(Difference::new("request_id", format!("sent as {}", sent.request_id)));
    }
    for ((name, recorded), (_, sent)) in fields(recorded).into_iter().zip(fields(sent)) {
        if recorded != sent {
            found.push(Difference::new(name, format!("recorded as {recorded}, sent as {sent}")));
        }
    }
    let method =
        if fixture.streaming { "/vllm.Inference/GenerateStream" } else { "/vllm.Inference/Generate" };
    if seen.path != method {
        found.push(Difference::new("method", format!("sent to {}", seen.path)));
    }
    let rank = "x-data-parallel-rank";
    for key in fixture.metadata.iter().map(|(key, _)| key.as_str()).chain([rank]) {
        let recorded =
            fixture.metadata.iter().filter(|(name, _)| name == key).map(|(_, value)| value.as_bytes());
        if !seen.headers.get_all(key).iter().map(http::HeaderValue::as_bytes).eq(recorded) {
            found.push(Difference::new("metadata", format!("{key} differs")));
        }
    }
    found
}

/// Field names and values, after what the adapter always spells out was spelled out: parts that were left out,
/// defaults of the response, and token ids, which it always asks for. Values as text, so that NaN equals itself.
fn fields(message: GenerateRequest) -> Vec<(&'static str, String)> {
    // No `..`: a field that the schema gains is compared from the day it exists.
    let GenerateRequest {
        request_id: _,
        model,
        prompt,
        temperature,
        sampling,
        decoding,
        stopping,
        response,
        kv,
        truncate_prompt_tokens,
        priority,
        session_id,
        media,
        lora_name,
        watermarking,
        kv_hints,
        engine_reasoning_gate,
    } = message;
    let mut sampling = sampling.unwrap_or_default();
    sampling.num_sequences = sampling.num_sequences.max(1);
    let mut decoding: DecodingParameters = decoding.unwrap_or_default();
    let bias: BTreeMap<u32, String> =
        decoding.logit_bias.drain().map(|(id, bias)| (id, bias.to_string())).collect();
    vec![
        ("model", model),
        ("prompt", format!("{prompt:?}")),
        ("temperature", format!("{temperature:?}")),
        ("sampling", format!("{sampling:?}")),
        ("decoding", format!("{decoding:?}")),
        ("decoding.logit_bias", format!("{bias:?}")),
        ("stopping", format!("{:?}", stopping.unwrap_or_default())),
        ("response", format!("{:?}", spelled_out(response.unwrap_or_default()))),
        ("kv", format!("{:?}", kv.filter(|kv| *kv != KvCacheParameters::default()))),
        ("truncate_prompt_tokens", format!("{truncate_prompt_tokens}")),
        ("priority", format!("{priority}")),
        ("session_id", format!("{session_id:?}")),
        ("media", format!("{media:?}")),
        ("lora_name", lora_name),
        ("watermarking", format!("{watermarking:?}")),
        ("kv_hints", format!("{kv_hints:?}")),
        ("engine_reasoning_gate", format!("{engine_reasoning_gate:?}")),
    ]
}

fn spelled_out(response: ResponseOptions) -> ResponseOptions {
    let ResponseOptions {
        prompt_token_ids,
        prompt_logprobs,
        prompt_candidates,
        output_text,
        output_token_ids: _,
        output_logprobs,
        output_candidates,
        skip_special_tokens,
    } = response;
    ResponseOptions {
        prompt_token_ids,
        prompt_logprobs,
        prompt_candidates: prompt_candidates.filter(|candidates| prompt_logprobs && selects(candidates)),
        output_text: Some(output_text.unwrap_or(true)),
        output_token_ids: true,
        output_logprobs,
        output_candidates: output_candidates.filter(|candidates| output_logprobs && selects(candidates)),
        skip_special_tokens: Some(skip_special_tokens.unwrap_or(true)),
    }
}

/// Whether any candidate is selected: the ways to select none are one.
fn selects(candidates: &CandidateTokens) -> bool {
    match &candidates.select {
        None | Some(Select::All(false) | Select::TopN(0)) => false,
        Some(Select::TokenIds(ids)) => !ids.ids.is_empty(),
        Some(Select::All(true) | Select::TopN(_)) => true,
    }
}
