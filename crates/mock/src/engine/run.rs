//! The loop of one rank: take commands, run a step, wait for its length, hand out what it made.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tito_engine_sim::{Finish, Model, PauseMode, RequestId, SimConfig, Simulation, Step, StepToken};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{Chunk, Command, Delivery, End, Engine, Submission};
use crate::journal::{AbortCause, JournalEntry, RequestState};
use crate::kv::{Batch, Origin, Publisher};

/// A step that begins no later than this after the last one begins where that one ended.
const LATENESS_MAX: Duration = Duration::from_millis(5);

/// The task behind an [`Engine`].
#[derive(Debug)]
pub(crate) struct EngineTask {
    engine: Arc<Engine>,
    simulation: Simulation,
    live: BTreeMap<RequestId, Live>,
    /// Publishes what steps do to the prefix cache; none when nobody wants to know.
    publisher: Option<Publisher>,
    started: Instant,
    commands: Vec<Command>,
    /// Pauses that are not complete.
    pausing: Vec<Pausing>,
    dead: bool,
    /// Whether a step's time passes, so that what it made is not handed out yet.
    stepping: bool,
    /// When the last timed step ended, if the next one has not begun.
    ended: Option<Duration>,
}

#[derive(Debug)]
struct Pausing {
    mode: PauseMode,
    clear_cache: bool,
    done: oneshot::Sender<()>,
}

/// A request whose call waits for output.
#[derive(Debug)]
struct Live {
    output: mpsc::Sender<Chunk>,
    delivery: Delivery,
    entry: Arc<JournalEntry>,
    origin: Arc<Origin>,
    /// Tokens of a whole delivery so far.
    kept: Vec<StepToken>,
}

impl EngineTask {
    pub(crate) fn new(
        engine: Arc<Engine>,
        config: SimConfig,
        model: Arc<Model>,
        publisher: Option<Publisher>,
    ) -> Self {
        Self {
            engine,
            simulation: Simulation::new(config, model),
            live: BTreeMap::new(),
            publisher,
            started: Instant::now(),
            commands: Vec::new(),
            pausing: Vec::new(),
            dead: false,
            stepping: false,
            ended: None,
        }
    }

    /// Runs until `end`. Requests alive then lose their channel, which their calls read as a dead engine.
    pub(crate) async fn run(mut self, end: CancellationToken) {
        let mut step = Step::default();
        while !end.is_cancelled() {
            self.obey(&mut step);
            let now = self.now();
            match self.simulation.next_due(now) {
                None => self.wait(None, &end).await,
                Some(due) if due > now => self.wait(Some(due), &end).await,
                Some(_) => {
                    self.simulation.step(now, &mut step);
                    self.publish_stats();
                    self.mark_started(&step);
                    let batch = self.encode_events(&mut step);
                    if !step.length.is_zero() {
                        self.pass(now + step.length, &end).await;
                    }
                    // Before the output, as in vLLM: whoever has read a token may count on its event being sent.
                    if let (Some(batch), Some(publisher)) = (batch, &mut self.publisher) {
                        publisher.publish(batch);
                    }
                    self.deliver(&step);
                    self.finish_pauses();
                    if step.length.is_zero() {
                        // Calls run on the same threads: let them send what there is.
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    }

    /// When the next step begins: where the last one ended, so that timers which fire late do not add up.
    fn now(&mut self) -> Duration {
        let real = self.started.elapsed();
        self.ended.take().filter(|ended| real.saturating_sub(*ended) < LATENESS_MAX).unwrap_or(real)
    }

    /// Lets the time of a step pass; commands are obeyed meanwhile.
    async fn pass(&mut self, done: Duration, end: &CancellationToken) {
        let mut other = Step::default();
        self.stepping = true;
        while self.started.elapsed() < done && !end.is_cancelled() {
            self.wait(Some(done), end).await;
            self.obey(&mut other);
        }
        self.stepping = false;
        self.ended = Some(done);
    }

    /// Waits for a command, for a time, or for the end.
    async fn wait(&self, until: Option<Duration>, end: &CancellationToken) {
        let timer = async {
            match until {
                Some(until) => tokio::time::sleep_until(self.started + until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.engine.wake.notified() => {}
            () = timer => {}
            () = end.cancelled() => {}
        }
    }

    /// Carries out every command in the inbox.
    fn obey(&mut self, step: &mut Step) {
        let mut commands = std::mem::take(&mut self.commands);
        self.engine.take_commands(&mut commands);
        if commands.is_empty() {
            self.commands = commands;
            return;
        }
        for command in commands.drain(..) {
            match command {
                Command::Submit(submission) => self.submit(*submission),
                Command::Abort { id, cause, answer } => self.abort(id, cause, answer),
                Command::Pause { mode, clear_cache, done } => self.pause(mode, clear_cache, done, step),
                Command::Resume { done } => {
                    self.simulation.resume();
                    self.pausing.clear();
                    // The caller may be gone; there is nobody else to tell.
                    let _ = done.send(());
                }
                Command::ResetCache { running, done } => {
                    if running {
                        self.simulation.preempt_and_reset();
                    }
                    let _ = done.send(running || self.simulation.reset_prefix_cache());
                }
                Command::Die => self.die(),
            }
        }
        self.commands = commands;
        self.finish_pauses();
        self.publish_stats();
    }

    fn submit(&mut self, submission: Submission) {
        let Submission { request, origin, delivery, entry, output } = submission;
        let id = request.id;
        let mut live = Live { output, delivery, entry, origin, kept: Vec::new() };
        if self.dead {
            return live.end(End::Dead, RequestState::Aborted(AbortCause::Engine));
        }
        if let Err(error) = self.simulation.submit(request) {
            debug!(%error, "the simulation refused a request");
            return live.end(End::Refused, RequestState::Aborted(AbortCause::Engine));
        }
        self.live.insert(id, live);
    }

    fn abort(&mut self, id: RequestId, cause: AbortCause, answer: bool) {
        self.simulation.abort(id);
        let Some(mut live) = self.live.remove(&id) else { return };
        self.engine.finished.abort.fetch_add(1, Ordering::Relaxed);
        let state = RequestState::Aborted(cause);
        if answer { live.end(End::Finished(Finish::Aborted), state) } else { live.entry.ended(state) }
    }

    fn pause(&mut self, mode: PauseMode, clear_cache: bool, done: oneshot::Sender<()>, step: &mut Step) {
        self.simulation.pause(mode, step);
        for output in &step.outputs {
            if let Some(mut live) = self.live.remove(&output.request) {
                self.engine.finished.abort.fetch_add(1, Ordering::Relaxed);
                let end = End::Finished(Finish::Aborted);
                live.end(end, RequestState::Aborted(AbortCause::Pause));
            }
        }
        self.pausing.push(Pausing { mode, clear_cache, done });
    }

    /// Completes pauses between two steps; one that waits, once nothing runs. As in vLLM, what runs loses its blocks when
    /// the caches are cleared, and is computed again later.
    fn finish_pauses(&mut self) {
        if self.stepping {
            return;
        }
        let drained = self.simulation.drained();
        let complete = |pausing: &mut Pausing| pausing.mode != PauseMode::Wait || drained;
        for Pausing { clear_cache, done, .. } in self.pausing.extract_if(.., complete) {
            if clear_cache {
                self.simulation.preempt_and_reset();
            }
            let _ = done.send(());
        }
    }

    fn die(&mut self) {
        self.dead = true;
        for (id, mut live) in std::mem::take(&mut self.live) {
            self.simulation.abort(id);
            self.engine.finished.error.fetch_add(1, Ordering::Relaxed);
            live.end(End::Dead, RequestState::Aborted(AbortCause::Engine));
        }
    }

    /// Takes what a step did to the prefix cache. Its requests are alive until its output is delivered.
    fn encode_events(&mut self, step: &mut Step) -> Option<Batch> {
        let origin = |id| self.live.get(&id).map(|live| Arc::clone(&live.origin)).unwrap_or_default();
        self.publisher.as_mut()?.encode(&mut step.events, origin)
    }

    fn mark_started(&self, step: &Step) {
        for started in &step.started {
            if let Some(live) = self.live.get(&started.request) {
                live.entry.started(started.cached_tokens);
            }
        }
    }

    fn deliver(&mut self, step: &Step) {
        for output in &step.outputs {
            let tokens = step.tokens_of(output);
            let Some(live) = self.live.get_mut(&output.request) else { continue };
            live.entry.generated(tokens.len() as u32);
            match output.finish {
                None => live.add(tokens),
                Some(finish) => {
                    let mut live = self.live.remove(&output.request).expect("it was found above");
                    self.count(finish);
                    live.finish(tokens, finish);
                }
            }
        }
    }

    fn count(&self, finish: Finish) {
        let counter = match finish {
            Finish::Stop(_) => &self.engine.finished.stop,
            Finish::Length => &self.engine.finished.length,
            Finish::Aborted => &self.engine.finished.abort,
            Finish::Error => &self.engine.finished.error,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn publish_stats(&self) {
        *self.engine.stats.lock().unwrap_or_else(PoisonError::into_inner) = self.simulation.stats();
    }
}

impl Drop for EngineTask {
    fn drop(&mut self) {
        self.engine.close();
    }
}

impl Live {
    fn add(&mut self, tokens: &[StepToken]) {
        match self.delivery {
            Delivery::Whole => self.kept.extend_from_slice(tokens),
            Delivery::Deltas => self.send(tokens.to_vec(), None),
        }
    }

    fn finish(&mut self, tokens: &[StepToken], finish: Finish) {
        let state = match finish {
            Finish::Stop(_) | Finish::Length => RequestState::Finished,
            Finish::Aborted | Finish::Error => RequestState::Aborted(AbortCause::Engine),
        };
        self.entry.ended(state);
        let mut all = std::mem::take(&mut self.kept);
        all.extend_from_slice(tokens);
        self.send(all, Some(End::Finished(finish)));
    }

    fn end(&mut self, end: End, state: RequestState) {
        self.entry.ended(state);
        let kept = std::mem::take(&mut self.kept);
        self.send(kept, Some(end));
    }

    /// Never waits: the channel holds one chunk per token and one for the end. A closed one has no reader.
    fn send(&self, tokens: Vec<StepToken>, end: Option<End>) {
        let _ = self.output.try_send(Chunk { tokens, end, cached_tokens: self.entry.cached_tokens() });
    }
}
