use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::{Stream, StreamExt, stream};
use tito_engine::fake::{Fake, Script, last, tokens};
use tito_engine::{Engine, TokenStream};
use tito_types::{Delta, EngineError, Extras, GenerateRequest, Placement, RawJson, WorkerId};
use tokio::sync::{mpsc, oneshot};

/// Answers every request with `items`.
pub(crate) fn scripted(items: Vec<Result<Delta, EngineError>>) -> Fake {
    Fake::new(move |_| Script { items: items.clone(), ..Script::default() })
}

/// Two tokens, then the end.
pub(crate) fn quick() -> Fake {
    scripted(vec![Ok(tokens(0, &[7])), Ok(last(0, &[8], 2))])
}

pub(crate) fn refusing(error: EngineError) -> Fake {
    Fake::new(move |_| Script { refuse: Some(error.clone()), ..Script::default() })
}

/// What a test holds of one request that an [`Held`] engine has accepted.
pub(crate) struct Accepted {
    /// What the engine says, as the test sends it.
    pub(crate) deltas: mpsc::UnboundedSender<Result<Delta, EngineError>>,
    /// Resolves when the engine's stream is dropped.
    pub(crate) dropped: oneshot::Receiver<()>,
}

/// Accepts requests and lets the test speak for it.
pub(crate) struct Held {
    accepted: mpsc::UnboundedSender<Accepted>,
}

/// The engine, and the requests it accepts.
pub(crate) fn held() -> (Held, mpsc::UnboundedReceiver<Accepted>) {
    let (accepted, requests) = mpsc::unbounded_channel();
    (Held { accepted }, requests)
}

impl Engine for Held {
    async fn generate(&self, request: GenerateRequest) -> Result<TokenStream, EngineError> {
        let (deltas, items) = mpsc::unbounded_channel();
        let (guard, dropped) = oneshot::channel();
        self.accepted.send(Accepted { deltas, dropped }).expect("the test listens");
        let items = stream::unfold(items, async |mut items| Some((items.recv().await?, items)));
        Ok(TokenStream::new(request.n, items).hold(guard))
    }
}

/// Sends a request to the worker whose name is its first token.
pub(crate) struct Placed<E>(pub(crate) E);

impl<E: Engine> Engine for Placed<E> {
    async fn generate(&self, request: GenerateRequest) -> Result<TokenStream, EngineError> {
        let (worker, rank) = (WorkerId::new(&format!("w{}", request.prompt[0])), request.rank);
        let prompt_tokens = request.prompt.len() as u64;
        let place =
            Placement { worker, rank, prompt_tokens, overlap_tokens: 16, predicted_tokens: 32, rule: "pin" };
        Ok(self.0.generate(request).await?.placed(place))
    }
}

/// Never accepts; tells when a request that waits is given up.
pub(crate) struct Queueing {
    waiting: mpsc::UnboundedSender<oneshot::Receiver<()>>,
}

pub(crate) fn queueing() -> (Queueing, mpsc::UnboundedReceiver<oneshot::Receiver<()>>) {
    let (waiting, requests) = mpsc::unbounded_channel();
    (Queueing { waiting }, requests)
}

impl Engine for Queueing {
    async fn generate(&self, _request: GenerateRequest) -> Result<TokenStream, EngineError> {
        let (_guard, dropped) = oneshot::channel::<()>();
        self.waiting.send(dropped).expect("the test listens");
        std::future::pending().await
    }
}

type Source = Pin<Box<dyn Stream<Item = Result<Delta, EngineError>> + Send>>;

/// One stream, given away once.
pub(crate) struct Once(Mutex<Option<Source>>);

impl Once {
    pub(crate) fn new(source: impl Stream<Item = Result<Delta, EngineError>> + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::pin(source))))
    }
}

impl Engine for Once {
    async fn generate(&self, _request: GenerateRequest) -> Result<TokenStream, EngineError> {
        let source = self.0.lock().unwrap().take().expect("asked once");
        Ok(TokenStream::new(1, source))
    }
}

/// Ends at once, with one token and this opaque value.
pub(crate) fn opaque(json: String) -> Once {
    let mut end = last(0, &[8], 1);
    let extras = Extras { routed_experts: Some(RawJson::new(json)), ..Extras::default() };
    end.finish.as_mut().unwrap().extras = extras;
    Once::new(stream::iter([Ok(end)]))
}

/// An endless answer, always ready, that counts what was taken and tells when it is dropped.
pub(crate) fn endless(tokens_each: usize) -> (Once, Arc<AtomicUsize>, oneshot::Receiver<()>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let (guard, dropped) = oneshot::channel::<()>();
    let count = Arc::clone(&taken);
    let token_ids = vec![1_000_000; tokens_each];
    let deltas = stream::repeat_with(move || {
        let _guard = &guard;
        count.fetch_add(1, Ordering::Relaxed);
        Ok(tokens(0, &token_ids))
    });
    (Once::new(deltas.boxed()), taken, dropped)
}
