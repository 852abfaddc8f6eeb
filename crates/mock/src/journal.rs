//! The last requests that reached the engine, as they came and how they fared.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prost::Message;
use vllm_proto::GenerateRequest;

#[cfg(test)]
mod tests;

/// Prompt tokens that all kept requests may hold together.
const PROMPT_TOKENS_MAX: usize = 4 << 20;
/// Bytes that the media of all kept requests may take together.
const MEDIA_BYTES_MAX: usize = 64 << 20;

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestState {
    /// It waits for its first step.
    Queued,
    /// It is or was in the batch.
    Running,
    /// It ended by itself.
    Finished,
    /// It was ended.
    Aborted(AbortCause),
}

/// Who ended a request before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbortCause {
    /// The client went away or its deadline passed.
    Disconnected,
    /// `Control.Abort` named it.
    Control,
    /// A pause in mode abort, or a sleep.
    Pause,
    /// A stop string matched: the frontend stops the engine.
    StopString,
    /// A fault ended the call.
    Fault,
    /// The engine died, or failed the request.
    Engine,
}

/// Every state, at the index of its code.
const STATES: [RequestState; 9] = [
    RequestState::Queued,
    RequestState::Running,
    RequestState::Finished,
    RequestState::Aborted(AbortCause::Disconnected),
    RequestState::Aborted(AbortCause::Control),
    RequestState::Aborted(AbortCause::Pause),
    RequestState::Aborted(AbortCause::StopString),
    RequestState::Aborted(AbortCause::Fault),
    RequestState::Aborted(AbortCause::Engine),
];

impl RequestState {
    /// One word for the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Aborted(_) => "aborted",
        }
    }

    /// Whether nothing can change any more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Finished | Self::Aborted(_))
    }

    fn code(self) -> u8 {
        let position = STATES.iter().position(|state| *state == self);
        position.expect("the table lists every state") as u8
    }
}

impl AbortCause {
    /// One word for the cause.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disconnected => "disconnected",
            Self::Control => "control",
            Self::Pause => "pause",
            Self::StopString => "stop_string",
            Self::Fault => "fault",
            Self::Engine => "engine",
        }
    }
}

/// One request, shared by the journal and the engine that runs it.
#[derive(Debug)]
pub struct JournalEntry {
    /// The client's id for it.
    pub request_id: String,
    /// The engine's id for it: the client's with a random suffix.
    pub engine_request_id: String,
    /// The global rank that runs it.
    pub rank: u32,
    /// Tokens of the prompt as the engine sees it.
    pub prompt_tokens: u32,
    /// The message as it came.
    pub request: Arc<GenerateRequest>,
    state: AtomicU8,
    cached_tokens: AtomicU32,
    output_tokens: AtomicU32,
}

impl JournalEntry {
    pub(crate) fn new(
        request_id: String,
        engine_request_id: String,
        rank: u32,
        prompt_tokens: u32,
        request: Arc<GenerateRequest>,
    ) -> Self {
        Self {
            request_id,
            engine_request_id,
            rank,
            prompt_tokens,
            request,
            state: AtomicU8::new(RequestState::Queued.code()),
            cached_tokens: AtomicU32::new(0),
            output_tokens: AtomicU32::new(0),
        }
    }

    /// How far it has come.
    pub fn state(&self) -> RequestState {
        STATES[self.state.load(Ordering::Acquire) as usize]
    }

    /// Prompt tokens that were not computed.
    pub fn cached_tokens(&self) -> u32 {
        self.cached_tokens.load(Ordering::Relaxed)
    }

    /// Tokens generated until now.
    pub fn output_tokens(&self) -> u32 {
        self.output_tokens.load(Ordering::Relaxed)
    }

    pub(crate) fn started(&self, cached_tokens: u32) {
        self.cached_tokens.store(cached_tokens, Ordering::Relaxed);
        self.state.store(RequestState::Running.code(), Ordering::Release);
    }

    pub(crate) fn generated(&self, tokens: u32) {
        self.output_tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, state: RequestState) {
        self.state.store(state.code(), Ordering::Release);
    }
}

/// A bounded list of entries, oldest first.
#[derive(Debug)]
pub(crate) struct Journal {
    kept: Mutex<Kept>,
    requests_max: usize,
}

#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<Arc<JournalEntry>>,
    prompt_tokens: usize,
    media_bytes: usize,
}

fn media_bytes(request: &GenerateRequest) -> usize {
    request.media.iter().map(Message::encoded_len).sum()
}

impl Journal {
    pub(crate) fn new(requests_max: usize) -> Self {
        Self { kept: Mutex::default(), requests_max }
    }

    /// Adds an entry; the oldest ones go when there are too many or they are too large.
    pub(crate) fn add(&self, entry: Arc<JournalEntry>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.prompt_tokens += entry.prompt_tokens as usize;
        kept.media_bytes += media_bytes(&entry.request);
        kept.entries.push_back(entry);
        while kept.entries.len() > self.requests_max
            || kept.prompt_tokens > PROMPT_TOKENS_MAX
            || kept.media_bytes > MEDIA_BYTES_MAX
        {
            let Some(oldest) = kept.entries.pop_front() else { break };
            kept.media_bytes -= media_bytes(&oldest.request);
            kept.prompt_tokens -= oldest.prompt_tokens as usize;
        }
    }

    pub(crate) fn entries(&self) -> Vec<Arc<JournalEntry>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).entries.iter().cloned().collect()
    }

    pub(crate) fn clear(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Kept::default();
    }
}
