use tito_types::{Delta, EngineError, Finish, GenerateRequest, TokenId};

use crate::ending::{self, Form, HandOff, member, opaque};
use crate::envelope::StreamUsage;
use crate::ledger::Ledger;
use crate::logprobs::{self, Columns};
use crate::{Exchange, Segments, Usage, events, json};

/// Deltas of one or several prompts on their way into a completions reply.
pub(super) struct CompletionsExchange {
    /// `{"id":"…","object":"text_completion","created":…,"model":"…"`, the same everywhere.
    head: Vec<u8>,
    ledger: Ledger,
    logprobs: bool,
    prompt_logprobs: bool,
    return_token_ids: bool,
    stream_usage: StreamUsage,
    choices: Vec<Choice>,
    /// By prompt.
    prompts: Vec<Option<Prompt>>,
}

/// What a whole reply has gathered of one choice.
#[derive(Default)]
struct Choice {
    text: String,
    token_ids: Vec<TokenId>,
    logprobs: Columns,
    finish: Option<Box<Finish>>,
}

/// What a whole reply has gathered of one prompt; every choice of the prompt repeats it.
struct Prompt {
    token_ids: Vec<TokenId>,
    logprobs: Option<Vec<u8>>,
}

impl CompletionsExchange {
    pub(super) fn new(
        requests: &[GenerateRequest],
        stream_usage: StreamUsage,
        return_token_ids: bool,
        created: u64,
    ) -> Self {
        let first = requests.first().expect("a bound body has at least one prompt");
        let mut head = b"{\"id\":".to_vec();
        json::value(&mut head, &format_args!("cmpl-{}", first.id));
        head.extend_from_slice(b",\"object\":\"text_completion\",\"created\":");
        json::value(&mut head, &created);
        head.extend_from_slice(b",\"model\":");
        json::value(&mut head, &first.model);
        let logprobs = first.outputs.logprobs.is_some();
        let prompt_logprobs = first.outputs.prompt_logprobs.is_some();
        let prompt_tokens = requests.iter().map(|request| Some(request.prompt.len() as u32)).collect();
        let ledger = Ledger::new(first.n, prompt_tokens, logprobs, prompt_logprobs);
        Self {
            head,
            logprobs,
            prompt_logprobs,
            return_token_ids,
            stream_usage,
            choices: (0..ledger.choices()).map(|_| Choice::default()).collect(),
            prompts: requests.iter().map(|_| None).collect(),
            ledger,
        }
    }

    /// `,"choices":[{"index":…,"text":…` of a chunk and what else can fail.
    fn begin_chunk(&self, out: &mut Vec<u8>, index: usize, delta: &Delta) -> Result<(), EngineError> {
        out.extend_from_slice(events::DATA);
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b",\"choices\":[{\"index\":");
        json::value(out, &index);
        out.extend_from_slice(b",\"text\":");
        json::value(out, &delta.text);
        if self.logprobs {
            let mut columns = Columns::default();
            columns.push(&delta.logprobs)?;
            out.extend_from_slice(b",\"logprobs\":");
            columns.write(out);
        }
        Ok(())
    }

    fn end_chunk(&self, out: &mut Segments, index: usize, delta: Delta) {
        let Delta { prompt, token_ids, finish, .. } = delta;
        let mut hand_off = HandOff::default();
        match finish.map(|finish| *finish) {
            None => out.tail().extend_from_slice(b",\"finish_reason\":null"),
            Some(Finish { reason, stop, mut extras, .. }) => {
                hand_off.take(&mut extras);
                ending::reasons(out.tail(), Form::Chunk, reason, stop.as_ref());
                opaque(out, Form::Chunk, ",\"routed_experts\":", extras.routed_experts);
            }
        }
        let ids = self.return_token_ids.then_some(&token_ids);
        member(out.tail(), Form::Chunk, ",\"token_ids\":", ids, json::value);
        let ids = prompt.as_ref().filter(|_| self.return_token_ids).map(|facts| &facts.token_ids);
        member(out.tail(), Form::Chunk, ",\"prompt_token_ids\":", ids, json::value);
        out.tail().extend_from_slice(b"}]");
        hand_off.write(out, Form::Chunk);
        let out = out.tail();
        if self.stream_usage == StreamUsage::Always {
            out.extend_from_slice(b",\"usage\":");
            events::usage(out, self.ledger.usage_of(index), false);
        }
        out.push(b'}');
        out.extend_from_slice(events::END);
    }

    /// One choice of a whole reply.
    fn write_choice(
        &self,
        out: &mut Segments,
        index: usize,
        choice: Choice,
        hand_off: &mut HandOff,
    ) -> Result<(), EngineError> {
        let Choice { text, token_ids, logprobs, finish } = choice;
        let Finish { reason, stop, mut extras, .. } = *finish.ok_or(EngineError::Truncated)?;
        hand_off.take(&mut extras);
        let prompt = self.prompts[self.ledger.prompt_of(index)].as_ref();
        if prompt.is_none() && (self.prompt_logprobs || self.return_token_ids) {
            return Err(EngineError::Protocol(format!("nothing came about the prompt of choice {index}")));
        }
        let tail = out.tail();
        tail.extend_from_slice(if index > 0 { b",{\"index\":" } else { b"{\"index\":" });
        json::value(tail, &index);
        tail.extend_from_slice(b",\"text\":");
        json::value(tail, &text);
        let columns = self.logprobs.then_some(&logprobs);
        member(tail, Form::Whole, ",\"logprobs\":", columns, |out, columns| columns.write(out));
        ending::reasons(tail, Form::Whole, reason, stop.as_ref());
        let ids = self.return_token_ids.then_some(&token_ids);
        member(tail, Form::Whole, ",\"token_ids\":", ids, json::value);
        let rows = prompt.and_then(|prompt| prompt.logprobs.as_deref());
        member(tail, Form::Whole, ",\"prompt_logprobs\":", rows, Vec::extend_from_slice);
        let ids = prompt.filter(|_| self.return_token_ids).map(|prompt| &prompt.token_ids);
        member(tail, Form::Whole, ",\"prompt_token_ids\":", ids, json::value);
        opaque(out, Form::Whole, ",\"routed_experts\":", extras.routed_experts);
        out.tail().push(b'}');
        Ok(())
    }
}

impl Exchange for CompletionsExchange {
    fn fold(&mut self, delta: Delta) -> Result<(), EngineError> {
        let index = self.ledger.book(&delta)?;
        let Delta { prompt, token_ids, text, logprobs, finish, index: _ } = delta;
        if let Some(facts) = prompt {
            let rows = self.prompt_logprobs.then(|| logprobs::prompt(&facts.logprobs)).transpose()?;
            self.prompts[self.ledger.prompt_of(index)] =
                Some(Prompt { token_ids: facts.token_ids, logprobs: rows });
        }
        let choice = &mut self.choices[index];
        choice.text.push_str(&text);
        if self.return_token_ids {
            choice.token_ids.extend(token_ids);
        }
        if self.logprobs {
            choice.logprobs.push(&logprobs)?;
        }
        choice.finish = finish;
        Ok(())
    }

    fn finish(&mut self) -> Result<Segments, EngineError> {
        self.ledger.complete()?;
        let (mut out, mut hand_off) = (Segments::default(), HandOff::default());
        out.tail().extend_from_slice(&self.head);
        out.tail().extend_from_slice(b",\"choices\":[");
        for (index, choice) in std::mem::take(&mut self.choices).into_iter().enumerate() {
            self.write_choice(&mut out, index, choice, &mut hand_off)?;
        }
        out.tail().extend_from_slice(b"],\"usage\":");
        events::usage(out.tail(), self.ledger.usage(), true);
        out.tail().extend_from_slice(b",\"service_tier\":null,\"system_fingerprint\":null");
        hand_off.write(&mut out, Form::Whole);
        out.tail().push(b'}');
        Ok(out)
    }

    fn frame(&mut self, delta: Delta, out: &mut Segments) -> Result<(), EngineError> {
        let index = self.ledger.book(&delta)?;
        let prompt_wanted = self.return_token_ids && delta.prompt.is_some();
        let empty = delta.token_ids.is_empty() && delta.text.is_empty() && delta.finish.is_none();
        if empty && !prompt_wanted {
            return Ok(());
        }
        let mark = out.tail().len();
        if let Err(error) = self.begin_chunk(out.tail(), index, &delta) {
            out.tail().truncate(mark);
            return Err(error);
        }
        self.end_chunk(out, index, delta);
        Ok(())
    }

    fn close(&mut self, out: &mut Segments) {
        let wanted = self.stream_usage != StreamUsage::Never;
        events::close(out.tail(), &self.head, self.ledger.usage(), wanted);
    }

    fn usage(&self) -> Usage {
        self.ledger.usage()
    }
}
