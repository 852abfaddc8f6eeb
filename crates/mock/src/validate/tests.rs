//! Every check with its status, one row each.

use prost_types::Struct;
use tonic::Code;
use vllm_proto::candidate_tokens::Select;
use vllm_proto::decoding_parameters::{StringChoices, StructuredOutput};
use vllm_proto::generate_request::Prompt;
use vllm_proto::media_item::Source;
use vllm_proto::{
    CandidateTokens, DecodingParameters, GenerateRequest, KvCacheParameters, MediaItem,
    PreprocessedMediaFeatures, RandomSampling, ResponseOptions, StoppingCriteria, TokenIds,
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
    let vocabulary = MockConfig::new().vocabulary;
    let loaded =
        |name: &str| (name == "loaded").then(|| Adapter { id: 1, source_path: "org/name".to_owned() });
    let limits = Limits {
        vocabulary: &vocabulary,
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

fn sampling(edit: impl FnOnce(&mut RandomSampling)) -> GenerateRequest {
    let mut sampling = RandomSampling::default();
    edit(&mut sampling);
    GenerateRequest { sampling: Some(sampling), ..request() }
}

fn decoding(edit: impl FnOnce(&mut DecodingParameters)) -> GenerateRequest {
    let mut decoding = DecodingParameters::default();
    edit(&mut decoding);
    GenerateRequest { decoding: Some(decoding), ..request() }
}

fn stopping(edit: impl FnOnce(&mut StoppingCriteria)) -> GenerateRequest {
    let mut stopping = StoppingCriteria::default();
    edit(&mut stopping);
    GenerateRequest { stopping: Some(stopping), ..request() }
}

fn response(edit: impl FnOnce(&mut ResponseOptions)) -> GenerateRequest {
    let mut response = ResponseOptions::default();
    edit(&mut response);
    GenerateRequest { response: Some(response), ..request() }
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
fn what_is_refused_is_refused_with_its_code() {
    let invalid = vec![
        ("no prompt", GenerateRequest { prompt: None, ..request() }),
        ("empty ids", GenerateRequest { prompt: Some(ids(&[])), ..request() }),
        ("empty text", GenerateRequest { prompt: Some(Prompt::Text(String::new())), ..request() }),
        ("id outside", GenerateRequest { prompt: Some(ids(&[5, 1024])), ..request() }),
        ("prompt fills the context", GenerateRequest { prompt: Some(ids(&[1; 100])), ..request() }),
        ("temperature 2.1", GenerateRequest { temperature: Some(2.1), ..request() }),
        ("temperature -0.1", GenerateRequest { temperature: Some(-0.1), ..request() }),
        ("temperature nan", GenerateRequest { temperature: Some(f32::NAN), ..request() }),
        ("temperature inf", GenerateRequest { temperature: Some(f32::INFINITY), ..request() }),
        ("n 2", sampling(|sampling| sampling.num_sequences = 2)),
        ("top_p 0", sampling(|sampling| sampling.top_p = Some(0.0))),
        ("top_p 1.1", sampling(|sampling| sampling.top_p = Some(1.1))),
        ("top_p nan", sampling(|sampling| sampling.top_p = Some(f32::NAN))),
        ("min_p -0.1", sampling(|sampling| sampling.min_p = Some(-0.1))),
        ("min_p 1.1", sampling(|sampling| sampling.min_p = Some(1.1))),
        ("presence 2.1", decoding(|decoding| decoding.presence_penalty = 2.1)),
        ("presence nan", decoding(|decoding| decoding.presence_penalty = f32::NAN)),
        ("frequency -2.1", decoding(|decoding| decoding.frequency_penalty = -2.1)),
        ("repetition -1", decoding(|decoding| decoding.repetition_penalty = -1.0)),
        ("repetition inf", decoding(|decoding| decoding.repetition_penalty = f32::INFINITY)),
        ("repetition nan", decoding(|decoding| decoding.repetition_penalty = f32::NAN)),
        ("bias outside", decoding(|decoding| decoding.logit_bias = [(1024, 1.0)].into())),
        ("allowed outside the tokenizer", decoding(|decoding| decoding.allowed_token_ids = vec![1010])),
        ("empty bad word", decoding(|decoding| decoding.bad_words_token_ids = vec![TokenIds::default()])),
        (
            "bad word outside",
            decoding(|decoding| decoding.bad_words_token_ids = vec![TokenIds { ids: vec![1024] }]),
        ),
        ("min over max", stopping(|stopping| (stopping.max_new_tokens, stopping.min_new_tokens) = (4, 5))),
        ("min over the rest", stopping(|stopping| stopping.min_new_tokens = 98)),
        (
            "min over the clamp",
            stopping(|stopping| (stopping.max_new_tokens, stopping.min_new_tokens) = (200, 98)),
        ),
        ("stop id outside", stopping(|stopping| stopping.stop_token_ids = vec![1024])),
        (
            "empty stop string",
            stopping(|stopping| stopping.stop_strings = vec!["a".to_owned(), String::new()]),
        ),
        ("thinking budget -2", stopping(|stopping| stopping.thinking_token_budget = Some(-2))),
        ("21 candidates", output_candidates(Select::TopN(21))),
        ("all candidates", output_candidates(Select::All(true))),
        ("129 candidate ids", output_candidates(list(129))),
        ("candidate outside", output_candidates(Select::TokenIds(TokenIds { ids: vec![1024] }))),
        (
            "prompt candidates by id",
            response(|response| {
                response.prompt_logprobs = true;
                response.prompt_candidates = Some(CandidateTokens { select: Some(list(1)) });
            }),
        ),
        ("truncation beyond the context", GenerateRequest { truncate_prompt_tokens: 101, ..request() }),
        (
            "truncation into the output",
            GenerateRequest {
                truncate_prompt_tokens: 93,
                ..stopping(|stopping| stopping.max_new_tokens = 8)
            },
        ),
        ("media", GenerateRequest { media: vec![MediaItem::default()], ..request() }),
    ];
    for (what, request) in invalid {
        assert_eq!(check(&request).unwrap_err(), Code::InvalidArgument, "{what}");
    }
    let features = |bytes| {
        let features = PreprocessedMediaFeatures { kwargs: Some(vec![0; bytes]), ..Default::default() };
        let item = MediaItem { source: Some(Source::Features(features)), ..MediaItem::default() };
        GenerateRequest { media: vec![MediaItem::default(), item], ..request() }
    };
    assert_eq!(check(&features(16 << 20)).unwrap_err(), Code::InvalidArgument);
    assert_eq!(check(&features((16 << 20) + 1)).unwrap_err(), Code::ResourceExhausted);
    let name = |model: &str, lora: &str, session: &str| GenerateRequest {
        model: model.to_owned(),
        lora_name: lora.to_owned(),
        session_id: Some(session.to_owned()),
        ..request()
    };
    assert_eq!(check(&name("other", "", "")).unwrap_err(), Code::NotFound);
    assert_eq!(check(&name("", "other", "")).unwrap_err(), Code::NotFound);
    assert_eq!(check(&name("", "loaded", "no lora")).unwrap_err(), Code::FailedPrecondition);
}

#[test]
fn what_is_odd_but_legal_passes() {
    let odd = vec![
        ("nothing but a prompt", request()),
        ("served name", GenerateRequest { model: "served".to_owned(), ..request() }),
        ("padding id", GenerateRequest { prompt: Some(ids(&[1023])), ..request() }),
        ("longest prompt", GenerateRequest { prompt: Some(ids(&[1; 99])), ..request() }),
        ("n 0 and 1", sampling(|sampling| sampling.num_sequences = 1)),
        ("huge top_k", sampling(|sampling| sampling.top_k = Some(u32::MAX))),
        ("negative seed", sampling(|sampling| sampling.seed = Some(i64::MIN))),
        ("strong bias", decoding(|decoding| decoding.logit_bias = [(1, 150.0)].into())),
        ("129 stop strings", stopping(|stopping| stopping.stop_strings = vec!["a".to_owned(); 129])),
        ("thinking budget -1", stopping(|stopping| stopping.thinking_token_budget = Some(-1))),
        ("min equals max", stopping(|stopping| (stopping.max_new_tokens, stopping.min_new_tokens) = (4, 4))),
        ("20 candidates", output_candidates(Select::TopN(20))),
        ("128 candidate ids", output_candidates(list(128))),
        ("truncation to the context", GenerateRequest { truncate_prompt_tokens: 100, ..request() }),
        (
            "odd salt and empty transfer parameters",
            GenerateRequest {
                kv: Some(KvCacheParameters {
                    cache_salt: "a/b\\c@".repeat(100),
                    kv_transfer_params: Some(Struct::default()),
                    ..KvCacheParameters::default()
                }),
                ..request()
            },
        ),
        (
            "a selector without its switch",
            response(|response| {
                response.output_candidates = Some(CandidateTokens { select: Some(Select::TopN(1000)) });
                response.prompt_candidates = Some(CandidateTokens { select: Some(list(1)) });
            }),
        ),
    ];
    for (what, request) in odd {
        assert!(check(&request).is_ok(), "{what}");
    }
    assert!(check_with(&output_candidates(Select::All(true)), &GenerationConfig::default(), -1).is_ok());
}

#[test]
fn absent_sampling_values_come_from_the_generation_config() {
    let generation =
        GenerationConfig { top_k: Some(20), top_p: Some(0.9), min_p: Some(0.1), max_new_tokens: Some(7) };
    let plan = |request: &GenerateRequest| check_with(request, &generation, 20).unwrap();
    let inherited = plan(&request());
    assert_eq!(
        (inherited.sampling.top_k, inherited.sampling.top_p, inherited.sampling.min_p),
        (20, 0.9, 0.1)
    );
    assert_eq!((inherited.sampling.temperature, inherited.max_tokens), (0.0, 7));
    let own = plan(&sampling(|sampling| {
        (sampling.top_k, sampling.top_p, sampling.min_p) = (Some(0), Some(1.0), Some(0.0));
    }));
    assert_eq!((own.sampling.top_k, own.sampling.top_p, own.sampling.min_p), (0, 1.0, 0.0));
}

#[test]
fn lengths_are_clamped_to_the_context() {
    let max_tokens = |asked| check(&stopping(|stopping| stopping.max_new_tokens = asked)).unwrap().max_tokens;
    assert_eq!((max_tokens(0), max_tokens(5), max_tokens(u32::MAX)), (97, 5, 97));
    let truncated = check(&GenerateRequest { truncate_prompt_tokens: 2, ..request() }).unwrap();
    assert_eq!((truncated.prompt, truncated.max_tokens), (vec![2, 3], 98));
    let over = GenerateRequest { prompt: Some(ids(&[1; 500])), truncate_prompt_tokens: 50, ..request() };
    assert_eq!(check(&over).unwrap().prompt.len(), 50, "truncation comes before the length check");
}

#[test]
fn eos_ids_stop_unless_ignored_and_listed_ids_always_do() {
    let stop_ids = |ignore_eos| {
        let plan = check(&stopping(|stopping| {
            stopping.ignore_eos = ignore_eos;
            stopping.stop_token_ids = vec![5];
        }));
        plan.unwrap().stop_ids
    };
    assert_eq!((stop_ids(false), stop_ids(true)), (vec![5, 1000], vec![5]));
    assert_eq!(check(&request()).unwrap().stop_ids, [1000]);
}

#[test]
fn selectors_of_nothing_select_the_sampled_token() {
    for select in [Select::TopN(0), Select::All(false), list(0)] {
        assert_eq!(check(&output_candidates(select)).unwrap().response.logprobs, Some(Candidates::Sampled));
    }
    assert_eq!(
        check(&output_candidates(list(2))).unwrap().response.logprobs,
        Some(Candidates::Ids(vec![0, 1]))
    );
    assert_eq!(check(&request()).unwrap().response.logprobs, None);
}

#[test]
fn scoring_a_prompt_reads_no_cache() {
    assert!(check(&request()).unwrap().read_cache);
    assert!(!check(&response(|response| response.prompt_logprobs = true)).unwrap().read_cache);
}
