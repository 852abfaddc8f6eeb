//! Every refusal with its code: as the status of the call, unary or streaming, before any message.

use tonic::Code;
use vllm_proto::GenerateRequest;
use vllm_proto::decoding_parameters::{StringChoices, StructuredOutput};
use vllm_proto::generate_request::Prompt;

use super::structured::structured;
use crate::ask::{Ask, greedy, ids, prompt};
use crate::target::{Feature, Target, Vocabulary};

type Row = (&'static str, GenerateRequest, Code);

fn base() -> GenerateRequest {
    greedy(&prompt(20, 1), 4)
}

/// A row that is refused as invalid.
fn invalid(name: &'static str, edit: impl FnOnce(&mut GenerateRequest)) -> Row {
    (name, base().with(edit), Code::InvalidArgument)
}

/// Tries every row, then says which differed.
async fn check(target: &Target, rows: Vec<Row>) {
    let mut wrong = Vec::new();
    for (name, request, expected) in rows {
        let found = target.refusal(request).await;
        if found != Ok(expected) {
            wrong.push(format!("{name}: expected {expected:?}, found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn prompt_rows(target: &Target) -> Vec<Row> {
    let Vocabulary { rows, .. } = target.vocabulary();
    let context = target.facts.context;
    let of_ids = |name, tokens: &[u32]| (name, greedy(tokens, 4), Code::InvalidArgument);
    vec![
        invalid("no prompt", |r| r.prompt = None),
        of_ids("no ids", &[]),
        invalid("empty text", |r| r.prompt = Some(Prompt::Text(String::new()))),
        of_ids("the first id outside the vocabulary", &[5, rows]),
        of_ids("the largest id", &[u32::MAX]),
        of_ids("a prompt that fills the context", &prompt(context, 1)),
        of_ids("a prompt beyond the context", &prompt(context + 52, 1)),
        invalid("truncation that leaves no room", |r| r.truncate_prompt_tokens = context - 1),
    ]
}

pub(crate) async fn prompts_are_checked(target: &Target) {
    check(target, prompt_rows(target)).await;
    let last = target.vocabulary().rows - 1;
    let reply = target.unary(greedy(&[5, last], 4)).await;
    assert_eq!(reply.unwrap().tokens().len(), 4, "the last id of the vocabulary is accepted");
}

pub(crate) async fn names_are_checked(target: &Target) {
    let adapter = if target.facts.has(Feature::Lora) { Code::NotFound } else { Code::FailedPrecondition };
    let rows = vec![
        ("an unknown model", base().with(|r| r.model = "nope".into()), Code::NotFound),
        ("an adapter", base().with(|r| r.lora_name = "nope".into()), adapter),
    ];
    check(target, rows).await;
}

fn number_rows() -> Vec<Row> {
    vec![
        invalid("temperature -1", |r| r.temperature = Some(-1.0)),
        invalid("temperature 3", |r| r.temperature = Some(3.0)),
        invalid("temperature NaN", |r| r.temperature = Some(f32::NAN)),
        invalid("temperature infinite", |r| r.temperature = Some(f32::INFINITY)),
        invalid("top_p 0", |r| r.sampling().top_p = Some(0.0)),
        invalid("top_p 1.5", |r| r.sampling().top_p = Some(1.5)),
        invalid("top_p NaN", |r| r.sampling().top_p = Some(f32::NAN)),
        invalid("min_p -0.5", |r| r.sampling().min_p = Some(-0.5)),
        invalid("min_p 2", |r| r.sampling().min_p = Some(2.0)),
        invalid("two sequences", |r| r.sampling().num_sequences = 2),
        invalid("presence_penalty 3", |r| r.decoding().presence_penalty = 3.0),
        invalid("presence_penalty NaN", |r| r.decoding().presence_penalty = f32::NAN),
        invalid("frequency_penalty -3", |r| r.decoding().frequency_penalty = -3.0),
        invalid("frequency_penalty NaN", |r| r.decoding().frequency_penalty = f32::NAN),
        invalid("repetition_penalty -1", |r| r.decoding().repetition_penalty = -1.0),
        invalid("repetition_penalty NaN", |r| r.decoding().repetition_penalty = f32::NAN),
        invalid("thinking_token_budget -2", |r| r.stopping().thinking_token_budget = Some(-2)),
    ]
}

pub(crate) async fn numbers_are_checked(target: &Target) {
    check(target, number_rows()).await;
}

pub(crate) async fn ids_are_checked(target: &Target) {
    let Vocabulary { rows, tokens, .. } = target.vocabulary();
    let table = vec![
        invalid("logit_bias", |r| {
            r.decoding().logit_bias.insert(rows, 1.0);
        }),
        // Checked against the tokenizer, which may know fewer ids than the embedding has rows.
        invalid("allowed_token_ids", |r| r.decoding().allowed_token_ids = vec![tokens]),
        invalid("bad_words_token_ids", |r| r.decoding().bad_words_token_ids = vec![ids(&[rows])]),
        invalid("an empty bad word", |r| r.decoding().bad_words_token_ids = vec![ids(&[5]), ids(&[])]),
        invalid("stop_token_ids", |r| r.stopping().stop_token_ids = vec![rows]),
    ];
    check(target, table).await;
}

pub(crate) async fn lengths_are_checked(target: &Target) {
    let table = vec![
        invalid("a minimum above the maximum", |r| r.stopping().min_new_tokens = 5),
        invalid("an empty stop string", |r| r.stopping().stop_strings = vec!["a".to_owned(), String::new()]),
    ];
    check(target, table).await;
}

pub(crate) async fn structures_are_checked(target: &Target) {
    let row = |name, structure| (name, structured(structure), Code::InvalidArgument);
    let text = str::to_owned;
    let table = vec![
        row("a schema that is no JSON", StructuredOutput::Json(text("{nope"))),
        row("a schema that is a string", StructuredOutput::Json(text(r#""abc""#))),
        row("no choices", StructuredOutput::Choice(StringChoices { choices: Vec::new() })),
        row("a blank grammar", StructuredOutput::Grammar(text(" "))),
        row("a blank structural tag", StructuredOutput::StructuralTag(text(" "))),
    ];
    check(target, table).await;
}

pub(crate) async fn the_engine_serves_after_every_error(target: &Target) {
    let expected = target.unary(base()).await.unwrap();
    for (name, request, _) in prompt_rows(target).into_iter().chain(number_rows()) {
        target.refusal(request).await.unwrap_or_else(|found| panic!("{name}: {found}"));
        let reply = target.unary(base()).await.unwrap_or_else(|status| panic!("after {name}: {status:?}"));
        assert_eq!(reply.tokens(), expected.tokens(), "after {name}");
    }
}
