//! Answers that only an engine told to can give: the frontend's part in them is real.

use prost_types::value::Kind as Value;
use tonic::Code;
use vllm_proto::GenerateRequest;

use super::abort::abort;
use super::deadline::expired;
use crate::ask::{Ask, greedy, list, numbers, prompt, script, structure};
use crate::raw::{self, frame};
use crate::reply::Reading;
use crate::target::{Kind, Target};

fn scripted<const N: usize>(budget: u32, knobs: [(&str, Value); N]) -> GenerateRequest {
    script(greedy(&prompt(40, 1), budget), knobs)
}

/// The text of every message of a stream.
async fn texts(mut reading: Reading) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(output) = reading.next().await.unwrap() {
        texts.push(output.text);
    }
    texts
}

fn word(word: &str) -> Value {
    Value::StringValue(word.to_owned())
}

fn number(number: u32) -> Value {
    Value::NumberValue(f64::from(number))
}

pub(crate) async fn a_failed_request_is_internal_after_its_tokens(target: &Target) {
    let request = || scripted(8, [("finish", word("error")), ("n", number(3))]);
    assert_eq!(target.unary(request()).await.map(|reply| reply.end()).unwrap_err().code(), Code::Internal);
    let mut reading = target.open_stream(request()).await.unwrap();
    let status = loop {
        match reading.next().await {
            Ok(output) => assert!(output.is_some_and(|output| output.finish_info.is_none()), "it must fail"),
            Err(status) => break status,
        }
    };
    assert_eq!((status.code(), reading.tokens()), (Code::Internal, 2), "the failing output itself is lost");
}

pub(crate) async fn an_aborted_request_is_ok(target: &Target) {
    for reason in ["abort", "repetition"] {
        let reply = target.both(&scripted(8, [("finish", word(reason)), ("n", number(2))])).await;
        let found = (reply.end(), reply.text().to_owned(), reply.tokens().len());
        assert_eq!(found, ("aborted".to_owned(), "AB".to_owned(), 2), "{reason}");
    }
}

pub(crate) async fn an_abort_releases_the_text_that_was_held_back(target: &Target) {
    let half = [("ids", numbers(&[65, 195, 169])), ("hang_after", number(2))];
    let letters = [("hang_after", number(2))];
    let stop = |request: &mut GenerateRequest| request.stopping().stop_strings = vec!["ZZZZ".to_owned()];
    for (what, request, parts) in [
        ("half a character", scripted(8, half), ["A", "", "\u{fffd}"]),
        ("what could become a stop string", scripted(8, letters).with(stop), ["", "", "AB"]),
    ] {
        let mut reading = target.open_stream(request).await.unwrap();
        let mut texts = Vec::new();
        for _ in 0..2 {
            texts.push(reading.next().await.unwrap().expect("two tokens").text);
        }
        abort(target, &["conformance"]).await;
        texts.push(reading.next().await.unwrap().expect("the finish").text);
        assert_eq!(texts, parts, "{what}");
        assert_eq!(reading.rest().await.unwrap().end(), "aborted", "{what}");
    }
}

/// An id that has text only when special tokens are shown.
fn special(target: &Target) -> u32 {
    match target.kind {
        Kind::Light => 258,
        Kind::Mock | Kind::Dense => 1003,
    }
}

pub(crate) async fn special_tokens_have_text_only_when_asked(target: &Target) {
    let ids = [65, special(target), 66];
    let hidden = scripted(3, [("ids", numbers(&ids))]);
    let shown = hidden.clone().with(|request| request.response().skip_special_tokens = Some(false));
    let reply = target.both(&hidden).await;
    assert_eq!((reply.text(), reply.tokens()), ("AB", &ids[..]));
    let reply = target.both(&shown).await;
    assert!(reply.text().len() > 2 && reply.text().starts_with('A') && reply.text().ends_with('B'));
    assert_eq!(reply.tokens(), ids);
}

pub(crate) async fn half_characters_wait_for_the_rest(target: &Target) {
    let request = scripted(8, [("ids", numbers(&[65, 195, 169, 66, 255, 67]))]);
    assert_eq!(target.both(&request).await.text(), "AéB\u{fffd}C");
    assert_eq!(texts(target.open_stream(request).await.unwrap()).await, ["A", "", "é", "B", "", "\u{fffd}C"]);
}

pub(crate) async fn terminal_parameters_come_back_as_doubles(target: &Target) {
    let handed_over = structure([
        ("remote_port", number(5600)),
        ("remote_block_ids", list([numbers(&[1, 2])])),
        ("text", word("é")),
        ("none", Value::NullValue(0)),
        ("yes", Value::BoolValue(true)),
        ("fraction", Value::NumberValue(1.5)),
    ]);
    let knobs = [
        ("n", number(1)),
        ("kv_out", Value::StructValue(handed_over.clone())),
        ("ec_out", Value::StructValue(handed_over.clone())),
    ];
    let request = scripted(8, knobs);
    for reply in [target.unary(request.clone()).await.unwrap(), target.stream(request).await.unwrap()] {
        assert_eq!(reply.finish.kv_transfer_params.as_ref(), Some(&handed_over));
        assert_eq!(reply.finish.ec_transfer_params.as_ref(), Some(&handed_over));
    }
}

pub(crate) async fn a_sampling_mask_comes_whole_at_the_end(target: &Target) {
    let rows = [&[65, 70][..], &[66], &[67, 68, 69]];
    let mask = list(rows.iter().map(|row| numbers(row)));
    // That only the last message of a stream holds it is checked of every stream.
    let reply = target.both(&scripted(3, [("mask", mask)])).await;
    let found: Vec<&[u32]> = reply.output.sampling_mask.iter().map(|row| row.ids.as_slice()).collect();
    assert_eq!(found, rows);
}

pub(crate) async fn several_tokens_may_come_at_once(target: &Target) {
    // That a message counts its own tokens is checked of every message.
    let reading = target.open_stream(scripted(8, [("chunk", number(3))])).await.unwrap();
    assert_eq!(texts(reading).await, ["ABC", "DEF", "GH"]);
    let stopped = scripted(12, [("chunk", number(5))])
        .with(|request| request.stopping().stop_strings = vec!["CD".to_owned()]);
    let reply = target.both(&stopped).await;
    let found = (reply.text(), reply.tokens().len());
    assert_eq!(found, ("AB", 4), "what follows the stop string in its chunk is dropped");
}

pub(crate) async fn a_silent_engine_runs_into_the_deadline(target: &Target) {
    for silent_after in [0, 2] {
        let request = frame(&scripted(8, [("hang_after", number(silent_after))]));
        let deadline = [("grpc-timeout", "300m")];
        let ended = raw::call(&target.grpc, "/vllm.Inference/Generate", &deadline, request).await;
        assert!(expired(&ended), "silent after {silent_after}: {ended:?}");
    }
}

/// A request whose blocks another engine will ask for.
fn prefill(budget: u32) -> GenerateRequest {
    let parameters = structure([("do_remote_decode", Value::BoolValue(true))]);
    greedy(&prompt(40, 1), budget).with(|request| request.kv().kv_transfer_params = Some(parameters))
}

pub(crate) async fn a_prefill_returns_transfer_parameters(target: &Target) {
    let reply = target.unary(prefill(1)).await.unwrap();
    let parameters = reply.finish.kv_transfer_params.expect("a prefill hands its blocks over").fields;
    let blocks = 40_u32.div_ceil(target.facts.block) as usize;
    let value = |name: &str| parameters.get(name).and_then(|value| value.kind.clone());
    assert_eq!(value("do_remote_prefill"), Some(Value::BoolValue(true)));
    assert_eq!(value("do_remote_decode"), Some(Value::BoolValue(false)));
    assert_eq!(value("remote_num_tokens"), Some(Value::NumberValue(40.0)));
    let Some(Value::ListValue(groups)) = value("remote_block_ids") else { panic!("no remote_block_ids") };
    let Some(Value::ListValue(group)) = groups.values[0].kind.clone() else { panic!("no first group") };
    assert_eq!(group.values.len(), blocks, "the partly filled block is one of them");
    for name in ["remote_engine_id", "remote_request_id", "remote_host", "remote_port", "tp_size"] {
        assert!(value(name).is_some(), "{name} is missing");
    }
}

/// A prefill whose first token completes a stop string.
async fn prefill_stopped(target: &Target, budget: u32) -> Option<prost_types::Struct> {
    let prefill = prefill(budget).with(|request| {
        request.stopping().stop_strings = vec!["A".to_owned()];
        request.decoding().allowed_token_ids = vec![65];
    });
    let reply = target.unary(prefill).await.unwrap();
    assert_eq!((reply.end().as_str(), reply.tokens()), ("stop on text A", &[65][..]));
    reply.finish.kv_transfer_params
}

pub(crate) async fn a_stop_string_loses_transfer_parameters(target: &Target) {
    assert_eq!(prefill_stopped(target, 2).await, None, "the frontend aborted the request at the engine");
}

pub(crate) async fn a_stop_string_in_the_last_token_keeps_transfer_parameters(target: &Target) {
    let kept = prefill_stopped(target, 1).await;
    assert!(kept.is_some(), "the engine had finished before the frontend could abort");
}
