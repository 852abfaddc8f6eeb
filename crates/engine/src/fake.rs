//! An engine that does what a test tells it to.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, stream};
use tito_types::{
    Delivery, Delta, EngineError, Extras, Finish, FinishReason, GenerateRequest, KvOptions, Media, Outputs,
    RequestId, Sampling, Stopping,
};

use crate::{Engine, TokenStream};

mod control;

pub use control::FakeControl;

/// What a [`Fake`] does with one request.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// Fails instead of accepting.
    pub refuse: Option<EngineError>,
    /// What it yields once accepted.
    pub items: Vec<Result<Delta, EngineError>>,
    /// Stays silent for ever after the items instead of ending.
    pub hang: bool,
}

type Answer = dyn Fn(&GenerateRequest) -> Script + Send + Sync;

/// Answers by a function of the request, and remembers every request it got.
#[derive(Clone)]
pub struct Fake {
    answer: Arc<Answer>,
    seen: Arc<Mutex<Vec<GenerateRequest>>>,
}

impl Fake {
    /// An engine that answers with `answer`.
    pub fn new(answer: impl Fn(&GenerateRequest) -> Script + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer), seen: Arc::default() }
    }

    /// Every request so far, in order.
    pub fn seen(&self) -> Vec<GenerateRequest> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Engine for Fake {
    async fn generate(&self, request: GenerateRequest) -> Result<TokenStream, EngineError> {
        let script = (self.answer)(&request);
        let choices = request.n;
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        if let Some(error) = script.refuse {
            return Err(error);
        }
        let items = stream::iter(script.items);
        if script.hang {
            return Ok(TokenStream::new(choices, items.chain(stream::pending())));
        }
        Ok(TokenStream::new(choices, items))
    }
}

/// A delta with these tokens for choice `index`.
pub fn tokens(index: u32, token_ids: &[u32]) -> Delta {
    Delta { index, token_ids: token_ids.to_vec(), ..Delta::default() }
}

/// The last delta of choice `index`: these tokens, `output_tokens` in all, reason length.
pub fn last(index: u32, token_ids: &[u32], output_tokens: u32) -> Delta {
    let finish = Finish {
        reason: FinishReason::Length,
        stop: None,
        output_tokens,
        cached_tokens: Some(0),
        extras: Extras::default(),
    };
    Delta { index, token_ids: token_ids.to_vec(), finish: Some(Box::new(finish)), ..Delta::default() }
}

/// The plainest request: model `m`, this prompt, one continuation as deltas, everything else left to the engine.
pub fn request(prompt: &[u32]) -> GenerateRequest {
    GenerateRequest {
        id: RequestId::parse("r").expect("one letter is visible ASCII"),
        model: "m".to_owned(),
        prompt: prompt.into(),
        media: Media::None,
        n: 1,
        sampling: Sampling::default(),
        stopping: Stopping::default(),
        native_sampling: None,
        outputs: Outputs::default(),
        kv: KvOptions::default(),
        priority: 0,
        session: None,
        rank: None,
        worker: None,
        reasoning: None,
        delivery: Delivery::Deltas,
    }
}
