//! The layer that sends each request to a (worker, rank). The choice is made elsewhere, purely; HTTP is unknown here.

mod wait;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use prometheus_client::registry::Registry;
use tito_engine::{BoxEngine, Engine, TokenStream};
use tito_fleet::{Blocks, Snapshot, State};
use tito_policy::{Choice, Group, Pin, Query, Refusal, Ticket};
use tito_types::{Delivery, Delta, EngineError, GenerateRequest, Media, Placement, Retry, WorkerId};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

use crate::RouteConfig;
use crate::booking::{Booking, expected};
use crate::desk::{Desk, Line};
use crate::metrics::{BoardCollector, Contact, RouteMetrics};
use crate::prefix::{Chains, Held, held, prompt_tokens};
use crate::route::wait::Waiting;
use crate::silent::Silent;
use crate::view::{Place, View};

/// Sends each request to the target chosen for it, and to one on another worker when that one cannot be reached.
#[derive(Clone)]
pub struct Route {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) fleet: watch::Receiver<Arc<Snapshot>>,
    pub(crate) blocks: Arc<Blocks>,
    pub(crate) config: RouteConfig,
    pub(crate) metrics: RouteMetrics,
    desk: Mutex<Desk>,
    silent: Mutex<Silent>,
    born: Instant,
}

/// Silent requests looked at for each choice: more than one, so that a quiet server catches up with a burst.
const SILENT_LOOKS: usize = 4;

/// What a choice needs besides the board.
pub(crate) struct Wish {
    pub(crate) view: Arc<View>,
    pub(crate) groups: Vec<Group>,
    pub(crate) held: Held,
    pub(crate) pin: Pin,
    pub(crate) session: Option<u64>,
    pub(crate) prompt_tokens: u32,
    pub(crate) continuations: u32,
    /// How often any target had been emptied before the look-up.
    emptied: u64,
}

impl Wish {
    pub(crate) fn query<'a>(&'a self, exclude: &'a [WorkerId]) -> Query<'a> {
        Query {
            groups: &self.groups,
            prompt_tokens: self.prompt_tokens,
            continuations: self.continuations,
            overlaps: &self.held.overlaps,
            prefix: self.held.prefix.as_ref(),
            session: self.session,
            pin: Some(&self.pin),
            exclude,
        }
    }
}

impl Route {
    /// Reads the fleet's latest snapshot and what its targets hold for every request.
    pub fn new(
        fleet: watch::Receiver<Arc<Snapshot>>,
        blocks: Arc<Blocks>,
        config: RouteConfig,
        metrics: RouteMetrics,
    ) -> Self {
        let desk = Desk::new(config.board, config.target_limit, metrics.waiting());
        let desk = Mutex::new(desk);
        let silent = Mutex::default();
        let born = Instant::now();
        Self { shared: Arc::new(Shared { fleet, blocks, config, metrics, desk, silent, born }) }
    }

    /// Shows the sizes of its board among the metrics; the caller passes the registry for `router_…`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(BoardCollector(Arc::downgrade(&self.shared))));
    }
}

impl Engine for Route {
    async fn generate(&self, request: GenerateRequest) -> Result<TokenStream, EngineError> {
        let again = request.clone();
        let (first, worker) = match send(&self.shared, request, &[]).await {
            Ok(sent) => sent,
            Err((error, Some(failed))) if error.retry() == Retry::OtherWorker => {
                return second(&self.shared, again, error, &failed).await;
            }
            Err((error, _)) => return Err(error),
        };
        if first.is_whole() {
            return Ok(first);
        }
        let (choices, places) = (first.choices(), first.places().clone());
        let deltas = guarded(Arc::clone(&self.shared), again, worker, first);
        Ok(TokenStream::new(choices, deltas).placed_at(places))
    }
}

/// Chooses and calls; says which worker it was, also when that failed.
async fn send(
    shared: &Arc<Shared>,
    mut request: GenerateRequest,
    exclude: &[WorkerId],
) -> Result<(TokenStream, WorkerId), (EngineError, Option<WorkerId>)> {
    let (booking, engine, ranked) = match book(shared, &request, exclude).await {
        Ok(booked) => booked,
        Err(error) => {
            if matches!(error, EngineError::NoWorker(_)) {
                shared.metrics.no_worker();
            }
            return Err((error, None));
        }
    };
    let (worker, rank) = booking.target();
    let contact = if exclude.is_empty() { Contact::First } else { Contact::Second };
    shared.metrics.dispatched(&worker, rank, contact);
    if ranked {
        request.rank = Some(rank);
    }
    match engine.generate(request).await {
        Ok(tokens) => {
            let placement = booking.placement.clone();
            let mut booking = booking;
            let tokens = tokens.observe(move |delta| booking.delta(delta)).placed(placement);
            Ok((tokens, worker))
        }
        Err(error) => Err((error, Some(worker))),
    }
}

/// What came of looking for a place.
enum Chosen {
    Place(Choice, Place),
    /// Stands in the line, or must look again.
    Wait,
    Refused(Refusal),
}

/// Waits for a place and takes it.
async fn book(
    shared: &Arc<Shared>,
    request: &GenerateRequest,
    exclude: &[WorkerId],
) -> Result<(Booking, BoxEngine, bool), EngineError> {
    let mut waiting = Waiting::new(shared, Line::new(&request.model, &pin(request), exclude));
    let mut chains = Chains::default();
    loop {
        let wish = shared.wish(request, &mut chains);
        match shared.choose(&wish, exclude, &mut waiting) {
            Chosen::Place(choice, place) => {
                let booking = shared.booking(&wish, &choice, &place, request);
                return Ok((booking, place.engine, place.ranked));
            }
            Chosen::Wait => waiting.called().await?,
            Chosen::Refused(refusal) => return Err(shared.refused(&refusal, request)),
        }
    }
}

/// The one more contact after a first that was not reached; without another worker, the first error stands.
async fn second(
    shared: &Arc<Shared>,
    request: GenerateRequest,
    first: EngineError,
    failed: &WorkerId,
) -> Result<TokenStream, EngineError> {
    warn!(worker = %failed, request = %request.id, error = %first, "worker not reached, trying another");
    match send(shared, request, std::slice::from_ref(failed)).await {
        Ok((tokens, _)) => Ok(tokens),
        Err((EngineError::NoWorker(_) | EngineError::Invalid { .. }, None)) => Err(first),
        Err((error, _)) => Err(error),
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
                match second(&shared, request, error, &worker).await {
                    Ok(other) => {
                        tokens.places().follow(other.places());
                        return other.left_stream();
                    }
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

/// Where the client said it must go.
pub(crate) fn pin(request: &GenerateRequest) -> Pin {
    Pin { worker: request.worker.clone(), rank: request.rank }
}

impl Shared {
    /// Brings the board to the fleet as it is.
    pub(crate) fn sync(&self) -> Arc<View> {
        self.view(&mut self.desk())
    }

    /// The same for who holds the desk. The snapshot is read under its lock, so that the board never goes back to an
    /// older one.
    pub(crate) fn view(&self, desk: &mut Desk) -> Arc<View> {
        let snapshot = Arc::clone(&self.fleet.borrow());
        desk.view(&snapshot, &self.blocks)
    }

    /// What a refusal of the board means to the caller.
    fn refused(&self, refusal: &Refusal, request: &GenerateRequest) -> EngineError {
        let invalid =
            |param: &str| EngineError::Invalid { param: param.to_owned(), message: refusal.to_string() };
        let none = || EngineError::NoWorker(format!("none is ready for {}", request.model));
        match refusal {
            Refusal::UnknownWorker { worker, .. } if self.is_down(Some(worker), None) => none(),
            Refusal::UnknownRank { worker, rank, .. } if self.is_down(worker.as_ref(), Some(*rank)) => none(),
            Refusal::UnknownWorker { .. } | Refusal::PinRequired => invalid("x-tito-worker"),
            Refusal::UnknownRank { .. } => invalid("x-data-parallel-rank"),
            Refusal::Full => EngineError::Overloaded(
                "every target is at its limit and as many requests wait as may".to_owned(),
            ),
            Refusal::Nobody | Refusal::Excluded => none(),
        }
    }

    /// Whether a pin names what is configured and cannot be reached now.
    fn is_down(&self, worker: Option<&WorkerId>, rank: Option<u32>) -> bool {
        let snapshot = Arc::clone(&self.fleet.borrow());
        snapshot.workers.iter().any(|known| {
            !matches!(known.state, State::Ready(_))
                && worker.is_none_or(|worker| *worker == known.id)
                && rank.is_none_or(|rank| known.owns(rank))
        })
    }

    /// The fleet as it is and what its targets hold of the prompt.
    pub(crate) fn wish(&self, request: &GenerateRequest, chains: &mut Chains) -> Wish {
        let view = self.sync();
        // Read before anything is looked up: what is found may be gone by the time it is chosen.
        let emptied = self.blocks.emptied();
        let groups = view.serving(&request.model);
        let held = held(&self.blocks, &view, &groups, request, chains);
        let hash = |session: &String| self.blocks.hasher().payload(session.as_bytes());
        Wish {
            groups,
            held,
            pin: pin(request),
            session: request.session.as_ref().map(hash),
            prompt_tokens: prompt_tokens(request),
            continuations: request.n,
            emptied,
            view,
        }
    }

    /// A place on the board, charged, or one in the line. Nobody overtakes those who stand in the same line.
    fn choose(&self, wish: &Wish, exclude: &[WorkerId], waiting: &mut Waiting) -> Chosen {
        self.check_silent(SILENT_LOOKS);
        let mut desk = self.desk();
        // Under the lock: for the board, time never goes back.
        let now = self.now();
        let chosen = if waiting.may_choose(&desk) {
            desk.board.choose(&wish.query(exclude), now)
        } else {
            Err(Refusal::Full)
        };
        match chosen {
            Ok(choice) => {
                if let Some(place) = wish.view.place(choice.slot).cloned() {
                    Chosen::Place(choice, place)
                } else {
                    // The board was ahead of the view: the fleet changed in between, so look again.
                    desk.board.end(choice.ticket);
                    Chosen::Wait
                }
            }
            // So it was as well: who serves what may be another matter by now.
            Err(_) if !desk.is_at(&wish.view) => Chosen::Wait,
            Err(Refusal::Full) => match waiting.queue(&mut desk, &self.config) {
                Ok(()) => Chosen::Wait,
                Err(refusal) => Chosen::Refused(refusal),
            },
            Err(refusal) => Chosen::Refused(refusal),
        }
    }

    fn booking(
        self: &Arc<Self>,
        wish: &Wish,
        choice: &Choice,
        place: &Place,
        request: &GenerateRequest,
    ) -> Booking {
        self.metrics.chosen(choice.rule, request.prompt.len(), choice.overlap_tokens);
        if wish.held.token_only {
            self.metrics.token_only();
        }
        let ranked = place.ranked || request.rank.is_some();
        let placement = Placement {
            worker: choice.worker.clone(),
            rank: ranked.then_some(choice.rank),
            prompt_tokens: u64::from(wish.prompt_tokens),
            overlap_tokens: u64::from(choice.overlap_tokens),
            predicted_tokens: u64::from(choice.predicted_tokens.max(choice.overlap_tokens)),
            rule: choice.rule.word(),
        };
        let target = Arc::clone(&place.target);
        // Of a prompt with raw media the engine's events show no block that is its last.
        if request.delivery == Delivery::Whole && !matches!(request.media, Media::Raw(_)) {
            let generation = wish.view.generation(place, &request.model);
            let prefix = wish.held.prefix.as_ref().filter(|_| generation == wish.held.prefix_generation);
            self.silent().add(choice.ticket, &target, prefix);
        }
        let mut booking = Booking::new(Arc::clone(self), choice, Arc::clone(&target), placement);
        if self.blocks.emptied() == wish.emptied {
            booking.expected = expected(wish, choice, &target, request);
        }
        booking
    }

    /// Requests that say nothing until their end are past their prefill once their last block is known to be there.
    pub(crate) fn check_silent(&self, looks: usize) {
        let done = self.silent().done(&self.blocks, looks);
        for ticket in done {
            self.prefill_done(ticket);
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.born.elapsed()
    }

    pub(crate) fn prefill_done(&self, ticket: Ticket) {
        let mut desk = self.desk();
        desk.board.prefill_done(ticket, self.now());
    }

    pub(crate) fn grow(&self, ticket: Ticket, tokens: u32) {
        self.desk().board.grow(ticket, tokens);
    }

    /// Gives a place back and calls those who wait for one.
    pub(crate) fn end(&self, ticket: Ticket) {
        self.silent().remove(ticket);
        let mut desk = self.desk();
        desk.board.end(ticket);
        desk.call();
    }

    pub(crate) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> MutexGuard<'_, Silent> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests;
