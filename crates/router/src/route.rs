//! The layer that sends each request to a worker. The choice is made elsewhere, purely; HTTP is unknown here.

use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use tito_engine::{Engine, TokenStream};
use tito_fleet::{Snapshot, State};
use tito_types::{Delta, EngineError, GenerateRequest, Retry, WorkerId};
use tokio::sync::watch;
use tracing::warn;

use crate::choose;
use crate::metrics::{Contact, RouteMetrics};

/// Sends each request to the worker chosen for it, and to one other when that one cannot be reached.
#[derive(Clone)]
pub struct Route {
    shared: Arc<Shared>,
}

struct Shared {
    fleet: watch::Receiver<Arc<Snapshot>>,
    metrics: RouteMetrics,
}

impl Route {
    /// Reads the fleet's latest snapshot for every request.
    pub fn new(fleet: watch::Receiver<Arc<Snapshot>>, metrics: RouteMetrics) -> Self {
        Self { shared: Arc::new(Shared { fleet, metrics }) }
    }
}

impl Engine for Route {
    async fn generate(&self, request: GenerateRequest) -> Result<TokenStream, EngineError> {
        let again = request.clone();
        let (first, worker) = match self.shared.send(request, None).await {
            Ok(sent) => sent,
            Err((error, Some(failed))) if error.retry() == Retry::OtherWorker => {
                return self.shared.second(again, error, &failed).await;
            }
            Err((error, _)) => return Err(error),
        };
        if first.is_whole() {
            return Ok(first);
        }
        let choices = first.choices();
        Ok(TokenStream::new(choices, guarded(Arc::clone(&self.shared), again, worker, first)))
    }
}

impl Shared {
    /// Chooses and calls; says which worker it was, also when that failed.
    async fn send(
        &self,
        request: GenerateRequest,
        excluded: Option<&WorkerId>,
    ) -> Result<(TokenStream, WorkerId), (EngineError, Option<WorkerId>)> {
        let snapshot = Arc::clone(&self.fleet.borrow());
        let chosen = choose(&snapshot, &request.model, request.rank, excluded);
        let Some((worker, engine)) = chosen.and_then(|worker| match &worker.state {
            State::Ready(engine) => Some((worker, engine)),
            State::Unreachable(_) | State::Refused(_) => None,
        }) else {
            self.metrics.no_worker();
            return Err((EngineError::NoWorker(format!("none is ready for {}", request.model)), None));
        };
        let contact = if excluded.is_none() { Contact::First } else { Contact::Second };
        self.metrics.dispatched(&worker.id, contact);
        let in_flight = worker.load.begin(request.n);
        match engine.generate(request).await {
            Ok(tokens) => Ok((tokens.hold(in_flight), worker.id.clone())),
            Err(error) => Err((error, Some(worker.id.clone()))),
        }
    }

    /// The one more contact after a first that was not reached; without another worker, the first error stands.
    async fn second(
        &self,
        request: GenerateRequest,
        first: EngineError,
        failed: &WorkerId,
    ) -> Result<TokenStream, EngineError> {
        warn!(worker = %failed, request = %request.id, error = %first, "worker not reached, trying another");
        match self.send(request, Some(failed)).await {
            Ok((tokens, _)) => Ok(tokens),
            Err((EngineError::NoWorker(_), _)) => Err(first),
            Err((error, _)) => Err(error),
        }
    }
}

/// An engine may accept a call and go away before its first delta: that too is a first contact that failed.
fn guarded(
    shared: Arc<Shared>,
    request: GenerateRequest,
    worker: WorkerId,
    tokens: TokenStream,
) -> impl Stream<Item = Result<Delta, EngineError>> + Send {
    let opening = async move {
        let mut tokens = tokens;
        let first = match TokenStream::next(&mut tokens).await {
            Some(Err(error)) if error.retry() == Retry::OtherWorker => {
                match shared.second(request, error, &worker).await {
                    Ok(other) => return other.left_stream(),
                    Err(error) => Err(error),
                }
            }
            Some(first) => first,
            None => Err(EngineError::Truncated),
        };
        stream::iter([first]).chain(tokens).right_stream()
    };
    stream::once(opening).flatten()
}

#[cfg(test)]
pub(crate) mod tests;
