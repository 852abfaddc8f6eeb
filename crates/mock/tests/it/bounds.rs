//! Limits, and input that means no good.

use bytes::Bytes;
use tito_mock::{Fault, FaultSpec, MockConfig};
use tito_test_support::random::Random;
use tito_test_support::wait::within;
use tonic::Code;
use vllm_proto::decoding_parameters::StructuredOutput;
use vllm_proto::{
    CandidateTokens, DecodingParameters, GenerateRequest, RandomSampling, ResponseOptions, StoppingCriteria,
    TokenIds, candidate_tokens::Select,
};

use crate::raw;
use crate::support::{Running, outputs, prompt, request};

#[tokio::test]
async fn calls_beyond_the_limit_wait_until_one_ends() {
    let stall = FaultSpec { count: Some(1), ..FaultSpec::new(Fault::Stall { at_token: 1 }) };
    let config = MockConfig { max_live_requests: 1, faults: vec![stall], ..MockConfig::new() };
    let mock = Running::start(config).await;
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

/// Mostly a sound value for any parameter, sometimes anything.
fn float(random: &mut Random) -> f32 {
    match random.below(64) {
        0 => 0.0,
        1 => random.below(600) as f32 / 100.0 - 3.0,
        2 => f32::NAN,
        3 => f32::from_bits(random.next() as u32),
        _ => (10 + random.below(90)) as f32 / 100.0,
    }
}

fn number(random: &mut Random) -> u32 {
    if random.one_in(21) { random.next() as u32 } else { random.below(20) }
}

fn ids(random: &mut Random, end: u32) -> Vec<u32> {
    (0..random.below(6)).map(|_| random.below(end)).collect()
}

/// Up to so many characters, half of them such as mean something in patterns, grammars and JSON.
fn text(random: &mut Random, most: u32) -> String {
    let letter = |random: &mut Random| {
        let strange = random.percent(50).then(|| char::from_u32(random.below(0x11_0000)).unwrap_or('x'));
        strange.unwrap_or_else(|| char::from(random.pick(b"()[]{}*+?|^$\\\"':,ab0 ")))
    };
    (0..=random.below(most)).map(|_| letter(random)).collect()
}

fn decoding(random: &mut Random) -> DecodingParameters {
    let structured: [fn(String) -> StructuredOutput; 4] = [
        StructuredOutput::Regex,
        StructuredOutput::Grammar,
        StructuredOutput::Json,
        StructuredOutput::StructuralTag,
    ];
    DecodingParameters {
        presence_penalty: float(random),
        logit_bias: (0..random.below(4)).map(|_| (random.below(1020), float(random))).collect(),
        allowed_token_ids: ids(random, 1005),
        bad_words_token_ids: (0..random.below(2)).map(|_| TokenIds { ids: ids(random, 1020) }).collect(),
        structured_output: random.percent(50).then(|| random.pick(&structured)(text(random, 12))),
        ..DecodingParameters::default()
    }
}

fn anything(random: &mut Random) -> GenerateRequest {
    let select = match random.below(3) {
        0 => Select::TopN(number(random)),
        1 => Select::TokenIds(TokenIds { ids: ids(random, 1020) }),
        _ => Select::All(random.percent(50)),
    };
    GenerateRequest {
        temperature: Some(float(random)),
        sampling: Some(RandomSampling {
            num_sequences: 0,
            top_k: random.percent(50).then(|| number(random)),
            top_p: random.percent(50).then(|| float(random)),
            min_p: random.percent(50).then(|| float(random)),
            seed: Some(random.next() as i64),
        }),
        decoding: random.percent(50).then(|| decoding(random)),
        stopping: Some(StoppingCriteria {
            max_new_tokens: number(random),
            min_new_tokens: if random.percent(25) { number(random) } else { 0 },
            stop_token_ids: ids(random, 1020),
            stop_strings: (0..random.below(2)).map(|_| text(random, 3)).collect(),
            include_stop_strings: random.percent(50),
            ignore_eos: random.percent(50),
            thinking_token_budget: None,
        }),
        response: Some(ResponseOptions {
            output_logprobs: random.percent(50),
            prompt_logprobs: random.percent(50),
            skip_special_tokens: Some(random.percent(50)),
            output_candidates: Some(CandidateTokens { select: Some(select) }),
            ..ResponseOptions::default()
        }),
        priority: random.next() as i32,
        truncate_prompt_tokens: if random.percent(50) { number(random) } else { 0 },
        ..request("", &ids(random, 1020), 0)
    }
}

#[tokio::test]
async fn every_request_is_answered_or_refused_and_the_engine_lives() {
    let config =
        MockConfig { max_model_len: 64, num_gpu_blocks: 8, return_sampling_mask: true, ..MockConfig::new() };
    let mock = Running::start(config).await;
    let mut client = mock.inference().await;
    let mut random = Random::new(1);
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..600 {
        let asked = anything(&mut random);
        match within("a reply", client.generate(asked.clone())).await {
            Ok(reply) => {
                let output = outputs(reply.into_inner());
                assert!(output.finish_info.is_some() && output.num_tokens <= 64);
                answered += 1;
            }
            Err(status) => {
                // INTERNAL is what vLLM says to a structural tag that it cannot compile.
                let sound = matches!(status.code(), Code::InvalidArgument | Code::Internal);
                assert!(sound, "{status:?} to {asked:?}");
                refused += 1;
            }
        }
    }
    assert!(answered > 50 && refused > 50, "{answered} answered, {refused} refused");
    assert_eq!(mock.generate(request("after", &prompt(1, 20), 3)).await.num_tokens, 3);
}

#[tokio::test]
async fn bytes_that_are_no_message_are_refused_and_the_engine_lives() {
    let mock = Running::start(MockConfig { max_model_len: 64, ..MockConfig::new() }).await;
    let mut channel = mock.channel().await;
    let mut random = Random::new(2);
    for path in
        ["/vllm.Inference/Generate", "/vllm.Inference/GenerateStream", "/vllm.Control/PauseGeneration"]
    {
        for call in 0..100 {
            let message: Vec<u8> = (0..random.below(60)).map(|_| random.next() as u8).collect();
            let body = if call % 2 == 0 { raw::frame(&message, false) } else { Bytes::from(message) };
            let reply = async {
                let Ok(mut reply) = raw::call(&mut channel, path, &[], body).await else { return };
                while reply.message().await.is_ok() {}
            };
            within("a reply", reply).await;
        }
    }
    mock.control().await.resume_generation(vllm_proto::ResumeGenerationRequest {}).await.unwrap();
    assert_eq!(mock.generate(request("after", &prompt(1, 20), 3)).await.num_tokens, 3);
}
