//! JSON shapes, validation, folding and SSE framing of each HTTP format; no HTTP server, no async, no clock.
//!
//! A [`Format`] turns a body into a [`Bound`] request or a [`Refusal`], before anything is spent. The bound
//! [`Exchange`] turns deltas back into the client's shape: folded into one body, or framed one by one.

mod body;
mod completions;
mod ending;
mod envelope;
mod events;
mod fields;
mod generate;
mod json;
mod ledger;
mod logprobs;
mod media;
mod migration;
mod models;
mod object;
mod refusal;
mod report;
mod reset;
mod sampling;
mod segments;
mod session;
mod structured;
mod transfer;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use completions::OpenAiCompletions;
pub use events::error_event;
pub use generate::VllmGenerate;
pub use media::{MEDIA_CACHE_BYTES_MAX, MediaCache, Scope};
pub use models::{live_body, model_body, models_body, not_ready_body, ready_body, version_body};
pub use refusal::{Refusal, RefusalKind, error_body, sentence};
pub use report::{route_body, workers_body};
pub use reset::{ResetPrefixCache, reset_body};
pub use segments::Segments;
pub use session::{SESSION_CHARS_MAX, parse_session};

use tito_types::{Catalog, Delta, EngineError, GenerateRequest, RequestId, WorkerId};

/// One way of asking for tokens over HTTP.
pub trait Format: Send + Sync {
    /// Validates a whole body. Everything the client got wrong is found here.
    fn bind(&self, body: &[u8], context: &BindContext<'_>) -> Result<Bound, Refusal>;
}

/// What a format may know besides the body.
#[derive(Debug)]
pub struct BindContext<'a> {
    /// Models that can be asked for.
    pub catalog: &'a Catalog,
    /// The id from the `X-Request-Id` header, when it was valid; beats the body's.
    pub header_id: Option<RequestId>,
    /// The id to use when the client gave none.
    pub fresh_id: RequestId,
    /// The session header's value, when [`parse_session`] took it; beats the body's.
    pub session: Option<&'a str>,
    /// The rank pinned by `X-data-parallel-rank`.
    pub rank: Option<u32>,
    /// The worker pinned by `X-Tito-Worker`.
    pub worker: Option<&'a WorkerId>,
    /// Payloads of media that clients sent before.
    pub media: &'a MediaCache,
    /// Whose payloads the client may name.
    pub scope: Scope,
    /// Whether a request that is not refused leaves its payloads in `media`; a dry run leaves nothing.
    pub remember: bool,
    /// Seconds since the Unix epoch, for `created`.
    pub now_unix_seconds: u64,
    /// Where sampling values come from when the client leaves them out.
    pub sampling_defaults: SamplingDefaults,
    /// Refuse unknown fields instead of listing them.
    pub strict: bool,
}

/// Where absent sampling values come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingDefaults {
    /// vLLM's Python defaults, sent explicitly: temperature 1, top_p 1, top_k off, min_p 0, repetition_penalty 1.
    Vllm,
    /// Left absent: the engine's generation_config rules (and an absent temperature is greedy over gRPC).
    Engine,
}

/// A request that may be sent, and the way back.
pub struct Bound {
    /// One per prompt, in order; never empty.
    pub requests: Vec<GenerateRequest>,
    /// Turns deltas into the reply.
    pub exchange: Box<dyn Exchange>,
    /// The id the reply will carry.
    pub id: RequestId,
    /// Whether the client asked for server-sent events.
    pub stream: bool,
    /// Whether the request may continue on another engine after a loss, decided once.
    pub migration: Result<(), NotMigratable>,
    /// JSON paths of fields that were not understood and not used; bounded in count and length.
    pub ignored: Vec<String>,
}

/// Why a request may not continue on another engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotMigratable {
    /// A seeded draw would restart.
    Seed,
    /// Frequency and presence penalties count output tokens only.
    Penalties,
    /// The grammar's state is lost.
    StructuredOutput,
    /// Text that straddles the cut could hide a stop string.
    StopStrings,
    /// A forbidden sequence that straddles the cut would be missed: engines compare with output tokens only.
    BadWords,
    /// Tokens spent on thinking before the cut would not count.
    ThinkingBudget,
    /// The length of the list would change.
    PromptLogprobs,
    /// The media would be fetched anew, and may have changed.
    RawMedia,
    /// The hand-off is spent.
    TransferParams,
    /// More than one continuation or prompt.
    SeveralChoices,
}

/// The way back to the client: either `fold` every delta then `finish`, or `frame` every delta then `close`.
pub trait Exchange: Send {
    /// Adds a delta to a whole reply.
    fn fold(&mut self, delta: Delta) -> Result<(), EngineError>;
    /// The whole reply. Called once, after the last fold.
    fn finish(&mut self) -> Result<Segments, EngineError>;
    /// Appends the server-sent events for one delta; may append none.
    fn frame(&mut self, delta: Delta, out: &mut Segments) -> Result<(), EngineError>;
    /// Appends what follows the last delta: the usage event when asked, and `[DONE]`.
    fn close(&mut self, out: &mut Segments);
    /// Counts so far, for metrics and the access line.
    fn usage(&self) -> Usage;
}

/// Token counts of one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Prompt tokens, each prompt counted once.
    pub prompt_tokens: u64,
    /// Prompt tokens served from the prefix cache, where the engine said so.
    pub cached_tokens: Option<u64>,
    /// Output tokens over all choices.
    pub completion_tokens: u64,
}
