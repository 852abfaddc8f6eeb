//! Output that follows a structure.

use tonic::Code;
use vllm_proto::GenerateRequest;
use vllm_proto::decoding_parameters::{StringChoices, StructuredOutput};

use crate::ask::{Ask, greedy, prompt};
use crate::reply::Reply;
use crate::target::Target;

pub(crate) fn structured(structure: StructuredOutput) -> GenerateRequest {
    greedy(&prompt(40, 1), 40).with(|request| {
        request.stopping().ignore_eos = false;
        request.decoding().structured_output = Some(structure);
    })
}

/// A structure that can end is ended by the model's own end.
async fn ended(target: &Target, structure: StructuredOutput) -> Reply {
    let reply = target.both(&structured(structure)).await;
    assert_eq!(reply.end(), format!("stop on eos {}", target.vocabulary().eos), "text {:?}", reply.text());
    reply
}

pub(crate) async fn json_follows_its_schema(target: &Target) {
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer","minimum":0,"maximum":99}},
        "required":["a"],"additionalProperties":false}"#;
    let reply = ended(target, StructuredOutput::Json(schema.to_owned())).await;
    let value: serde_json::Value = serde_json::from_str(reply.text()).expect("the output is JSON");
    let number = value["a"].as_u64().unwrap_or_else(|| panic!("no whole number in {value}"));
    assert!(number <= 99 && value.as_object().is_some_and(|object| object.len() == 1), "{value}");
}

pub(crate) async fn a_regex_is_followed(target: &Target) {
    let reply = ended(target, StructuredOutput::Regex("[0-9]{3}-[a-f]{2}".to_owned())).await;
    let (digits, letters) = reply.text().split_once('-').unwrap_or_else(|| panic!("{:?}", reply.text()));
    assert!(digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()), "{digits}");
    assert!(letters.len() == 2 && letters.bytes().all(|byte| (b'a'..=b'f').contains(&byte)), "{letters}");
}

pub(crate) async fn a_choice_is_one_of_its_strings(target: &Target) {
    let choices = ["red", "green", "blue"].map(str::to_owned).to_vec();
    let reply = ended(target, StructuredOutput::Choice(StringChoices { choices: choices.clone() })).await;
    assert!(choices.contains(&reply.output.text), "{:?}", reply.text());
}

pub(crate) async fn a_grammar_is_followed(target: &Target) {
    let reply = ended(target, StructuredOutput::Grammar(r#"start: "yes" | "no""#.to_owned())).await;
    assert!(["yes", "no"].contains(&reply.text()), "{:?}", reply.text());
}

pub(crate) async fn a_broken_regex_or_grammar_ends_at_once(target: &Target) {
    for structure in [
        StructuredOutput::Regex("(".to_owned()),
        StructuredOutput::Regex(String::new()),
        StructuredOutput::Grammar("start: (".to_owned()),
    ] {
        let reply = ended(target, structure.clone()).await;
        assert_eq!((reply.text(), reply.tokens().len()), ("", 1), "{structure:?}");
    }
}

pub(crate) async fn a_broken_structural_tag_is_an_engine_error(target: &Target) {
    let request = structured(StructuredOutput::StructuralTag("{}".to_owned()));
    let status = target.unary(request.clone()).await.map(|reply| reply.end()).unwrap_err();
    assert_eq!(status.code(), Code::Internal, "unary");
    // The engine finds out, not the frontend: the stream is open by then.
    let stream = target.stream(request).await.map(|reply| reply.end());
    assert_eq!(stream.unwrap_err().code(), Code::Internal, "stream");
}

pub(crate) async fn any_json_object_begins_as_one(target: &Target) {
    let reply = target.both(&structured(StructuredOutput::JsonObject(true))).await;
    assert!(reply.text().trim_start().starts_with('{'), "{:?}", reply.text());
    if reply.end() != "length" {
        let parsed = serde_json::from_str::<serde_json::Value>(reply.text());
        assert!(parsed.is_ok_and(|value| value.is_object()), "{:?}", reply.text());
    }
}

pub(crate) async fn no_json_object_is_no_constraint(target: &Target) {
    let plain = target.unary(greedy(&prompt(40, 1), 8)).await.unwrap();
    let off = greedy(&prompt(40, 1), 8)
        .with(|r| r.decoding().structured_output = Some(StructuredOutput::JsonObject(false)));
    assert_eq!(target.both(&off).await.tokens(), plain.tokens());
}
