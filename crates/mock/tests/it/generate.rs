//! Generate and GenerateStream.

use tito_mock::MockConfig;
use tonic::{Code, Request};
use vllm_proto::finish_info::{FinishReason, StopReason};
use vllm_proto::{
    CandidateTokens, DecodingParameters, GenerateRequest, KvCacheParameters, RandomSampling, ResponseOptions,
    StoppingCriteria, candidate_tokens::Select, generate_request::Prompt,
};

use crate::support::{Running, assert_code, drain, finish, ids, outputs, prompt, request};

#[tokio::test]
async fn unary_and_stream_say_the_same() {
    let mock = Running::start(MockConfig::new()).await;
    let mut client = mock.inference().await;
    let whole = client.generate(request("a", &prompt(1, 70), 8)).await.unwrap().into_inner();
    let (messages, end) =
        drain(client.generate_stream(request("b", &prompt(1, 70), 8)).await.unwrap().into_inner()).await;
    assert!(end.is_none());
    assert_eq!(whole.prompt_info.as_ref().unwrap().num_prompt_tokens, 70);
    let whole = outputs(whole);
    assert_eq!(whole.num_tokens, 8);
    assert_eq!(ids(&messages), whole.token_ids);
    let text: String =
        messages[1..].iter().map(|message| message.outputs.as_ref().unwrap().text.as_str()).collect();
    assert_eq!(text, whole.text);
    assert_eq!(messages.len(), 9, "the prompt, then one message per token");
    assert!(messages[0].prompt_info.is_some() && messages[0].outputs.is_none());
    assert!(messages[1..].iter().all(|message| message.prompt_info.is_none()));
    let last = finish(messages[8].outputs.as_ref().unwrap());
    assert_eq!((last.num_output_tokens, last.finish_reason), (8, FinishReason::Length as i32));
    assert_eq!(finish(&whole).num_cached_tokens, Some(0));
    assert_eq!(last.num_cached_tokens, Some(64), "two whole blocks of 32 were cached by the first call");
}

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
async fn logprobs_come_in_parallel_lists() {
    let mock = Running::start(MockConfig { max_logprobs: -1, ..MockConfig::new() }).await;
    let mut client = mock.inference().await;
    let candidates = |select| Some(CandidateTokens { select: Some(select) });
    let ask = |select| GenerateRequest {
        response: Some(ResponseOptions {
            output_token_ids: true,
            output_logprobs: true,
            output_candidates: candidates(select),
            prompt_logprobs: true,
            ..ResponseOptions::default()
        }),
        ..request("r", &prompt(3, 10), 4)
    };
    let reply = client.generate(ask(Select::TopN(5))).await.unwrap().into_inner();
    let info = reply.prompt_info.clone().unwrap();
    assert_eq!((info.logprobs.len(), info.ranks.len(), info.candidate_tokens.len()), (10, 10, 10));
    assert_eq!((info.logprobs[0], info.ranks[0]), (0.0, 0));
    assert!(info.logprobs[1..].iter().all(|logprob| *logprob < 0.0 && logprob.is_finite()));
    let output = outputs(reply);
    assert_eq!((output.logprobs.len(), output.ranks.len(), output.candidate_tokens.len()), (4, 4, 4));
    for (index, list) in output.candidate_tokens.iter().enumerate() {
        let logprobs: Vec<f32> = list.tokens.iter().map(|candidate| candidate.logprob).collect();
        assert!(logprobs.is_sorted_by(|a, b| a > b), "sorted, no ties");
        assert_eq!(list.tokens[0].id, output.token_ids[index], "greedy takes the best");
        assert_eq!((list.tokens[0].logprob, output.ranks[index]), (output.logprobs[index], 1));
    }
    let all = outputs(client.generate(ask(Select::All(true))).await.unwrap().into_inner());
    let mass: f64 =
        all.candidate_tokens[0].tokens.iter().map(|candidate| f64::from(candidate.logprob).exp()).sum();
    assert_eq!(all.candidate_tokens[0].tokens.len(), 1024);
    assert!((mass - 1.0).abs() < 1e-3, "probabilities sum to one: {mass}");
    assert_eq!(finish(&all).num_cached_tokens, Some(0), "prompt log-probs need the whole prompt computed");
}

#[tokio::test]
async fn a_stop_string_cuts_text_and_keeps_tokens() {
    let mock = Running::start(MockConfig::new()).await;
    let mut client = mock.inference().await;
    let ask = |stop_strings: &[&str], include_stop_strings, max_new_tokens| GenerateRequest {
        decoding: Some(DecodingParameters {
            allowed_token_ids: vec![65, 66, 67],
            ..DecodingParameters::default()
        }),
        temperature: Some(1.0),
        stopping: Some(StoppingCriteria {
            max_new_tokens,
            stop_strings: stop_strings.iter().map(|&stop| stop.to_owned()).collect(),
            include_stop_strings,
            ..StoppingCriteria::default()
        }),
        ..request("r", &prompt(4, 20), 0)
    };
    let free = outputs(client.generate(ask(&[], false, 40)).await.unwrap().into_inner());
    let stop = &free.text[7..9];
    let at = free.text.find(stop).unwrap();
    let cut = outputs(client.generate(ask(&[stop], false, 40)).await.unwrap().into_inner());
    assert_eq!(cut.text, free.text[..at]);
    assert_eq!(cut.num_tokens as usize, at + 2);
    assert_eq!(finish(&cut).stop_reason, Some(StopReason::StopString(stop.to_owned())));
    let kept = outputs(client.generate(ask(&[stop], true, 40)).await.unwrap().into_inner());
    assert_eq!(kept.text, free.text[..at + 2]);
    let (messages, _) =
        drain(client.generate_stream(ask(&["ZZZZ"], false, 6)).await.unwrap().into_inner()).await;
    let texts: Vec<usize> =
        messages[1..].iter().map(|message| message.outputs.as_ref().unwrap().text.len()).collect();
    assert_eq!(texts, [0, 0, 0, 1, 1, 4], "text lags three characters behind, then comes at once");
}

#[tokio::test]
async fn eos_stops_unless_it_is_ignored() {
    let mock = Running::start(MockConfig::new()).await;
    let mut client = mock.inference().await;
    let ask = |id, ignore_eos, min_new_tokens| GenerateRequest {
        decoding: Some(DecodingParameters {
            logit_bias: [(id, 100.0)].into(),
            ..DecodingParameters::default()
        }),
        stopping: Some(StoppingCriteria {
            max_new_tokens: 6,
            min_new_tokens,
            ignore_eos,
            ..StoppingCriteria::default()
        }),
        ..request("r", &prompt(5, 20), 0)
    };
    let eos = outputs(client.generate(ask(1002, false, 0)).await.unwrap().into_inner());
    assert_eq!((eos.token_ids.as_slice(), eos.text.as_str()), ([1002].as_slice(), ""));
    assert_eq!(finish(&eos).stop_reason, Some(StopReason::EosTokenId(1002)));
    let late = outputs(client.generate(ask(1002, false, 3)).await.unwrap().into_inner());
    assert_eq!((late.num_tokens, late.token_ids[3]), (4, 1002));
    let second = outputs(client.generate(ask(1000, false, 0)).await.unwrap().into_inner());
    assert_eq!(finish(&second).stop_reason, Some(StopReason::StopTokenId(1000)));
    let ignored = outputs(client.generate(ask(1002, true, 0)).await.unwrap().into_inner());
    assert_eq!((ignored.token_ids, ignored.text.as_str()), (vec![1002; 6], ""));
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
async fn the_end_of_the_context_is_the_end_of_the_output() {
    let mock = Running::start(MockConfig { max_model_len: 64, ..MockConfig::new() }).await;
    let mut client = mock.inference().await;
    for asked in [0, 4, 100] {
        let output =
            outputs(client.generate(request("r", &prompt(7, 60), asked)).await.unwrap().into_inner());
        assert_eq!(output.num_tokens, 4);
        assert_eq!(finish(&output).finish_reason, FinishReason::Length as i32);
    }
    assert_code(client.generate(request("r", &prompt(7, 64), 1)).await, Code::InvalidArgument);
}

#[tokio::test]
async fn a_salt_keeps_cached_prefixes_apart() {
    let mock = Running::start(MockConfig::new()).await;
    let mut client = mock.inference().await;
    let mut cached = async |salt: &str, bypass_prefix_cache| {
        let asked = GenerateRequest {
            kv: Some(KvCacheParameters {
                cache_salt: salt.to_owned(),
                bypass_prefix_cache,
                ..KvCacheParameters::default()
            }),
            ..request("r", &prompt(8, 70), 2)
        };
        let output = outputs(client.generate(asked).await.unwrap().into_inner());
        finish(&output).num_cached_tokens.unwrap()
    };
    assert_eq!(cached("", false).await, 0);
    assert_eq!(cached("", false).await, 64);
    assert_eq!(cached("s", false).await, 0);
    assert_eq!(cached("s", false).await, 64);
    assert_eq!(cached("t", false).await, 0);
    assert_eq!(cached("", true).await, 0);
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
async fn structured_output_meets_its_constraint() {
    use vllm_proto::decoding_parameters::{StringChoices, StructuredOutput};
    let mock = Running::start(MockConfig::new()).await;
    let mut client = mock.inference().await;
    let choices = ["red", "green"].map(str::to_owned).to_vec();
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer","minimum":3}},"required":["a"]}"#;
    let cases = [
        (StructuredOutput::Json(schema.to_owned()), Some(r#"{"a":3}"#)),
        (StructuredOutput::Regex("[0-9]{3}-(x|y)+".to_owned()), Some("000-x")),
        (StructuredOutput::Regex("(".to_owned()), Some("")),
        (StructuredOutput::Grammar("start: \"yes\" | \"no\"".to_owned()), Some("yes")),
        (StructuredOutput::JsonObject(true), Some("{}")),
        (StructuredOutput::Choice(StringChoices { choices: choices.clone() }), None),
    ];
    for (structured_output, text) in cases {
        let asked = GenerateRequest {
            decoding: Some(DecodingParameters {
                structured_output: Some(structured_output),
                ..DecodingParameters::default()
            }),
            ..request("r", &prompt(10, 8), 40)
        };
        let output = outputs(client.generate(asked).await.unwrap().into_inner());
        assert_eq!(finish(&output).stop_reason, Some(StopReason::EosTokenId(1002)));
        assert_eq!(output.num_tokens as usize, output.text.len() + 1);
        match text {
            Some(text) => assert_eq!(output.text, text),
            None => assert!(choices.contains(&output.text)),
        }
    }
}

#[tokio::test]
async fn a_text_prompt_is_its_bytes() {
    let mock = Running::start(MockConfig::new()).await;
    let asked = GenerateRequest {
        prompt: Some(Prompt::Text("hé".to_owned())),
        response: Some(ResponseOptions { prompt_token_ids: true, ..ResponseOptions::default() }),
        ..request("r", &[], 1)
    };
    let reply = mock.inference().await.generate(asked).await.unwrap().into_inner();
    assert_eq!(reply.prompt_info.unwrap().token_ids, [104, 0xc3, 0xa9]);
}

#[tokio::test]
async fn a_long_prompt_flows() {
    let config = MockConfig { max_model_len: 131_072, max_num_batched_tokens: 8192, ..MockConfig::new() };
    let mock = Running::start(config).await;
    let output = mock.inference().await.generate(request("r", &prompt(11, 100_000), 4)).await.unwrap();
    assert_eq!(outputs(output.into_inner()).num_tokens, 4);
}
