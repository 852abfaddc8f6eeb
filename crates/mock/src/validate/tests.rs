//! Limits to the last value, one row each. What vLLM was seen to refuse and to take is replayed in `tests/it/replay.rs`.

use tonic::Code;
use vllm_proto::candidate_tokens::Select;
use vllm_proto::decoding_parameters::{StringChoices, StructuredOutput};
use vllm_proto::generate_request::Prompt;
use vllm_proto::media_item::Source;
use vllm_proto::{
    CandidateTokens, DecodingParameters, GenerateRequest, MediaItem, PreprocessedMediaFeatures,
    RandomSampling, ResponseOptions, StoppingCriteria, TokenIds,
};

use super::{Candidates, Limits, Plan, validate};
use crate::config::{GenerationConfig, MockConfig};
use crate::control::Adapter;

mod structured;

fn check(request: &GenerateRequest) -> Result<Plan, Code> {
    check_with(request, &GenerationConfig::default(), 20)
}

fn check_with(
    request: &GenerateRequest,
    generation: &GenerationConfig,
    max_logprobs: i32,
) -> Result<Plan, Code> {
    let adapter = || Adapter { id: 1, source_path: "org/name".to_owned() };
    let loaded = |name: &str| (name == "loaded").then(adapter);
    let limits = Limits {
        vocabulary: &MockConfig::new().vocabulary,
        generation,
        max_model_len: 100,
        max_logprobs,
        serves: &|name| name == "served",
        adapter: if request.session_id.as_deref() == Some("no lora") { None } else { Some(&loaded) },
        multimodal: None,
    };
    validate(request, &limits).map_err(|status| status.code())
}

fn request() -> GenerateRequest {
    GenerateRequest { prompt: Some(ids(&[1, 2, 3])), ..GenerateRequest::default() }
}

fn ids(ids: &[u32]) -> Prompt {
    Prompt::TokenIds(TokenIds { ids: ids.to_vec() })
}

fn edited<T: Default>(edit: impl FnOnce(&mut T)) -> T {
    let mut value = T::default();
    edit(&mut value);
    value
}

fn sampling(edit: impl FnOnce(&mut RandomSampling)) -> GenerateRequest {
    GenerateRequest { sampling: Some(edited(edit)), ..request() }
}

fn decoding(edit: impl FnOnce(&mut DecodingParameters)) -> GenerateRequest {
    GenerateRequest { decoding: Some(edited(edit)), ..request() }
}

fn stopping(edit: impl FnOnce(&mut StoppingCriteria)) -> GenerateRequest {
    GenerateRequest { stopping: Some(edited(edit)), ..request() }
}

fn lengths(max_new_tokens: u32, min_new_tokens: u32) -> GenerateRequest {
    stopping(|stopping| (stopping.max_new_tokens, stopping.min_new_tokens) = (max_new_tokens, min_new_tokens))
}

fn response(edit: impl FnOnce(&mut ResponseOptions)) -> GenerateRequest {
    GenerateRequest { response: Some(edited(edit)), ..request() }
}

fn output_candidates(select: Select) -> GenerateRequest {
    response(|response| {
        response.output_logprobs = true;
        response.output_candidates = Some(CandidateTokens { select: Some(select) });
    })
}

fn list(count: u32) -> Select {
    Select::TokenIds(TokenIds { ids: (0..count).collect() })
}

#[test]
fn what_is_beyond_a_limit_is_refused_with_its_code() {
    let bad_word = TokenIds { ids: vec![1024] };
    let truncated = |truncate_prompt_tokens, request| GenerateRequest { truncate_prompt_tokens, ..request };
    let refused = vec![
        ("id outside", GenerateRequest { prompt: Some(ids(&[5, 1024])), ..request() }),
        ("prompt fills the context", GenerateRequest { prompt: Some(ids(&[1; 100])), ..request() }),
        ("temperature 2.1", GenerateRequest { temperature: Some(2.1), ..request() }),
        ("temperature -0.1", GenerateRequest { temperature: Some(-0.1), ..request() }),
        ("top_p 1.1", sampling(|sampling| sampling.top_p = Some(1.1))),
        ("top_p nan", sampling(|sampling| sampling.top_p = Some(f32::NAN))),
        ("min_p -0.1", sampling(|sampling| sampling.min_p = Some(-0.1))),
        ("min_p 1.1", sampling(|sampling| sampling.min_p = Some(1.1))),
        ("presence 2.1", decoding(|decoding| decoding.presence_penalty = 2.1)),
        ("presence nan", decoding(|decoding| decoding.presence_penalty = f32::NAN)),
        ("frequency -2.1", decoding(|decoding| decoding.frequency_penalty = -2.1)),
        ("repetition inf", decoding(|decoding| decoding.repetition_penalty = f32::INFINITY)),
        ("repetition nan", decoding(|decoding| decoding.repetition_penalty = f32::NAN)),
        ("bias outside", decoding(|decoding| decoding.logit_bias = [(1024, 1.0)].into())),
        ("allowed outside the tokenizer", decoding(|decoding| decoding.allowed_token_ids = vec![1010])),
        ("bad word outside", decoding(|decoding| decoding.bad_words_token_ids = vec![bad_word])),
        ("min over max", lengths(4, 5)),
        ("min over the rest", lengths(0, 98)),
        ("min over the clamp", lengths(200, 98)),
        ("stop id outside", stopping(|stopping| stopping.stop_token_ids = vec![1024])),
        ("thinking budget -2", stopping(|stopping| stopping.thinking_token_budget = Some(-2))),
        ("21 candidates", output_candidates(Select::TopN(21))),
        ("129 candidate ids", output_candidates(list(129))),
        ("candidate outside", output_candidates(Select::TokenIds(TokenIds { ids: vec![1024] }))),
        ("truncation beyond the context", truncated(101, request())),
        ("truncation into the output", truncated(93, lengths(8, 0))),
    ];
    for (what, request) in refused {
        assert_eq!(check(&request).unwrap_err(), Code::InvalidArgument, "{what}");
    }
    let features = |bytes| {
        let features = PreprocessedMediaFeatures { kwargs: Some(vec![0; bytes]), ..Default::default() };
        let item = MediaItem { source: Some(Source::Features(features)), ..MediaItem::default() };
        GenerateRequest { media: vec![MediaItem::default(), item], ..request() }
    };
    assert_eq!(check(&features(16 << 20)).unwrap_err(), Code::InvalidArgument);
    assert_eq!(check(&features((16 << 20) + 1)).unwrap_err(), Code::ResourceExhausted);
    for (model, lora, session, code) in [
        ("other", "", "", Code::NotFound),
        ("", "other", "", Code::NotFound),
        ("", "loaded", "no lora", Code::FailedPrecondition),
    ] {
        let (model, lora_name, session_id) = (model.to_owned(), lora.to_owned(), Some(session.to_owned()));
        let named = GenerateRequest { model, lora_name, session_id, ..request() };
        assert_eq!(check(&named).unwrap_err(), code);
    }
}

#[test]
fn what_is_at_a_limit_passes() {
    for (what, request) in [
        ("last id", GenerateRequest { prompt: Some(ids(&[1023])), ..request() }),
        ("longest prompt", GenerateRequest { prompt: Some(ids(&[1; 99])), ..request() }),
        ("one sequence", sampling(|sampling| sampling.num_sequences = 1)),
        ("strong bias", decoding(|decoding| decoding.logit_bias = [(1, 150.0)].into())),
        ("129 stop strings", stopping(|stopping| stopping.stop_strings = vec!["a".to_owned(); 129])),
        ("thinking budget -1", stopping(|stopping| stopping.thinking_token_budget = Some(-1))),
        ("min equals max", lengths(4, 4)),
        ("20 candidates", output_candidates(Select::TopN(20))),
        ("128 candidate ids", output_candidates(list(128))),
        ("truncation to the context", GenerateRequest { truncate_prompt_tokens: 100, ..request() }),
    ] {
        assert!(check(&request).is_ok(), "{what}");
    }
}

#[test]
fn absent_sampling_values_come_from_the_generation_config() {
    let generation =
        GenerationConfig { top_k: Some(20), top_p: Some(0.9), min_p: Some(0.1), max_new_tokens: Some(7) };
    let plan = |request: &GenerateRequest| {
        let plan = check_with(request, &generation, 20).unwrap();
        let sampling = plan.sampling;
        ((sampling.top_k, sampling.top_p, sampling.min_p), (sampling.temperature, plan.max_tokens))
    };
    assert_eq!(plan(&request()), ((20, 0.9, 0.1), (0.0, 7)));
    let own = sampling(|sampling| {
        (sampling.top_k, sampling.top_p, sampling.min_p) = (Some(0), Some(1.0), Some(0.0));
    });
    assert_eq!(plan(&own).0, (0, 1.0, 0.0));
}

#[test]
fn lengths_are_clamped_to_the_context() {
    let max_tokens = |asked| check(&lengths(asked, 0)).unwrap().max_tokens;
    assert_eq!((max_tokens(0), max_tokens(5), max_tokens(u32::MAX)), (97, 5, 97));
    let truncated = check(&GenerateRequest { truncate_prompt_tokens: 2, ..request() }).unwrap();
    assert_eq!((truncated.prompt, truncated.max_tokens), (vec![2, 3], 98));
    let over = GenerateRequest { prompt: Some(ids(&[1; 500])), truncate_prompt_tokens: 50, ..request() };
    assert_eq!(check(&over).unwrap().prompt.len(), 50, "truncation comes before the length check");
}

#[test]
fn eos_ids_stop_unless_ignored_and_listed_ids_always_do() {
    for (ignore_eos, listed, expected) in
        [(false, vec![5], vec![5, 1000]), (true, vec![5], vec![5]), (false, vec![], vec![1000])]
    {
        let asked =
            stopping(|stopping| (stopping.ignore_eos, stopping.stop_token_ids) = (ignore_eos, listed));
        assert_eq!(check(&asked).unwrap().stop_ids, expected);
    }
}

#[test]
fn selectors_of_nothing_select_the_sampled_token() {
    let logprobs = |request| check(&request).unwrap().response.logprobs;
    for select in [Select::TopN(0), Select::All(false), list(0)] {
        assert_eq!(logprobs(output_candidates(select)), Some(Candidates::Sampled));
    }
    assert_eq!(logprobs(output_candidates(list(2))), Some(Candidates::Ids(vec![0, 1])));
    assert_eq!(logprobs(request()), None);
}

#[test]
fn scoring_a_prompt_reads_no_cache() {
    assert!(check(&request()).unwrap().read_cache);
    assert!(!check(&response(|response| response.prompt_logprobs = true)).unwrap().read_cache);
}
