//! Limits, and input that means no good.

use std::ops::Range;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tito_mock::{Fault, FaultSpec, MockConfig};
use tito_test_support::wait::within;
use tonic::Code;
use vllm_proto::decoding_parameters::StructuredOutput;
use vllm_proto::generate_request::Prompt;
use vllm_proto::{
    CandidateTokens, DecodingParameters, GenerateRequest, RandomSampling, ResponseOptions, StoppingCriteria,
    TokenIds, candidate_tokens::Select,
};

use crate::raw;
use crate::support::{Running, outputs, prompt, request};

#[tokio::test]
async fn calls_beyond_the_limit_wait_at_the_door() {
    let stall = FaultSpec { count: Some(1), ..FaultSpec::new(Fault::Stall { at_token: 1 }) };
    let mock =
        Running::start(MockConfig { max_live_requests: 1, faults: vec![stall], ..MockConfig::new() }).await;
    let mut client = mock.inference().await;
    let first = client.generate_stream(request("first", &prompt(1, 20), 4)).await.unwrap();
    mock.wait_for_state("first", "running").await;
    let mut second = Box::pin(client.generate(request("second", &prompt(2, 20), 4)));
    assert!(futures_util::poll!(&mut second).is_pending());
    assert_eq!(mock.handle.requests().len(), 1);
    drop(first);
    let reply = within("the second reply", second).await.unwrap();
    assert_eq!(outputs(reply.into_inner()).num_tokens, 4);
}

#[tokio::test]
async fn a_fault_too_long_to_be_one_is_refused() {
    let mock = Running::start(MockConfig::new()).await;
    let body = format!(r#"{{"kind":"stall","request":"{}"}}"#, "x".repeat(70_000));
    assert_eq!(mock.http("POST", "/mock/faults", &body).await.0, 413);
}

/// A float that may be anything.
fn float() -> impl Strategy<Value = f32> {
    prop_oneof![60 => 0.1..1.0f32, 1 => Just(0.0), 1 => -3.0..3.0f32, 1 => Just(f32::NAN), 1 => any::<f32>()]
}

fn ids(range: Range<u32>) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(range, 0..6)
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![20 => 0u32..20, 1 => any::<u32>()]
}

fn decoding() -> impl Strategy<Value = DecodingParameters> {
    let structured = prop_oneof![
        4 => Just(None),
        1 => ".{0,12}".prop_map(|text| Some(StructuredOutput::Regex(text))),
        1 => ".{0,12}".prop_map(|text| Some(StructuredOutput::Grammar(text))),
        1 => r"\PC{0,12}".prop_map(|text| Some(StructuredOutput::Json(text))),
        1 => ".{0,12}".prop_map(|text| Some(StructuredOutput::StructuralTag(text))),
    ];
    let bias = prop::collection::hash_map(0u32..1020, float(), 0..4);
    (float(), bias, ids(0..1005), prop::collection::vec(ids(0..1020), 0..2), structured).prop_map(
        |(presence_penalty, logit_bias, allowed_token_ids, words, structured_output)| DecodingParameters {
            presence_penalty,
            logit_bias,
            allowed_token_ids,
            bad_words_token_ids: words.into_iter().map(|ids| TokenIds { ids }).collect(),
            structured_output,
            ..DecodingParameters::default()
        },
    )
}

fn anything() -> impl Strategy<Value = GenerateRequest> {
    let random =
        (prop::option::of(number()), prop::option::of(float()), prop::option::of(float()), any::<i64>());
    let stopping = (
        number(),
        prop_oneof![3 => Just(0), 1 => number()],
        ids(0..1020),
        prop::collection::vec(".{1,3}|", 0..2),
        any::<(bool, bool)>(),
    );
    let select = prop_oneof![
        number().prop_map(Select::TopN),
        ids(0..1020).prop_map(|ids| Select::TokenIds(TokenIds { ids })),
        any::<bool>().prop_map(Select::All)
    ];
    (ids(0..1020), float(), random, decoding(), stopping, select, any::<(bool, bool, i32)>(), number())
        .prop_map(
            |(ids, temperature, random, decoding, stopping, select, (flag, skip, priority), truncate)| {
                let (top_k, top_p, min_p, seed) = random;
                let (max_new_tokens, min_new_tokens, stop_token_ids, stop_strings, (include, ignore)) =
                    stopping;
                GenerateRequest {
                    prompt: Some(Prompt::TokenIds(TokenIds { ids })),
                    temperature: Some(temperature),
                    sampling: Some(RandomSampling {
                        num_sequences: 0,
                        top_k,
                        top_p,
                        min_p,
                        seed: Some(seed),
                    }),
                    decoding: flag.then_some(decoding),
                    stopping: Some(StoppingCriteria {
                        max_new_tokens,
                        min_new_tokens,
                        stop_token_ids,
                        stop_strings,
                        include_stop_strings: include,
                        ignore_eos: ignore,
                        thinking_token_budget: None,
                    }),
                    response: Some(ResponseOptions {
                        output_logprobs: flag,
                        prompt_logprobs: skip,
                        skip_special_tokens: Some(skip),
                        output_candidates: Some(CandidateTokens { select: Some(select) }),
                        ..ResponseOptions::default()
                    }),
                    priority,
                    truncate_prompt_tokens: if include { truncate } else { 0 },
                    ..GenerateRequest::default()
                }
            },
        )
}

#[tokio::test]
async fn every_request_is_answered_or_refused_and_the_engine_lives() {
    let config =
        MockConfig { max_model_len: 64, num_gpu_blocks: 8, return_sampling_mask: true, ..MockConfig::new() };
    let mock = Running::start(config).await;
    let mut client = mock.inference().await;
    let mut runner = TestRunner::deterministic();
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..600 {
        let asked = anything().new_tree(&mut runner).unwrap().current();
        match within("a reply", client.generate(asked.clone())).await {
            Ok(reply) => {
                let output = outputs(reply.into_inner());
                assert!(output.finish_info.is_some() && output.num_tokens <= 64);
                answered += 1;
            }
            Err(status) => {
                // INTERNAL is what vLLM says to a structural tag that it cannot compile.
                assert!(
                    matches!(status.code(), Code::InvalidArgument | Code::Internal),
                    "{status:?} to {asked:?}"
                );
                refused += 1;
            }
        }
    }
    assert!(answered > 50 && refused > 50, "{answered} answered, {refused} refused");
    let reply = client.generate(request("after", &prompt(1, 20), 3)).await.unwrap();
    assert_eq!(outputs(reply.into_inner()).num_tokens, 3);
}

#[tokio::test]
async fn bytes_that_are_no_message_are_refused_and_the_engine_lives() {
    let mock = Running::start(MockConfig { max_model_len: 64, ..MockConfig::new() }).await;
    let mut channel = mock.channel().await;
    let mut runner = TestRunner::deterministic();
    let bytes = prop::collection::vec(any::<u8>(), 0..60);
    for path in
        ["/vllm.Inference/Generate", "/vllm.Inference/GenerateStream", "/vllm.Control/PauseGeneration"]
    {
        for framed in [true, false] {
            for _ in 0..50 {
                let message = bytes.new_tree(&mut runner).unwrap().current();
                let body = if framed { raw::frame(&message, false) } else { Bytes::from(message) };
                let reply = async {
                    let Ok(mut reply) = raw::call(&mut channel, path, &[], body).await else { return };
                    while reply.message().await.is_ok() {}
                };
                within("a reply", reply).await;
            }
        }
    }
    mock.control().await.resume_generation(vllm_proto::ResumeGenerationRequest {}).await.unwrap();
    let reply = mock.inference().await.generate(request("after", &prompt(1, 20), 3)).await.unwrap();
    assert_eq!(outputs(reply.into_inner()).num_tokens, 3);
}
