//! A generate request as JSON: original field names, absent and default fields left out, as the recordings do.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost_types::value::Kind;
use prost_types::{Struct, Value as ProtoValue};
use serde_json::{Map, Value, json};
use vllm_proto::candidate_tokens::Select;
use vllm_proto::decoding_parameters::StructuredOutput;
use vllm_proto::generate_request::Prompt;
use vllm_proto::media_item::Source;
use vllm_proto::{
    CandidateTokens, DecodingParameters, EngineReasoningGate, GenerateRequest, KvCacheParameters,
    KvHintsEnvelope, MediaItem, RandomSampling, ResponseOptions, StoppingCriteria,
};

/// An object in the making that leaves out what is absent or default.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn some(mut self, name: &str, value: Option<Value>) -> Self {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value);
        }
        self
    }

    /// A field without presence: its default is not on the wire.
    fn set<T: Default + PartialEq + Into<Value> + Clone>(self, name: &str, value: &T) -> Self {
        let given = (*value != T::default()).then(|| value.clone().into());
        self.some(name, given)
    }

    fn list<T: Clone + Into<Value>>(self, name: &str, values: &[T]) -> Self {
        let given = (!values.is_empty()).then(|| values.iter().cloned().map(Into::into).collect());
        self.some(name, given)
    }

    fn done(self) -> Value {
        Value::Object(self.0)
    }
}

pub(super) fn request(request: &GenerateRequest) -> Value {
    let GenerateRequest {
        request_id,
        model,
        temperature,
        sampling: random,
        decoding: decode,
        stopping: stop,
        response: options,
        kv: cache,
        truncate_prompt_tokens,
        priority,
        session_id,
        media: items,
        lora_name,
        watermarking,
        kv_hints: hints,
        engine_reasoning_gate: gate,
        prompt,
    } = request;
    let (text, ids) = match prompt {
        None => (None, None),
        Some(Prompt::Text(text)) => (Some(json!(text)), None),
        Some(Prompt::TokenIds(list)) => (None, Some(json!({ "ids": list.ids }))),
    };
    Fields::default()
        .set("request_id", request_id)
        .set("model", model)
        .some("text", text)
        .some("token_ids", ids)
        .some("temperature", temperature.map(float))
        .some("sampling", random.as_ref().map(sampling))
        .some("decoding", decode.as_ref().map(decoding))
        .some("stopping", stop.as_ref().map(stopping))
        .some("response", options.as_ref().map(response))
        .some("kv", cache.as_ref().map(kv))
        .set("truncate_prompt_tokens", truncate_prompt_tokens)
        .set("priority", priority)
        .some("session_id", session_id.clone().map(Value::from))
        .list("media", &items.iter().map(media).collect::<Vec<_>>())
        .set("lora_name", lora_name)
        .some("watermarking", watermarking.map(Value::from))
        .some("kv_hints", hints.as_ref().map(kv_hints))
        .some("engine_reasoning_gate", gate.as_ref().map(reasoning_gate))
        .done()
}

fn sampling(sampling: &RandomSampling) -> Value {
    let RandomSampling { num_sequences, top_k, top_p, min_p, seed } = sampling;
    Fields::default()
        .set("num_sequences", num_sequences)
        .some("top_k", top_k.map(Value::from))
        .some("top_p", top_p.map(float))
        .some("min_p", min_p.map(float))
        .some("seed", seed.map(|seed| json!(seed.to_string())))
        .done()
}

fn decoding(decoding: &DecodingParameters) -> Value {
    let DecodingParameters {
        presence_penalty,
        frequency_penalty,
        repetition_penalty,
        logit_bias,
        allowed_token_ids,
        bad_words_token_ids,
        structured_output,
    } = decoding;
    let mut bias: Vec<(u32, f32)> = logit_bias.iter().map(|(id, bias)| (*id, *bias)).collect();
    bias.sort_by_key(|(id, _)| *id);
    let bias: Map<String, Value> = bias.into_iter().map(|(id, bias)| (id.to_string(), float(bias))).collect();
    let words: Vec<Value> = bad_words_token_ids.iter().map(|word| json!({ "ids": word.ids })).collect();
    let penalty = |value: f32| (value != 0.0).then(|| float(value));
    let fields = Fields::default()
        .some("presence_penalty", penalty(*presence_penalty))
        .some("frequency_penalty", penalty(*frequency_penalty))
        .some("repetition_penalty", penalty(*repetition_penalty))
        .some("logit_bias", (!bias.is_empty()).then(|| Value::Object(bias)))
        .list("allowed_token_ids", allowed_token_ids)
        .list("bad_words_token_ids", &words);
    match structured_output {
        None => fields,
        Some(StructuredOutput::Json(schema)) => fields.some("json", Some(json!(schema))),
        Some(StructuredOutput::Regex(regex)) => fields.some("regex", Some(json!(regex))),
        Some(StructuredOutput::Choice(choice)) => {
            fields.some("choice", Some(json!({ "choices": choice.choices })))
        }
        Some(StructuredOutput::Grammar(grammar)) => fields.some("grammar", Some(json!(grammar))),
        Some(StructuredOutput::JsonObject(on)) => fields.some("json_object", Some(json!(on))),
        Some(StructuredOutput::StructuralTag(tag)) => fields.some("structural_tag", Some(json!(tag))),
    }
    .done()
}

fn stopping(stopping: &StoppingCriteria) -> Value {
    let StoppingCriteria {
        max_new_tokens,
        min_new_tokens,
        stop_token_ids,
        stop_strings,
        include_stop_strings,
        ignore_eos,
        thinking_token_budget,
    } = stopping;
    Fields::default()
        .set("max_new_tokens", max_new_tokens)
        .set("min_new_tokens", min_new_tokens)
        .list("stop_token_ids", stop_token_ids)
        .list("stop_strings", stop_strings)
        .set("include_stop_strings", include_stop_strings)
        .set("ignore_eos", ignore_eos)
        .some("thinking_token_budget", thinking_token_budget.map(|budget| json!(budget.to_string())))
        .done()
}

fn response(options: &ResponseOptions) -> Value {
    let ResponseOptions {
        prompt_token_ids,
        prompt_logprobs,
        prompt_candidates,
        output_text,
        output_token_ids,
        output_logprobs,
        output_candidates,
        skip_special_tokens,
    } = options;
    Fields::default()
        .set("prompt_token_ids", prompt_token_ids)
        .set("prompt_logprobs", prompt_logprobs)
        .some("prompt_candidates", prompt_candidates.as_ref().map(candidates))
        .some("output_text", output_text.map(Value::from))
        .set("output_token_ids", output_token_ids)
        .set("output_logprobs", output_logprobs)
        .some("output_candidates", output_candidates.as_ref().map(candidates))
        .some("skip_special_tokens", skip_special_tokens.map(Value::from))
        .done()
}

fn candidates(candidates: &CandidateTokens) -> Value {
    match &candidates.select {
        None => json!({}),
        Some(Select::TopN(count)) => json!({ "top_n": count }),
        Some(Select::TokenIds(list)) => json!({ "token_ids": { "ids": list.ids } }),
        Some(Select::All(all)) => json!({ "all": all }),
    }
}

fn kv(kv: &KvCacheParameters) -> Value {
    let KvCacheParameters { bypass_prefix_cache, cache_salt, kv_transfer_params, ec_transfer_params } = kv;
    Fields::default()
        .set("bypass_prefix_cache", bypass_prefix_cache)
        .set("cache_salt", cache_salt)
        .some("kv_transfer_params", kv_transfer_params.as_ref().map(structure))
        .some("ec_transfer_params", ec_transfer_params.as_ref().map(structure))
        .done()
}

fn media(item: &MediaItem) -> Value {
    let MediaItem { modality, mime_type, uuid, source } = item;
    let fields = Fields::default().set("modality", modality).set("mime_type", mime_type).set("uuid", uuid);
    match source {
        None => fields,
        Some(Source::Url(url)) => fields.some("url", Some(json!(url))),
        Some(Source::DataUri(uri)) => fields.some("data_uri", Some(json!(uri))),
        Some(Source::RawBytes(bytes)) => fields.some("raw_bytes", Some(json!(STANDARD.encode(bytes)))),
        Some(Source::Features(features)) => {
            let inner = Fields::default()
                .some("kwargs", features.kwargs.as_ref().map(|kwargs| json!(STANDARD.encode(kwargs))))
                .set("identifier", &features.identifier)
                .set("offset", &features.offset)
                .set("length", &features.length)
                .some("mm_hash", features.mm_hash.clone().map(Value::from))
                .list("is_embed", &features.is_embed);
            fields.some("features", Some(inner.done()))
        }
    }
    .done()
}

fn kv_hints(envelope: &KvHintsEnvelope) -> Value {
    let KvHintsEnvelope { protocol_version, message_id, actions } = envelope;
    let action = |action: &vllm_proto::KvHintAction| {
        Fields::default()
            .set("action_id", &action.action_id)
            .set("action_type", &action.action_type)
            .set("action_version", &action.action_version)
            .some("payload", action.payload.as_ref().map(structure))
            .done()
    };
    Fields::default()
        .set("protocol_version", protocol_version)
        .set("message_id", message_id)
        .list("actions", &actions.iter().map(action).collect::<Vec<_>>())
        .done()
}

fn reasoning_gate(gate: &EngineReasoningGate) -> Value {
    let EngineReasoningGate { reasoning_ended, chat_template_kwargs } = gate;
    Fields::default()
        .some("reasoning_ended", reasoning_ended.map(Value::from))
        .some("chat_template_kwargs", chat_template_kwargs.as_ref().map(structure))
        .done()
}

fn structure(structure: &Struct) -> Value {
    Value::Object(structure.fields.iter().map(|(name, value)| (name.clone(), dynamic(value))).collect())
}

fn dynamic(value: &ProtoValue) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::NumberValue(number)) => json!(number),
        Some(Kind::StringValue(text)) => json!(text),
        Some(Kind::BoolValue(flag)) => json!(flag),
        Some(Kind::StructValue(inner)) => structure(inner),
        Some(Kind::ListValue(list)) => list.values.iter().map(dynamic).collect(),
    }
}

/// The number as a client wrote it: the shortest decimal of the float. What is not finite is a string.
fn float(value: f32) -> Value {
    if !value.is_finite() {
        return json!(value.to_string());
    }
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}
