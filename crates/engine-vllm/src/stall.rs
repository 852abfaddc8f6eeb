//! Telling an engine that has stalled from one that is paused.
//!
//! A request fails when nothing came for the stall timeout. Time until the engine was last seen paused does not count:
//! a pause holds requests for as long as a weight update takes.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tito_types::{EngineError, WorkerId};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tonic::transport::Channel;
use vllm_proto::IsPausedRequest;
use vllm_proto::control_client::ControlClient;

/// How often per stall timeout a silent request asks whether the engine is paused: a pause that is shorter than the
/// time between two questions may count as silence.
const LOOKS: u32 = 4;
/// How long the question may take.
const PAUSED_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer serves every request of this engine, in milliseconds: thousands fall silent together.
const PAUSED_FRESH_MS: u64 = 1000;

/// Whether one engine is paused, asked at most once a second however many requests want to know.
pub(crate) struct PauseProbe {
    control: ControlClient<Channel>,
    began: Instant,
    /// Milliseconds after `began` when the last question was put; 0 before the first.
    asked_ms: AtomicU64,
    paused: AtomicBool,
}

impl PauseProbe {
    pub(crate) fn new(control: ControlClient<Channel>) -> Self {
        Self { control, began: Instant::now(), asked_ms: AtomicU64::new(0), paused: AtomicBool::new(false) }
    }

    /// An engine that does not answer counts as not paused. A request that comes while the question is out gets the
    /// answer before it.
    async fn paused(&self) -> bool {
        let now = self.began.elapsed().as_millis() as u64;
        let asked = self.asked_ms.load(Ordering::Acquire);
        let fresh = asked > 0 && now.saturating_sub(asked) < PAUSED_FRESH_MS;
        let claimed =
            || self.asked_ms.compare_exchange(asked, now.max(1), Ordering::AcqRel, Ordering::Acquire);
        if fresh || claimed().is_err() {
            return self.paused.load(Ordering::Acquire);
        }
        let mut control = self.control.clone();
        let answer = timeout(PAUSED_TIMEOUT, control.is_paused(IsPausedRequest {})).await;
        let paused = matches!(answer, Ok(Ok(reply)) if reply.get_ref().paused);
        self.paused.store(paused, Ordering::Release);
        paused
    }
}

/// The silence of one request.
pub(crate) struct Silence {
    worker: WorkerId,
    probe: Arc<PauseProbe>,
    limit: Option<Duration>,
    /// When something last came, or the engine was last seen paused.
    since: Instant,
    /// Moved when it fires, not at every token.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    /// Silence begins now; without a limit it may last for ever.
    pub(crate) fn begin(worker: WorkerId, probe: Arc<PauseProbe>, limit: Option<Duration>) -> Self {
        Self { worker, probe, limit, since: Instant::now(), timer: None }
    }

    /// Waits for `progress`, which ends the silence, or for the silence to have lasted too long.
    pub(crate) async fn until<T>(&mut self, progress: impl Future<Output = T>) -> Result<T, EngineError> {
        let Some(limit) = self.limit else { return Ok(progress.await) };
        let pause = limit / LOOKS;
        let mut progress = pin!(progress);
        loop {
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(pause)));
            tokio::select! {
                biased;
                done = progress.as_mut() => return Ok(self.ended(done)),
                () = timer.as_mut() => {}
            }
            let mut next_look = self.since + pause;
            if next_look <= Instant::now() {
                let paused = tokio::select! {
                    biased;
                    done = progress.as_mut() => return Ok(self.ended(done)),
                    paused = self.probe.paused() => paused,
                };
                if paused {
                    self.since = Instant::now();
                }
                if self.since.elapsed() >= limit {
                    return Err(EngineError::Stalled(self.worker.clone()));
                }
                next_look = Instant::now() + pause;
            }
            if let Some(timer) = &mut self.timer {
                timer.as_mut().reset(next_look);
            }
        }
    }

    fn ended<T>(&mut self, done: T) -> T {
        self.since = Instant::now();
        done
    }
}
