//! What Generate and GenerateStream do beyond the contract. The contract is the conformance suite of `tito-testkit`, which
//! every `cargo test` runs against the mock.

use std::collections::BTreeMap;

use tito_mock::MockConfig;
use tonic::{Code, Request};
use vllm_proto::{
    CandidateTokens, GenerateRequest, RandomSampling, ResponseOptions, candidate_tokens::Select,
};

use crate::support::{Running, ids, prompt, request};

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
        let whole = one.generate(ask(&prompt(2, 40), 12)).await.token_ids;
        let rest = two.generate(ask(&[prompt(2, 40), whole[..5].to_vec()].concat(), 7)).await.token_ids;
        assert_eq!(rest, whole[5..]);
    }
}

#[tokio::test]
async fn all_candidates_are_the_whole_vocabulary_by_rank() {
    let mock = Running::start(MockConfig { max_logprobs: -1, ..MockConfig::new() }).await;
    let response = ResponseOptions {
        output_logprobs: true,
        output_candidates: Some(CandidateTokens { select: Some(Select::All(true)) }),
        ..ResponseOptions::default()
    };
    let asked = GenerateRequest { response: Some(response), ..request("r", &prompt(3, 10), 4) };
    for position in mock.generate(asked).await.candidate_tokens {
        assert_eq!(position.tokens.len(), 1024);
        assert!(position.tokens.is_sorted_by(|a, b| a.logprob > b.logprob), "sorted, no ties");
    }
}

#[tokio::test]
async fn a_rank_is_chosen_by_metadata_or_refused() {
    let owned =
        MockConfig { data_parallel_start_rank: 2, data_parallel_size_local: Some(2), ..MockConfig::new() };
    let mock = Running::start(MockConfig { data_parallel_size: 4, ..owned }).await;
    for (value, rank) in
        [("2", Some(2)), (" 3 ", Some(3)), ("0", None), ("4", None), ("", None), ("-1", None), ("0x2", None)]
    {
        let mut asked = Request::new(request(value, &prompt(6, 8), 1));
        asked.metadata_mut().insert("x-data-parallel-rank", value.parse().unwrap());
        let code = if rank.is_some() { Code::Ok } else { Code::InvalidArgument };
        assert_eq!(mock.code(asked).await, code, "{value:?}");
        let entry = mock.handle.requests().into_iter().find(|entry| entry.request_id == value);
        assert_eq!(entry.map(|entry| entry.rank), rank, "{value:?}");
    }
}

#[tokio::test]
async fn a_sampling_mask_comes_whole_at_the_end() {
    let mock = Running::start(MockConfig { return_sampling_mask: true, ..MockConfig::new() }).await;
    let (messages, _) = mock
        .stream(GenerateRequest {
            temperature: Some(1.0),
            sampling: Some(RandomSampling { top_k: Some(3), ..RandomSampling::default() }),
            ..request("r", &prompt(9, 8), 4)
        })
        .await;
    let masks: Vec<_> =
        messages.iter().filter_map(|message| Some(&message.outputs.as_ref()?.sampling_mask)).collect();
    assert_eq!(masks.iter().map(|masks| masks.len()).collect::<Vec<_>>(), [0, 0, 0, 4]);
    for (mask, id) in masks[3].iter().zip(ids(&messages)) {
        assert!(mask.ids.len() == 3 && mask.ids.is_sorted() && mask.ids.contains(&id));
    }
}

#[tokio::test]
async fn a_long_prompt_flows() {
    let config = MockConfig { max_model_len: 131_072, max_num_batched_tokens: 8192, ..MockConfig::new() };
    let mock = Running::start(config).await;
    assert_eq!(mock.generate(request("r", &prompt(11, 100_000), 4)).await.num_tokens, 4);
}

#[tokio::test]
async fn without_a_seed_the_first_token_is_drawn_and_the_rest_follows_from_it() {
    let outputs = async |temperature, seed| {
        let mock = Running::start(MockConfig::new()).await;
        let request = GenerateRequest {
            temperature: Some(temperature),
            sampling: Some(RandomSampling { seed, ..RandomSampling::default() }),
            ..request("r", &prompt(4, 20), 8)
        };
        let mut all = Vec::new();
        for _ in 0..20 {
            all.push(mock.generate(request.clone()).await.token_ids);
        }
        all
    };
    let unseeded = outputs(1.0, None).await;
    assert_eq!(unseeded, outputs(1.0, None).await, "the same arrivals at another mock of that seed");
    let mut by_first = BTreeMap::new();
    for output in &unseeded {
        assert_eq!(*by_first.entry(output[0]).or_insert(output), output);
    }
    assert!(by_first.len() > 1, "{by_first:?}");
    for (temperature, seed) in [(0.0, None), (1.0, Some(7))] {
        let outputs = outputs(temperature, seed).await;
        assert!(outputs.iter().all(|output| output == &outputs[0]), "seed {seed:?}: {outputs:?}");
    }
}
