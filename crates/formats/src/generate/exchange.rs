use tito_types::{Candidates, Delta, EngineError, Finish, GenerateRequest, Media, PromptOutput, TokenId};

use super::ending::{self, Rest};
use crate::ending::{Form, member};
use crate::envelope::StreamUsage;
use crate::ledger::Ledger;
use crate::{Exchange, Segments, Usage, events, json, logprobs};

/// Deltas of one prompt on their way into a generate reply.
pub(super) struct GenerateExchange {
    /// `{"request_id":"…"`, the same in the whole reply and in every chunk.
    head: Vec<u8>,
    /// `,"model":"…","created":…`, in the whole reply only.
    origin: Vec<u8>,
    ledger: Ledger,
    logprobs: Option<Candidates>,
    prompt_logprobs: bool,
    asked: Asked,
    choices: Vec<Choice>,
    prompt: Option<Prompt>,
}

/// What the client asked for besides output, and what it gets only when it did.
pub(super) struct Asked {
    pub(super) stream_usage: StreamUsage,
    /// The prompt's ids.
    pub(super) token_ids: bool,
    /// Where the media are in these ids, rendered.
    pub(super) placeholders: Option<Vec<u8>>,
}

/// What a whole reply has gathered of one choice.
#[derive(Default)]
struct Choice {
    token_ids: Vec<TokenId>,
    /// Entries of `logprobs.content`, rendered.
    logprobs: Vec<u8>,
    finish: Option<Box<Finish>>,
}

/// What a whole reply has gathered of the prompt.
#[derive(Default)]
struct Prompt {
    token_ids: Vec<TokenId>,
    logprobs: Option<Vec<u8>>,
}

impl GenerateExchange {
    pub(super) fn new(request: &GenerateRequest, asked: Asked, created: u64) -> Self {
        let mut head = b"{\"request_id\":".to_vec();
        json::value(&mut head, request.id.as_str());
        let mut origin = b",\"model\":".to_vec();
        json::value(&mut origin, &request.model);
        origin.extend_from_slice(b",\"created\":");
        json::value(&mut origin, &created);
        let logprobs = request.outputs.logprobs.clone();
        let prompt_logprobs = request.outputs.prompt_logprobs.is_some();
        // Where the engine expands media, only it knows how long the prompt became.
        let known = !matches!(request.media, Media::Raw(_));
        let prompt_tokens = vec![known.then_some(request.prompt.len() as u32)];
        let ledger = Ledger::new(request.n, prompt_tokens, logprobs.is_some(), prompt_logprobs);
        let choices = (0..ledger.choices()).map(|_| Choice::default()).collect();
        Self { head, origin, ledger, logprobs, prompt_logprobs, asked, choices, prompt: None }
    }

    fn gather_prompt(&mut self, facts: PromptOutput) -> Result<(), EngineError> {
        let logprobs = self.prompt_logprobs.then(|| logprobs::prompt(&facts.logprobs)).transpose()?;
        self.prompt = Some(Prompt { token_ids: facts.token_ids, logprobs });
        Ok(())
    }

    /// The part of a chunk that can fail, and everything before the opaque values.
    fn begin_chunk(&self, out: &mut Vec<u8>, index: usize, delta: &Delta) -> Result<(), EngineError> {
        out.extend_from_slice(events::DATA);
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b",\"choices\":[{\"index\":");
        json::value(out, &index);
        out.extend_from_slice(b",\"token_ids\":");
        json::value(out, &delta.token_ids);
        if let Some(asked) = &self.logprobs {
            out.extend_from_slice(b",\"logprobs\":{\"content\":[");
            logprobs::entries(out, true, &delta.logprobs, asked)?;
            out.extend_from_slice(b"]}");
        }
        Ok(())
    }

    fn end_chunk(
        &self,
        out: &mut Segments,
        index: usize,
        finish: Option<Finish>,
        prompt: Option<&PromptOutput>,
    ) {
        let mut rest = Rest::default();
        match finish {
            None => out.tail().extend_from_slice(b",\"finish_reason\":null}"),
            Some(finish) => ending::choice(out, Form::Chunk, finish, &mut rest),
        }
        out.tail().push(b']');
        let ids = prompt.filter(|_| self.asked.token_ids).map(|facts| &facts.token_ids);
        member(out.tail(), Form::Chunk, ",\"prompt_token_ids\":", ids, json::value);
        let placeholders = prompt.and(self.asked.placeholders.as_deref());
        member(out.tail(), Form::Chunk, ",\"mm_placeholders\":", placeholders, as_it_is);
        rest.write(out, Form::Chunk);
        let out = out.tail();
        if self.asked.stream_usage == StreamUsage::Always {
            out.extend_from_slice(b",\"usage\":");
            events::usage(out, self.ledger.usage_of(index), false);
        }
        out.push(b'}');
        out.extend_from_slice(events::END);
    }
}

/// Writes what is JSON already.
fn as_it_is(out: &mut Vec<u8>, json: &[u8]) {
    out.extend_from_slice(json);
}

impl Exchange for GenerateExchange {
    fn fold(&mut self, delta: Delta) -> Result<(), EngineError> {
        let index = self.ledger.book(&delta)?;
        let Delta { prompt, token_ids, logprobs, finish, index: _, text: _ } = delta;
        if let Some(facts) = prompt {
            self.gather_prompt(*facts)?;
        }
        let choice = &mut self.choices[index];
        if let Some(asked) = &self.logprobs {
            let first = choice.logprobs.is_empty();
            logprobs::entries(&mut choice.logprobs, first, &logprobs, asked)?;
        }
        if choice.token_ids.is_empty() {
            choice.token_ids = token_ids;
        } else {
            choice.token_ids.extend(token_ids);
        }
        choice.finish = finish;
        Ok(())
    }

    fn finish(&mut self) -> Result<Segments, EngineError> {
        self.ledger.complete()?;
        let prompt = self.prompt.take();
        if prompt.is_none() && (self.prompt_logprobs || self.asked.token_ids) {
            return Err(EngineError::Protocol("nothing came about the prompt".to_owned()));
        }
        let prompt = prompt.unwrap_or_default();
        let (mut out, mut rest) = (Segments::default(), Rest::default());
        out.tail().extend_from_slice(&self.head);
        out.tail().extend_from_slice(&self.origin);
        out.tail().extend_from_slice(b",\"choices\":[");
        for (index, choice) in std::mem::take(&mut self.choices).into_iter().enumerate() {
            let finish = choice.finish.ok_or(EngineError::Truncated)?;
            let tail = out.tail();
            tail.extend_from_slice(if index > 0 { b",{\"index\":" } else { b"{\"index\":" });
            json::value(tail, &index);
            tail.extend_from_slice(b",\"token_ids\":");
            json::value(tail, &choice.token_ids);
            if self.logprobs.is_some() {
                tail.extend_from_slice(b",\"logprobs\":{\"content\":[");
                out.append(choice.logprobs);
                out.tail().extend_from_slice(b"]}");
            } else {
                tail.extend_from_slice(b",\"logprobs\":null");
            }
            ending::choice(&mut out, Form::Whole, *finish, &mut rest);
        }
        out.tail().extend_from_slice(b"],\"usage\":");
        events::usage(out.tail(), self.ledger.usage(), true);
        out.tail().extend_from_slice(b",\"prompt_logprobs\":");
        out.append(prompt.logprobs.unwrap_or_else(|| b"null".to_vec()));
        let ids = self.asked.token_ids.then_some(&prompt.token_ids);
        member(out.tail(), Form::Whole, ",\"prompt_token_ids\":", ids, json::value);
        out.tail().extend_from_slice(b",\"prompt_token_id_logprobs\":null");
        let placeholders = self.asked.placeholders.as_deref();
        member(out.tail(), Form::Whole, ",\"mm_placeholders\":", placeholders, as_it_is);
        rest.write(&mut out, Form::Whole);
        out.tail().extend_from_slice(b",\"metrics\":null}");
        Ok(out)
    }

    fn frame(&mut self, delta: Delta, out: &mut Segments) -> Result<(), EngineError> {
        let index = self.ledger.book(&delta)?;
        let prompt_wanted = self.asked.token_ids && delta.prompt.is_some();
        if delta.token_ids.is_empty() && delta.finish.is_none() && !prompt_wanted {
            return Ok(());
        }
        let mark = out.tail().len();
        if let Err(error) = self.begin_chunk(out.tail(), index, &delta) {
            out.tail().truncate(mark);
            return Err(error);
        }
        self.end_chunk(out, index, delta.finish.map(|finish| *finish), delta.prompt.as_deref());
        Ok(())
    }

    fn close(&mut self, out: &mut Segments) {
        let wanted = self.asked.stream_usage != StreamUsage::Never;
        events::close(out.tail(), &self.head, self.ledger.usage(), wanted);
    }

    fn usage(&self) -> Usage {
        self.ledger.usage()
    }
}
