//! What is written down about one generation request: metrics, the access line, and failures with their inner words.
//!
//! It must not know prompts, outputs or keys: none of them may reach a log.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode};
use prometheus_client::metrics::gauge::Gauge;
use tito_engine::Places;
use tito_formats::{Bound, Usage};
use tito_runtime::{Chain, Stage};
use tito_types::{Delta, EngineError, RequestId};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::app::{App, Endpoint};
use crate::door::Arrival;
use crate::metrics::Delivery;
use crate::placement::{self, X_TITO_ROUTE};
use crate::reply::X_REQUEST_ID;
use crate::status::{ApiError, Code, Door, Failure, rescue};

/// What is written down about one generation request: its metrics and its access line.
///
/// Ends exactly once. Dropped before it was ended, it knows why: the client left, the drain was over, or a bug.
pub(crate) struct Record {
    app: Arc<App>,
    endpoint: Arc<Endpoint>,
    started: Instant,
    id: RequestId,
    model: Option<String>,
    delivery: Delivery,
    /// Where its prompts were sent.
    places: Places,
    /// Whether the client wants to know.
    explain: bool,
    first_token_after: Option<Duration>,
    last_token: Option<Instant>,
    usage: Usage,
    ended: bool,
    _in_flight: InFlight,
}

/// One request in flight; dropping it is the only way to release it.
struct InFlight(Gauge);

impl InFlight {
    fn begin(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Record {
    pub(crate) fn begin(app: &Arc<App>, endpoint: &Arc<Endpoint>, arrival: &Arrival) -> Self {
        Self {
            app: Arc::clone(app),
            endpoint: Arc::clone(endpoint),
            started: arrival.started,
            id: arrival.id.clone(),
            model: None,
            delivery: Delivery::Unary,
            places: Places::default(),
            explain: false,
            first_token_after: None,
            last_token: None,
            usage: Usage::default(),
            ended: false,
            _in_flight: InFlight::begin(&endpoint.metrics.in_flight),
        }
    }

    /// The body was understood: from now on the request has its final id, its model and its delivery.
    pub(crate) fn bound(&mut self, bound: &Bound) {
        self.id = bound.id.clone();
        self.model = bound.requests.first().map(|request| request.model.clone());
        self.delivery = if bound.stream { Delivery::Stream } else { Delivery::Unary };
    }

    /// The request's id, ready for a header.
    pub(crate) fn id_header(&self) -> HeaderValue {
        HeaderValue::from_str(self.id.as_str()).expect("a request id is visible ASCII")
    }

    /// Whether the reply says where the request was sent.
    pub(crate) fn explain(&mut self, explain: bool) {
        self.explain = explain;
    }

    /// The request was sent, or will be: `places` knows where as soon as anyone does.
    pub(crate) fn placed(&mut self, places: &Places) {
        self.places = places.clone();
    }

    /// Where the request was sent, ready for a header, for a client that wants to know.
    pub(crate) fn route_header(&self) -> Option<HeaderValue> {
        self.explain.then(|| placement::header(&self.places)).flatten()
    }

    /// Times one delta.
    pub(crate) fn delta(&mut self, delta: &Delta) {
        let tokens = delta.token_ids.len();
        if tokens == 0 {
            return;
        }
        let now = Instant::now();
        if let Some(last) = self.last_token {
            self.endpoint.metrics.gap(now - last, tokens);
        } else if self.delivery == Delivery::Stream || delta.finish.is_none() {
            let after = now - self.started;
            self.endpoint.metrics.time_to_first_token.observe(after);
            self.first_token_after = Some(after);
        }
        self.last_token = Some(now);
    }

    /// Takes over the exchange's counts; they only grow.
    pub(crate) fn usage(&mut self, usage: Usage) {
        self.usage = usage;
    }

    /// Bytes of the request's body.
    pub(crate) fn received(&self, bytes: usize) {
        self.endpoint.metrics.bytes_received.inc_by(bytes as u64);
    }

    /// Bytes of the reply's body.
    pub(crate) fn sent(&self, bytes: usize) {
        self.endpoint.metrics.bytes_sent.inc_by(bytes as u64);
    }

    /// What the client is told about a failure; what is not for the client is logged here, once.
    pub(crate) fn rescue(&self, failure: &Failure) -> ApiError {
        let told = rescue(failure);
        match failure {
            Failure::Engine(error) => self.note(error, told.code),
            Failure::Door(Door::Bug) => {
                error!(request = %self.id, code = told.code.as_str(), "request failed by a bug");
            }
            Failure::Refused(_) | Failure::Door(_) => {}
        }
        told
    }

    /// Logs the words of an engine, or of a layer around it, that the client is not given.
    fn note(&self, error: &EngineError, code: Code) {
        use EngineError as E;
        let (request, code) = (&self.id, code.as_str());
        match error {
            // The client has these words, and there are none of draining.
            E::Invalid { .. } | E::Refused(_) | E::NotFound(_) | E::TooLarge(_) | E::Draining => {}
            // Our own limits at work: no reason for alarm.
            E::Overloaded(_) => info!(%request, code, error = %Chain(error), "request failed"),
            E::Unsupported(_)
            | E::NoWorker(_)
            | E::Connect(..)
            | E::Lost(..)
            | E::Truncated
            | E::Stalled(_)
            | E::Deadline(_)
            | E::Engine(..)
            | E::Protocol(_) => warn!(%request, code, error = %Chain(error), "request failed"),
        }
    }

    /// Ends the request with a failure that the client can still be told.
    pub(crate) fn refuse(mut self, failure: &Failure) -> Response {
        let told = self.rescue(failure);
        self.end(told.status, Some(told.code));
        let mut response = told.into_response();
        let headers = response.headers_mut();
        headers.insert(X_REQUEST_ID, self.id_header());
        headers.extend(self.route_header().map(|value| (X_TITO_ROUTE, value)));
        response
    }

    /// Ends the request. `code` is absent when nothing failed.
    pub(crate) fn end(&mut self, status: StatusCode, code: Option<Code>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let metrics = &self.endpoint.metrics;
        let place = self.places.only();
        let elapsed = self.started.elapsed();
        self.app.metrics.request_ended(self.endpoint.route, status, code);
        metrics.duration.observe(elapsed);
        metrics.prompt_tokens.inc_by(self.usage.prompt_tokens);
        metrics.cached_tokens.inc_by(self.usage.cached_tokens.unwrap_or(0));
        metrics.output_tokens.inc_by(self.usage.completion_tokens);
        info!(
            target: "access",
            request = self.id.as_str(),
            route = self.endpoint.route.as_str(),
            model = self.model.as_deref(),
            worker = place.as_ref().map(|place| place.worker.as_str()),
            rank = place.as_ref().and_then(|place| place.rank),
            status = status.as_u16(),
            code = code.map(Code::as_str),
            prompt_tokens = self.usage.prompt_tokens,
            cached_tokens = self.usage.cached_tokens,
            output_tokens = self.usage.completion_tokens,
            duration_ms = millis(elapsed),
            ttft_ms = self.first_token_after.map(millis),
            "request"
        );
    }

    /// Ends the request with a failure that nobody can be told any more.
    pub(crate) fn lose(&mut self, door: Door) {
        if door == Door::ClientGone {
            self.app.metrics.disconnected(self.delivery);
        }
        let told = rescue(&Failure::Door(door));
        self.end(told.status, Some(told.code));
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.lose(if thread::panicking() {
            Door::Bug
        } else if self.app.shutdown.stage() == Stage::Forced {
            Door::Forced
        } else {
            Door::ClientGone
        });
    }
}

/// Whole microseconds, so that a log line has three decimals at most.
fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}

#[cfg(test)]
mod tests;
