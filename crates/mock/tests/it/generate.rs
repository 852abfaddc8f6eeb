//! What Generate and GenerateStream do beyond the contract. The contract is the conformance suite of `tito-testkit`, which
//! every `cargo test` runs against the mock.

use tito_mock::MockConfig;
use tonic::{Code, Request};
use vllm_proto::{
    CandidateTokens, GenerateRequest, RandomSampling, ResponseOptions, candidate_tokens::Select,
};

use crate::support::{Running, assert_code, drain, ids, outputs, prompt, request};

#[tokio::test]
async fn another_mock_with_the_same_seed_continues_the_sequence() {
    let config = MockConfig { seed: 7, ..MockConfig::new() };
    let (one, two) = (Running::start(config.clone()).await, Running::start(config).await);
    for sampling in [None, Some(RandomSampling { seed: Some(3), ..RandomSampling::default() })] {
        let ask = |ids: &[u32], tokens| GenerateRequest {
            temperature: sampling.map(|_| 0.9),
            sampling,
            ..request("r", ids, tokens)
        };
        let whole = one.inference().await.generate(ask(&prompt(2, 40), 12)).await.unwrap().into_inner();
        let whole = outputs(whole).token_ids;
        let rest = [prompt(2, 40), whole[..5].to_vec()].concat();
        let rest = two.inference().await.generate(ask(&rest, 7)).await.unwrap().into_inner();
        assert_eq!(outputs(rest).token_ids, whole[5..]);
    }
}

#[tokio::test]
async fn the_probabilities_of_the_whole_vocabulary_sum_to_one() {
    let mock = Running::start(MockConfig { max_logprobs: -1, ..MockConfig::new() }).await;
    let asked = GenerateRequest {
        response: Some(ResponseOptions {
            output_logprobs: true,
            output_candidates: Some(CandidateTokens { select: Some(Select::All(true)) }),
            ..ResponseOptions::default()
        }),
        ..request("r", &prompt(3, 10), 4)
    };
    let all = outputs(mock.inference().await.generate(asked).await.unwrap().into_inner());
    for position in &all.candidate_tokens {
        assert_eq!(position.tokens.len(), 1024);
        let mass: f64 = position.tokens.iter().map(|candidate| f64::from(candidate.logprob).exp()).sum();
        assert!((mass - 1.0).abs() < 1e-3, "{mass}");
        let logprobs: Vec<f32> = position.tokens.iter().map(|candidate| candidate.logprob).collect();
        assert!(logprobs.is_sorted_by(|a, b| a > b), "sorted, no ties");
    }
}

#[tokio::test]
async fn a_rank_is_chosen_by_metadata_or_refused() {
    let config = MockConfig {
        data_parallel_size: 4,
        data_parallel_start_rank: 2,
        data_parallel_size_local: Some(2),
        ..MockConfig::new()
    };
    let mock = Running::start(config).await;
    let mut client = mock.inference().await;
    for (value, rank) in
        [("2", Some(2)), (" 3 ", Some(3)), ("0", None), ("4", None), ("", None), ("-1", None), ("0x2", None)]
    {
        let mut asked = Request::new(request(value, &prompt(6, 8), 1));
        asked.metadata_mut().insert("x-data-parallel-rank", value.parse().unwrap());
        let reply = client.generate(asked).await;
        match rank {
            None => assert_code(reply, Code::InvalidArgument),
            Some(rank) => {
                reply.unwrap();
                let entries = mock.handle.requests();
                assert_eq!(entries.last().unwrap().rank, rank);
            }
        }
    }
}

#[tokio::test]
async fn a_sampling_mask_comes_whole_at_the_end() {
    let mock = Running::start(MockConfig { return_sampling_mask: true, ..MockConfig::new() }).await;
    let mut client = mock.inference().await;
    let asked = GenerateRequest {
        temperature: Some(1.0),
        sampling: Some(RandomSampling { top_k: Some(3), ..RandomSampling::default() }),
        ..request("r", &prompt(9, 8), 4)
    };
    let (messages, _) = drain(client.generate_stream(asked).await.unwrap().into_inner()).await;
    let masks: Vec<usize> =
        messages[1..].iter().map(|message| message.outputs.as_ref().unwrap().sampling_mask.len()).collect();
    assert_eq!(masks, [0, 0, 0, 4]);
    let last = messages[4].outputs.as_ref().unwrap();
    for (mask, id) in last.sampling_mask.iter().zip(ids(&messages)) {
        assert!(mask.ids.len() == 3 && mask.ids.is_sorted() && mask.ids.contains(&id));
    }
}

#[tokio::test]
async fn a_long_prompt_flows() {
    let config = MockConfig { max_model_len: 131_072, max_num_batched_tokens: 8192, ..MockConfig::new() };
    let mock = Running::start(config).await;
    let output = mock.inference().await.generate(request("r", &prompt(11, 100_000), 4)).await.unwrap();
    assert_eq!(outputs(output.into_inner()).num_tokens, 4);
}

#[tokio::test]
async fn without_a_seed_the_first_token_is_drawn_and_the_rest_follows_from_it() {
    let ask = |temperature, seed| GenerateRequest {
        temperature: Some(temperature),
        sampling: Some(RandomSampling { seed, ..RandomSampling::default() }),
        ..request("r", &prompt(4, 20), 8)
    };
    let outputs_of = async |request: GenerateRequest| {
        let mock = Running::start(MockConfig::new()).await;
        let mut client = mock.inference().await;
        let mut all = Vec::new();
        for _ in 0..20 {
            all.push(outputs(client.generate(request.clone()).await.unwrap().into_inner()).token_ids);
        }
        all
    };
    let unseeded = outputs_of(ask(1.0, None)).await;
    assert_eq!(unseeded, outputs_of(ask(1.0, None)).await, "the same arrivals at another mock of that seed");
    let mut by_first = std::collections::BTreeMap::new();
    for output in &unseeded {
        assert_eq!(*by_first.entry(output[0]).or_insert(output), output);
    }
    assert!(by_first.len() > 1, "{by_first:?}");
    for (what, request) in [("greedy", ask(0.0, None)), ("seeded", ask(1.0, Some(7)))] {
        let outputs = outputs_of(request).await;
        assert!(outputs.iter().all(|output| output == &outputs[0]), "{what}: {outputs:?}");
    }
}
