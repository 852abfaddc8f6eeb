//! Composing as vLLM 0.32 was seen to do it over a scripted engine.

use std::sync::Arc;

use tito_engine_sim::{Finish, StepToken, StopCause};
use tonic::Code;
use vllm_proto::finish_info::StopReason;
use vllm_proto::generate_request::Prompt;
use vllm_proto::{FinishInfo, GenerateRequest, ResponseOptions, StoppingCriteria, TokenIds};

use super::{CallFacts, Composer};
use crate::config::{MockConfig, Vocabulary};
use crate::engine::{Chunk, End};
use crate::instance::Instance;
use crate::transfer::Transfer;
use crate::validate::{Limits, validate};

/// The scripted engine: bytes, then four special ids.
fn instance() -> Arc<Instance> {
    let secondary_eos_ids = vec![256];
    let vocabulary =
        Vocabulary { rows: 260, tokenizer_ids: 260, special_from: 256, eos_id: 257, secondary_eos_ids };
    let config = MockConfig { vocabulary, kv_connector: true, ..MockConfig::new() };
    Arc::new(Instance::new(config, Vec::new(), Vec::new()))
}

fn composer(stopping: StoppingCriteria, transfer: Transfer) -> Composer {
    let instance = instance();
    let request = GenerateRequest {
        prompt: Some(Prompt::TokenIds(TokenIds { ids: vec![1; 40] })),
        stopping: Some(stopping),
        response: Some(ResponseOptions { output_token_ids: true, ..ResponseOptions::default() }),
        ..GenerateRequest::default()
    };
    let limits = Limits {
        vocabulary: &instance.config.vocabulary,
        generation: &instance.config.generation,
        max_model_len: 512,
        max_logprobs: 20,
        serves: &|_| true,
        adapter: None,
        multimodal: None,
    };
    let plan = validate(&request, &limits).unwrap();
    let (engine_request_id, rank) = ("r-1".to_owned(), 0);
    let facts = CallFacts { engine_request_id, rank, transfer, knobs: None, logprob_fault: None };
    Composer::new(Arc::clone(&instance), plan, facts)
}

fn stops(strings: &[&str]) -> StoppingCriteria {
    let stop_strings = strings.iter().map(|&stop| stop.to_owned()).collect();
    StoppingCriteria { stop_strings, ..StoppingCriteria::default() }
}

fn chunk(ids: &[u32], end: Option<End>) -> Chunk {
    let context = instance().model.start(None);
    Chunk { tokens: ids.iter().map(|&id| StepToken { id, context }).collect(), end, cached_tokens: 32 }
}

/// Feeds chunks and writes down what each message says.
fn deltas(stopping: StoppingCriteria, chunks: &[&[u32]], finish: Finish) -> String {
    let mut composer = composer(stopping, Transfer::None);
    let mut lines = Vec::new();
    for (index, ids) in chunks.iter().enumerate() {
        let end = (index + 1 == chunks.len()).then_some(End::Finished(finish));
        let composed = composer.chunk(&chunk(ids, end)).unwrap();
        let finish = composed.output.finish_info.as_ref().map(ending).unwrap_or_default();
        lines.push(format!("{:?}+{}{finish}", composed.output.text, composed.output.num_tokens));
        if composed.last {
            break;
        }
    }
    lines.join(", ")
}

fn ending(finish: &FinishInfo) -> String {
    let reason = [" ?", " length", " stop", " aborted"][finish.finish_reason as usize];
    match &finish.stop_reason {
        None => reason.to_owned(),
        Some(StopReason::StopTokenId(id)) => format!("{reason} id {id}"),
        Some(StopReason::EosTokenId(id)) => format!("{reason} eos {id}"),
        Some(StopReason::StopString(string)) => format!("{reason} {string}"),
    }
}

const A: u32 = 65;
const B: u32 = 66;
const C: u32 = 67;
const D: u32 = 68;
const E: u32 = 69;
const EOS: u32 = 257;

#[test]
fn stop_strings_end_text_and_tokens_where_they_are_complete() {
    let check = |strings: &[&str], chunks: &[&[u32]], expected: &str| {
        assert_eq!(deltas(stops(strings), chunks, Finish::Length), expected);
    };
    check(&["CDE", "D", "BC"], &[&[A, B, C, D, E]], r#""A"+3 stop BC"#);
    check(&["CD", "BCD", "D"], &[&[A], &[B], &[C], &[D]], r#"""+1, ""+1, "A"+1, "B"+1 stop CD"#);
    check(&["E"], &[&[A], &[E]], r#""A"+1, ""+1 stop E"#);
    check(&["BZZ"], &[&[A], &[B]], r#"""+1, "AB"+1 length"#);
    check(&["é"], &[&[A], &[0xc3], &[0xa9], &[B]], r#""A"+1, ""+1, ""+1 stop é"#);
}

#[test]
fn min_tokens_keeps_stop_strings_from_being_seen() {
    let run = |string: &str, min_new_tokens| {
        let stopping = StoppingCriteria { min_new_tokens, max_new_tokens: 9, ..stops(&[string]) };
        deltas(stopping, &[&[A], &[B], &[C], &[D], &[E]], Finish::Length)
    };
    assert_eq!(run("D", 4), r#""A"+1, "B"+1, "C"+1, "D"+1, "E"+1 length"#);
    assert_eq!(run("D", 3), r#""A"+1, "B"+1, "C"+1, ""+1 stop D"#);
    assert_eq!(run("CD", 3), r#"""+1, "A"+1, "B"+1, ""+1 stop CD"#);
    assert_eq!(run("BC", 4), r#"""+1, "A"+1, "B"+1, "C"+1, "DE"+1 length"#);
}

#[test]
fn the_token_that_stops_is_counted_and_not_shown() {
    let run = |include, chunks: &[&[u32]], finish| {
        let stopping = StoppingCriteria { include_stop_strings: include, ..StoppingCriteria::default() };
        deltas(stopping, chunks, finish)
    };
    let by_id = Finish::Stop(StopCause::Id(B));
    let by_eos = Finish::Stop(StopCause::Eos);
    assert_eq!(run(false, &[&[A], &[B]], by_id), r#""A"+1, ""+1 stop id 66"#);
    assert_eq!(run(true, &[&[A], &[B]], by_id), r#""A"+1, "B"+1 stop id 66"#);
    assert_eq!(run(false, &[&[A, EOS]], by_eos), r#""A"+2 stop eos 257"#);
    assert_eq!(run(false, &[&[A], &[0xc3], &[EOS]], by_eos), r#""A"+1, ""+1, "�"+1 stop eos 257"#);
    assert_eq!(run(false, &[&[A], &[]], by_eos), r#""A"+1, ""+0 stop"#, "an empty last batch names no id");
}

#[test]
fn an_abort_lets_held_text_go() {
    assert_eq!(
        deltas(stops(&["ZZZZ"]), &[&[A], &[B], &[C], &[]], Finish::Aborted),
        r#"""+1, ""+1, ""+1, "ABC"+0 aborted"#
    );
    assert_eq!(deltas(stops(&[]), &[&[A], &[0xc3], &[]], Finish::Aborted), r#""A"+1, ""+1, "�"+0 aborted"#);
}

#[test]
fn cached_tokens_are_unknown_before_the_first_output() {
    for (first, cached) in [(&[][..], 0), (&[A], 32)] {
        let mut composer = composer(stops(&[]), Transfer::None);
        if !first.is_empty() {
            composer.chunk(&chunk(first, None)).unwrap();
        }
        let composed = composer.chunk(&chunk(&[], Some(End::Finished(Finish::Aborted)))).unwrap();
        assert_eq!(composed.output.finish_info.unwrap().num_cached_tokens, Some(cached));
    }
}

#[test]
fn a_failed_request_has_a_status_and_no_end() {
    for end in [End::Dead, End::Refused, End::Finished(Finish::Error)] {
        let status = composer(stops(&[]), Transfer::None).chunk(&chunk(&[A], Some(end))).unwrap_err();
        assert_eq!(status.code(), Code::Internal);
    }
}

#[test]
fn a_prefill_hands_over_unless_it_was_cut_short() {
    let run = |stopping, ids: &[u32], finish| {
        let mut composer = composer(stopping, Transfer::RemoteDecode);
        let composed = composer.chunk(&chunk(ids, Some(End::Finished(finish)))).unwrap();
        composed.output.finish_info.unwrap().kv_transfer_params
    };
    let one = run(stops(&[]), &[A], Finish::Length).unwrap();
    assert!(one.fields.contains_key("remote_prefill_cached_tokens"));
    let two = run(stops(&[]), &[A, B], Finish::Length).unwrap();
    assert!(!two.fields.contains_key("remote_prefill_cached_tokens"));
    assert!(run(stops(&[]), &[EOS], Finish::Stop(StopCause::Eos)).is_some());
    assert!(run(stops(&["A"]), &[A], Finish::Length).is_some(), "the engine had finished with that token");
    assert!(run(stops(&["A"]), &[A, B], Finish::Length).is_none());
    let mut early = composer(stops(&["A"]), Transfer::RemoteDecode);
    let cut = early.chunk(&chunk(&[A], None)).unwrap().output.finish_info.unwrap();
    assert!(cut.kv_transfer_params.is_none(), "the engine would have gone on");
    assert!(run(stops(&[]), &[A], Finish::Aborted).is_none());
}
