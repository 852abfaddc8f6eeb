//! [`GenerateRequest`] → `vllm.GenerateRequest`. One copy of the prompt, at this boundary.

pub(crate) mod json;
mod media;

use tito_types::{
    Candidates, EngineError, GenerateRequest, KvOptions, ModelInfo, Outputs, Reasoning, Sampling, Stopping,
    StructuredOutput,
};
use vllm_proto::decoding_parameters::{StringChoices, StructuredOutput as WireStructured};
use vllm_proto::{candidate_tokens, generate_request};

use self::json::struct_of;
use self::media::media_of;

/// The message for one attempt, under the id the engine that serves `served` will know it by.
pub(crate) fn message(
    request: &GenerateRequest,
    engine_id: String,
    served: &ModelInfo,
) -> Result<vllm_proto::GenerateRequest, EngineError> {
    // No `..`: a field added to the waist does not compile until someone decides what vLLM gets.
    let GenerateRequest {
        id: _,
        model,
        prompt,
        media,
        n,
        sampling,
        stopping,
        native_sampling: _, // vLLM's gRPC takes the typed fields
        outputs,
        kv,
        priority,
        session,
        rank: _,   // travels as metadata
        worker: _, // chose this engine
        reasoning,
        delivery: _, // chooses the method
    } = request;
    if *n != 1 {
        return Err(EngineError::Invalid { param: "n".into(), message: "must be 1 for one call".into() });
    }
    // vLLM takes an adapter's name in a field of its own; whether it is loaded, the engine knows best.
    let adapter = served.lora && !served.names.contains(model);
    let (model, lora_name) = if adapter { ("", model.as_str()) } else { (model.as_str(), "") };
    let (random, decoding) = sampling_of(sampling);
    Ok(vllm_proto::GenerateRequest {
        request_id: engine_id,
        model: model.to_owned(),
        prompt: Some(generate_request::Prompt::TokenIds(vllm_proto::TokenIds { ids: prompt.to_vec() })),
        temperature: sampling.temperature,
        sampling: Some(random),
        decoding: Some(decoding),
        stopping: Some(stopping_of(stopping)),
        response: Some(response_of(outputs)),
        kv: kv_of(kv)?,
        truncate_prompt_tokens: 0,
        priority: *priority,
        session_id: session.clone(),
        media: media_of(media, served.multimodal)?,
        lora_name: lora_name.to_owned(),
        watermarking: sampling.watermarking,
        kv_hints: None,
        engine_reasoning_gate: reasoning.as_ref().map(reasoning_of).transpose()?,
    })
}

fn sampling_of(sampling: &Sampling) -> (vllm_proto::RandomSampling, vllm_proto::DecodingParameters) {
    let Sampling {
        temperature: _, // stands beside these messages
        top_p,
        top_k,
        min_p,
        seed,
        presence_penalty,
        frequency_penalty,
        repetition_penalty,
        logit_bias,
        allowed_token_ids,
        bad_words_token_ids,
        structured,
        watermarking: _, // so does this
    } = sampling;
    let random = vllm_proto::RandomSampling {
        num_sequences: 1,
        top_k: *top_k,
        top_p: *top_p,
        min_p: *min_p,
        seed: *seed,
    };
    let bad_words = bad_words_token_ids.iter().map(|ids| vllm_proto::TokenIds { ids: ids.clone() });
    let decoding = vllm_proto::DecodingParameters {
        // 0 means unset for all three; unset penalties are neutral (repetition: unless generation_config says otherwise).
        presence_penalty: presence_penalty.unwrap_or(0.0),
        frequency_penalty: frequency_penalty.unwrap_or(0.0),
        repetition_penalty: repetition_penalty.unwrap_or(0.0),
        logit_bias: logit_bias.iter().copied().collect(),
        allowed_token_ids: allowed_token_ids.clone(),
        bad_words_token_ids: bad_words.collect(),
        structured_output: structured.as_ref().map(structured_of),
    };
    (random, decoding)
}

fn structured_of(structured: &StructuredOutput) -> WireStructured {
    match structured {
        StructuredOutput::JsonSchema(schema) => WireStructured::Json(schema.clone()),
        StructuredOutput::JsonObject => WireStructured::JsonObject(true),
        StructuredOutput::Regex(regex) => WireStructured::Regex(regex.clone()),
        StructuredOutput::Choice(choices) => {
            WireStructured::Choice(StringChoices { choices: choices.clone() })
        }
        StructuredOutput::Grammar(grammar) => WireStructured::Grammar(grammar.clone()),
        StructuredOutput::StructuralTag(tag) => WireStructured::StructuralTag(tag.clone()),
    }
}

fn stopping_of(stopping: &Stopping) -> vllm_proto::StoppingCriteria {
    let Stopping {
        max_tokens,
        min_tokens,
        stop,
        stop_token_ids,
        include_stop_str_in_output,
        ignore_eos,
        thinking_token_budget,
    } = stopping;
    vllm_proto::StoppingCriteria {
        max_new_tokens: max_tokens.unwrap_or(0), // 0 asks for the engine's default
        min_new_tokens: *min_tokens,
        stop_token_ids: stop_token_ids.clone(),
        stop_strings: stop.clone(),
        include_stop_strings: *include_stop_str_in_output,
        ignore_eos: *ignore_eos,
        thinking_token_budget: *thinking_token_budget,
    }
}

fn response_of(outputs: &Outputs) -> vllm_proto::ResponseOptions {
    let Outputs {
        logprobs,
        prompt_logprobs,
        text,
        prompt_token_ids,
        skip_special_tokens,
        routed_experts_prompt_start: _, // vLLM 0.32 returns no experts over gRPC
    } = outputs;
    vllm_proto::ResponseOptions {
        prompt_token_ids: *prompt_token_ids,
        prompt_logprobs: prompt_logprobs.is_some(),
        prompt_candidates: prompt_logprobs.as_ref().and_then(candidates_of),
        output_text: Some(*text),
        output_token_ids: true,
        output_logprobs: logprobs.is_some(),
        output_candidates: logprobs.as_ref().and_then(candidates_of),
        skip_special_tokens: Some(*skip_special_tokens),
    }
}

/// Absent candidates report the sampled (or scored) token alone.
fn candidates_of(candidates: &Candidates) -> Option<vllm_proto::CandidateTokens> {
    let select = match candidates {
        Candidates::Top(0) => return None,
        Candidates::Top(n) => candidate_tokens::Select::TopN(*n),
        Candidates::All => candidate_tokens::Select::All(true),
        Candidates::Ids(ids) => candidate_tokens::Select::TokenIds(vllm_proto::TokenIds { ids: ids.clone() }),
    };
    Some(vllm_proto::CandidateTokens { select: Some(select) })
}

fn kv_of(kv: &KvOptions) -> Result<Option<vllm_proto::KvCacheParameters>, EngineError> {
    if *kv == KvOptions::default() {
        return Ok(None);
    }
    let KvOptions { cache_salt, bypass_prefix_cache, transfer_params, ec_transfer_params } = kv;
    let params = |name: &str, json: &Option<tito_types::RawJson>| {
        json.as_ref().map(|json| struct_of(json.as_str(), name)).transpose()
    };
    Ok(Some(vllm_proto::KvCacheParameters {
        bypass_prefix_cache: *bypass_prefix_cache,
        cache_salt: cache_salt.clone().unwrap_or_default(),
        kv_transfer_params: params("kv_transfer_params", transfer_params)?,
        ec_transfer_params: params("ec_transfer_params", ec_transfer_params)?,
    }))
}

fn reasoning_of(reasoning: &Reasoning) -> Result<vllm_proto::EngineReasoningGate, EngineError> {
    let Reasoning { ended, chat_template_kwargs } = reasoning;
    let kwargs = chat_template_kwargs.as_ref();
    let name = "reasoning_parser_kwargs.chat_template_kwargs";
    Ok(vllm_proto::EngineReasoningGate {
        reasoning_ended: *ended,
        chat_template_kwargs: kwargs.map(|json| struct_of(json.as_str(), name)).transpose()?,
    })
}

#[cfg(test)]
mod tests;
