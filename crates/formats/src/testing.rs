//! What tests of this crate share: a small fleet, ways to bind, engines' deltas.

use serde_json::Value;
use tito_types::{
    Candidate, Catalog, CatalogModel, Delta, EngineError, Extras, Finish, FinishReason, PromptOutput,
    RequestId, TokenId, TokenLogprob,
};

use crate::{BindContext, Bound, Exchange, Format, MediaCache, Refusal, SamplingDefaults, Scope, Segments};

/// One model `m`, alias `org/alias`, with a context of 100 tokens.
pub(crate) fn catalog() -> Catalog {
    Catalog { models: vec![model(&["m", "org/alias"])], reasons: Vec::new() }
}

pub(crate) fn model(names: &[&str]) -> CatalogModel {
    CatalogModel {
        names: names.iter().map(ToString::to_string).collect(),
        source: "hub/m".to_owned(),
        parent: None,
        max_model_len: 100,
        n_max: 8,
        routable: true,
    }
}

/// Remembers nothing, so that tests can share it.
static NO_MEDIA: MediaCache = MediaCache::new(0);

pub(crate) fn context(catalog: &Catalog) -> BindContext<'_> {
    BindContext {
        catalog,
        header_id: None,
        fresh_id: RequestId::parse("fresh").unwrap(),
        session: None,
        rank: None,
        worker: None,
        media: &NO_MEDIA,
        scope: Scope::SHARED,
        remember: true,
        now_unix_seconds: 1_700_000_000,
        sampling_defaults: SamplingDefaults::Vllm,
        strict: false,
    }
}

pub(crate) fn bind(format: &dyn Format, body: &str) -> Result<Bound, Refusal> {
    format.bind(body.as_bytes(), &context(&catalog()))
}

/// `Ok` or the refusal, on one line.
pub(crate) fn outcome(bound: &Result<Bound, Refusal>) -> String {
    match bound {
        Ok(_) => "ok".to_owned(),
        Err(Refusal { kind, param, message }) => {
            format!("{kind:?} {}: {message}", param.as_deref().unwrap_or("-"))
        }
    }
}

/// Folds every delta into one reply.
pub(crate) fn fold(exchange: &mut dyn Exchange, deltas: Vec<Delta>) -> Result<String, EngineError> {
    for delta in deltas {
        exchange.fold(delta)?;
    }
    exchange.finish().map(text)
}

/// Frames every delta and closes the stream.
pub(crate) fn stream(exchange: &mut dyn Exchange, deltas: Vec<Delta>) -> Result<String, EngineError> {
    let mut out = Segments::default();
    for delta in deltas {
        exchange.frame(delta, &mut out)?;
    }
    exchange.close(&mut out);
    Ok(text(out))
}

pub(crate) fn text(out: Segments) -> String {
    String::from_utf8(out.into_parts().concat()).unwrap()
}

/// The events of a stream, which must be well framed and end with `[DONE]`.
pub(crate) fn events(stream: &str) -> Vec<Value> {
    let events = stream.strip_suffix("data: [DONE]\n\n").expect("the last event is [DONE]");
    events
        .split_terminator("\n\n")
        .map(|event| {
            let json = event.strip_prefix("data: ").expect("an event is one data line");
            assert!(!json.contains(['\n', '\r']), "{event:?}");
            serde_json::from_str(json).unwrap()
        })
        .collect()
}

/// Output without an end.
pub(crate) fn tokens(index: u32, token_ids: &[TokenId], text: &str) -> Delta {
    Delta { index, token_ids: token_ids.to_vec(), text: text.to_owned(), ..Delta::default() }
}

/// Ends choice `index` after `output_tokens` in all.
pub(crate) fn end(index: u32, output_tokens: u32) -> Delta {
    let finish = Finish {
        reason: FinishReason::Length,
        stop: None,
        output_tokens,
        cached_tokens: Some(0),
        extras: Extras::default(),
    };
    Delta { index, finish: Some(Box::new(finish)), ..Delta::default() }
}

/// A log-prob whose candidates are ranked as they come.
pub(crate) fn logprob(
    token: TokenId,
    logprob: f32,
    rank: u32,
    candidates: &[(TokenId, f32)],
) -> TokenLogprob {
    let candidate =
        |(at, &(token, logprob)): (usize, &(TokenId, f32))| Candidate { token, logprob, rank: at as u32 + 1 };
    TokenLogprob { token, logprob, rank, candidates: candidates.iter().enumerate().map(candidate).collect() }
}

/// Facts about a prompt.
#[expect(clippy::unnecessary_box_returns, reason = "a delta holds it boxed")]
pub(crate) fn prompt(token_ids: &[TokenId], logprobs: Vec<TokenLogprob>) -> Box<PromptOutput> {
    let prompt_tokens = token_ids.len() as u32;
    Box::new(PromptOutput { prompt_tokens, token_ids: token_ids.to_vec(), logprobs })
}

/// The rows of a table: each on a line, its cells apart by ` | `.
pub(crate) fn rows<const N: usize>(table: &str) -> Vec<[&str; N]> {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    let cells = lines.map(|line| line.split(" |").map(str::trim).collect::<Vec<_>>());
    cells.map(|row| row.try_into().unwrap_or_else(|row| panic!("not {N} cells: {row:?}"))).collect()
}
