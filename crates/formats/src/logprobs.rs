//! The shapes of log-probs: vLLM's list of entries, its map over the prompt, OpenAI's parallel lists.

use tito_types::{Candidate, Candidates, EngineError, TokenLogprob};

use crate::json;

/// Entries of `logprobs.content`, separated by commas, after whatever `out` holds of the list.
///
/// `top_logprobs` begins with the sampled token and goes on with the candidates that differ from it, in the
/// engine's order. Where at most one candidate was asked it is the sampled token alone, as vLLM has it.
pub(crate) fn entries(
    out: &mut Vec<u8>,
    first: bool,
    logprobs: &[TokenLogprob],
    asked: &Candidates,
) -> Result<(), EngineError> {
    let rivals = match asked {
        Candidates::Top(n) => *n > 1,
        Candidates::All | Candidates::Ids(_) => true,
    };
    for (at, entry) in logprobs.iter().enumerate() {
        if at > 0 || !first {
            out.push(b',');
        }
        let sampled = Candidate { token: entry.token, logprob: entry.logprob, rank: entry.rank };
        candidate(out, &sampled)?;
        out.extend_from_slice(b",\"top_logprobs\":[");
        candidate(out, &sampled)?;
        out.push(b'}');
        for rival in distinct(entry).filter(|_| rivals) {
            out.push(b',');
            candidate(out, rival)?;
            out.push(b'}');
        }
        out.extend_from_slice(b"]}");
    }
    Ok(())
}

/// Candidates other than the token itself.
fn distinct(entry: &TokenLogprob) -> impl Iterator<Item = &Candidate> {
    entry.candidates.iter().filter(|candidate| candidate.token != entry.token)
}

/// An object up to its closing brace.
fn candidate(out: &mut Vec<u8>, candidate: &Candidate) -> Result<(), EngineError> {
    out.extend_from_slice(b"{\"token\":");
    json::token_name(out, candidate.token);
    out.extend_from_slice(b",\"token_id\":");
    json::value(out, &candidate.token);
    out.extend_from_slice(b",\"logprob\":");
    json::logprob(out, candidate.logprob)?;
    out.extend_from_slice(b",\"rank\":");
    json::rank(out, candidate.rank);
    Ok(())
}

/// `prompt_logprobs`: null for the first token, then one object per token whose keys are token ids.
///
/// The prompt's own token is the first key of each: clients read it by position.
pub(crate) fn prompt(logprobs: &[TokenLogprob]) -> Result<Vec<u8>, EngineError> {
    let mut out = b"[null".to_vec();
    for entry in logprobs.iter().skip(1) {
        out.extend_from_slice(b",{");
        let own = Candidate { token: entry.token, logprob: entry.logprob, rank: entry.rank };
        for (at, candidate) in std::iter::once(&own).chain(distinct(entry)).enumerate() {
            out.extend_from_slice(if at > 0 { b",\"" } else { b"\"" });
            json::value(&mut out, &candidate.token);
            out.extend_from_slice(b"\":{\"logprob\":");
            json::logprob(&mut out, candidate.logprob)?;
            out.extend_from_slice(b",\"rank\":");
            json::rank(&mut out, candidate.rank);
            out.extend_from_slice(b",\"decoded_token\":");
            json::token_name(&mut out, candidate.token);
            out.push(b'}');
        }
        out.push(b'}');
    }
    out.push(b']');
    Ok(out)
}

/// OpenAI's lists for completions, each without its brackets.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    tokens: Vec<u8>,
    token_logprobs: Vec<u8>,
    top_logprobs: Vec<u8>,
}

impl Columns {
    /// Appends one row per token: the sampled token, and every candidate that differs from it.
    pub(crate) fn push(&mut self, logprobs: &[TokenLogprob]) -> Result<(), EngineError> {
        for entry in logprobs {
            let between: &[u8] = if self.tokens.is_empty() { b"" } else { b"," };
            self.tokens.extend_from_slice(between);
            json::token_name(&mut self.tokens, entry.token);
            self.token_logprobs.extend_from_slice(between);
            json::logprob(&mut self.token_logprobs, entry.logprob)?;
            let top = &mut self.top_logprobs;
            top.extend_from_slice(between);
            top.push(b'{');
            json::token_name(top, entry.token);
            top.push(b':');
            json::logprob(top, entry.logprob)?;
            for rival in distinct(entry) {
                top.push(b',');
                json::token_name(top, rival.token);
                top.push(b':');
                json::logprob(top, rival.logprob)?;
            }
            top.push(b'}');
        }
        Ok(())
    }

    /// The whole object. `text_offset` is null: without the text of each token there is none.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"text_offset\":null,\"token_logprobs\":[");
        out.extend_from_slice(&self.token_logprobs);
        out.extend_from_slice(b"],\"tokens\":[");
        out.extend_from_slice(&self.tokens);
        out.extend_from_slice(b"],\"top_logprobs\":[");
        out.extend_from_slice(&self.top_logprobs);
        out.extend_from_slice(b"]}");
    }
}
