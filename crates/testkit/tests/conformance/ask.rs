//! Requests, written as what differs from a short greedy one.

use prost_types::Struct;
use prost_types::value::Kind as Value;
use vllm_proto::generate_request::Prompt;
use vllm_proto::media_item::Source;
use vllm_proto::{
    CandidateTokens, DecodingParameters, GenerateRequest, KvCacheParameters, MediaItem, RandomSampling,
    ResponseOptions, StoppingCriteria, TokenIds, candidate_tokens::Select,
};

use crate::target::{Kind, Target};

/// Ids that are printable characters in every vocabulary: text that begins inside a character is a case of its own.
const PRINTABLE_IDS: std::ops::Range<u32> = 33..123;

/// `tokens` printable ids; another `variant` differs from the first on.
pub(crate) fn prompt(tokens: u32, variant: u32) -> Vec<u32> {
    let count = PRINTABLE_IDS.end - PRINTABLE_IDS.start;
    (0..tokens).map(|at| PRINTABLE_IDS.start + (at * 7 + variant * 31) % count).collect()
}

pub(crate) fn ids(ids: &[u32]) -> TokenIds {
    TokenIds { ids: ids.to_vec() }
}

/// A greedy request for exactly `budget` tokens whose ids come back.
pub(crate) fn greedy(prompt: &[u32], budget: u32) -> GenerateRequest {
    let request = GenerateRequest {
        prompt: Some(Prompt::TokenIds(ids(prompt))),
        temperature: Some(0.0),
        ..Default::default()
    };
    request.with(|request| {
        request.request_id = "conformance".into();
        request.stopping().max_new_tokens = budget;
        request.stopping().ignore_eos = true;
        request.response().output_token_ids = true;
    })
}

/// A request whose text is letters, one per token, on every engine.
pub(crate) fn letters(budget: u32) -> GenerateRequest {
    greedy(&prompt(40, 3), budget).with(|request| {
        request.temperature = Some(1.0);
        request.sampling().seed = Some(3);
        request.decoding().allowed_token_ids = vec![65, 66, 67];
    })
}

/// A greedy request that would take seconds, under an id of its own.
pub(crate) fn long(target: &Target, id: &str) -> GenerateRequest {
    let tokens = target.facts.context - 100;
    slow(target, greedy(&prompt(40, 5), tokens)).with(|request| request.request_id = id.into())
}

/// A budget that takes two or three seconds: long enough to be interrupted on a busy machine.
pub(crate) fn lasting(target: &Target) -> u32 {
    match target.kind {
        Kind::Mock => 300,
        Kind::Light => 120,
        Kind::Dense => 1200,
    }
}

/// Real engines and the mock are slow by themselves; the scripted one waits when told to.
pub(crate) fn slow(target: &Target, request: GenerateRequest) -> GenerateRequest {
    if target.kind != Kind::Light {
        return request;
    }
    script(request, [("delay", Value::NumberValue(0.02))])
}

/// Steers the output of an engine that takes scripts.
pub(crate) fn script<const N: usize>(request: GenerateRequest, knobs: [(&str, Value); N]) -> GenerateRequest {
    let script = Value::StructValue(structure(knobs));
    request.with(|request| request.kv().kv_transfer_params = Some(structure([("script", script)])))
}

pub(crate) fn structure<const N: usize>(fields: [(&str, Value); N]) -> Struct {
    let fields =
        fields.into_iter().map(|(key, kind)| (key.to_owned(), prost_types::Value { kind: Some(kind) }));
    Struct { fields: fields.collect() }
}

pub(crate) fn numbers(numbers: &[u32]) -> Value {
    list(numbers.iter().map(|&number| Value::NumberValue(f64::from(number))))
}

pub(crate) fn list(items: impl IntoIterator<Item = Value>) -> Value {
    let values = items.into_iter().map(|kind| prost_types::Value { kind: Some(kind) }).collect();
    Value::ListValue(prost_types::ListValue { values })
}

pub(crate) fn top(n: u32) -> CandidateTokens {
    CandidateTokens { select: Some(Select::TopN(n)) }
}

pub(crate) fn chosen(tokens: &[u32]) -> CandidateTokens {
    CandidateTokens { select: Some(Select::TokenIds(ids(tokens))) }
}

pub(crate) fn all(all: bool) -> CandidateTokens {
    CandidateTokens { select: Some(Select::All(all)) }
}

/// A request with one image.
pub(crate) fn with_media(source: Source) -> GenerateRequest {
    let image = MediaItem { modality: 1, source: Some(source), ..Default::default() };
    greedy(&prompt(20, 1), 2).with(|request| request.media = vec![image])
}

/// The parts of a request, made when they are first touched.
pub(crate) trait Ask: Sized {
    #[must_use]
    fn with(self, edit: impl FnOnce(&mut Self)) -> Self;
    fn sampling(&mut self) -> &mut RandomSampling;
    fn decoding(&mut self) -> &mut DecodingParameters;
    fn stopping(&mut self) -> &mut StoppingCriteria;
    fn response(&mut self) -> &mut ResponseOptions;
    fn kv(&mut self) -> &mut KvCacheParameters;
}

impl Ask for GenerateRequest {
    fn with(mut self, edit: impl FnOnce(&mut Self)) -> Self {
        edit(&mut self);
        self
    }

    fn sampling(&mut self) -> &mut RandomSampling {
        self.sampling.get_or_insert_default()
    }

    fn decoding(&mut self) -> &mut DecodingParameters {
        self.decoding.get_or_insert_default()
    }

    fn stopping(&mut self) -> &mut StoppingCriteria {
        self.stopping.get_or_insert_default()
    }

    fn response(&mut self) -> &mut ResponseOptions {
        self.response.get_or_insert_default()
    }

    fn kv(&mut self) -> &mut KvCacheParameters {
        self.kv.get_or_insert_default()
    }
}
