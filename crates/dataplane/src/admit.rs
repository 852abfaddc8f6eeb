//! The door: a bounded number of continuations in flight, and a bounded queue with a deadline in front of it. Knows
//! nothing of workers or formats.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tito_engine::{Engine, TokenStream};
use tito_types::{EngineError, GenerateRequest};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// How much is let in.
#[derive(Debug, Clone)]
pub struct AdmitConfig {
    /// Continuations in flight (a request counts `n`).
    pub in_flight_max: u32,
    /// Requests waiting for a place; one more is refused.
    pub queue_requests_max: usize,
    /// Longest wait in the queue.
    pub queue_timeout: Duration,
}

/// Sheds or queues before any work is done: a bounded number in flight, a bounded first-come queue with a deadline.
pub struct Admit<E> {
    engine: E,
    config: AdmitConfig,
    places: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    draining: CancellationToken,
    metrics: AdmitMetrics,
}

impl<E: Engine> Admit<E> {
    /// Once `draining` is cancelled, those who wait are sent away and nobody is let in.
    pub fn new(engine: E, config: AdmitConfig, draining: CancellationToken, metrics: AdmitMetrics) -> Self {
        let places = Arc::new(Semaphore::new(config.in_flight_max as usize));
        Self { engine, config, places, waiting: Arc::default(), draining, metrics }
    }

    async fn admit(&self, n: u32) -> Result<OwnedSemaphorePermit, Shed> {
        if self.draining.is_cancelled() {
            return Err(Shed::Draining);
        }
        // Nobody overtakes the queue: a request that wants many places would otherwise never get them.
        if self.waiting.load(Ordering::Relaxed) == 0
            && let Ok(places) = Arc::clone(&self.places).try_acquire_many_owned(n)
        {
            return Ok(places);
        }
        let _place_in_queue =
            Waiting::begin(&self.waiting, &self.metrics.queued_requests, self.config.queue_requests_max)
                .ok_or(Shed::QueueFull)?;
        let queued = Instant::now();
        let turn = timeout(self.config.queue_timeout, Arc::clone(&self.places).acquire_many_owned(n));
        let admitted = tokio::select! {
            biased;
            () = self.draining.cancelled() => Err(Shed::Draining),
            turn = turn => match turn {
                Ok(Ok(places)) => Ok(places),
                Ok(Err(_)) => Err(Shed::Draining), // nobody closes the places, but if they did
                Err(_) => Err(Shed::QueueTimeout),
            },
        };
        self.metrics.queue_wait_seconds.observe(queued.elapsed().as_secs_f64());
        admitted
    }

    fn refusal(&self, shed: Shed) -> EngineError {
        self.metrics.shed.get_or_create(&ShedLabels { reason: shed }).inc();
        let AdmitConfig { queue_requests_max, queue_timeout, .. } = self.config;
        match shed {
            Shed::Draining => EngineError::Draining,
            Shed::QueueFull => {
                EngineError::Overloaded(format!("{queue_requests_max} requests are waiting already"))
            }
            Shed::QueueTimeout => EngineError::Overloaded(format!("no place within {queue_timeout:?}")),
        }
    }
}

impl<E: Engine> Engine for Admit<E> {
    async fn generate(&self, request: GenerateRequest) -> Result<TokenStream, EngineError> {
        let (n, max) = (request.n, self.config.in_flight_max);
        if n > max {
            let message = format!("must be at most {max}, what this server keeps in flight");
            return Err(EngineError::Invalid { param: "n".to_owned(), message });
        }
        let places = self.admit(n).await.map_err(|shed| self.refusal(shed))?;
        let counted = Counted::begin(&self.metrics.in_flight, n);
        Ok(self.engine.generate(request).await?.hold((places, counted)))
    }
}

/// Why a request was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Shed {
    Draining,
    QueueFull,
    QueueTimeout,
}

impl EncodeLabelValue for Shed {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        let word = match self {
            Self::Draining => "draining",
            Self::QueueFull => "queue_full",
            Self::QueueTimeout => "queue_timeout",
        };
        word.encode(encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShedLabels {
    reason: Shed,
}

/// What admission counts.
#[derive(Debug, Clone)]
pub struct AdmitMetrics {
    in_flight: Gauge,
    queued_requests: Gauge,
    queue_wait_seconds: Histogram,
    shed: Family<ShedLabels, Counter>,
}

impl AdmitMetrics {
    /// The caller passes the registry for `admission_…`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            in_flight: Gauge::default(),
            queued_requests: Gauge::default(),
            queue_wait_seconds: Histogram::new(exponential_buckets(0.001, 4.0, 9)),
            shed: Family::default(),
        };
        registry.register(
            "in_flight",
            "Continuations sent to engines and not ended",
            metrics.in_flight.clone(),
        );
        registry.register(
            "queued_requests",
            "Requests waiting to be admitted",
            metrics.queued_requests.clone(),
        );
        let wait = metrics.queue_wait_seconds.clone();
        registry.register("queue_wait_seconds", "Time spent in the queue by requests that had to wait", wait);
        registry.register("shed", "Requests turned away, by reason", metrics.shed.clone());
        metrics
    }
}

/// A place in the queue; left by dropping it.
struct Waiting {
    count: Arc<AtomicUsize>,
    gauge: Gauge,
}

impl Waiting {
    fn begin(count: &Arc<AtomicUsize>, gauge: &Gauge, max: usize) -> Option<Self> {
        let free = |waiting| (waiting < max).then_some(waiting + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
        gauge.inc();
        Some(Self { count: Arc::clone(count), gauge: gauge.clone() })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.gauge.dec();
    }
}

/// Continuations in flight, as the gauge shows them.
struct Counted {
    gauge: Gauge,
    n: i64,
}

impl Counted {
    fn begin(gauge: &Gauge, n: u32) -> Self {
        let n = i64::from(n);
        gauge.inc_by(n);
        Self { gauge: gauge.clone(), n }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gauge.dec_by(self.n);
    }
}

#[cfg(test)]
pub(crate) mod tests;
