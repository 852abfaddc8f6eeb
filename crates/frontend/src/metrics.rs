//! Every family of this crate, named `tito_frontend_…`. Labels are enums, so their number is bounded by type.

mod histogram;
mod labels;

pub(crate) use histogram::DurationHistogram;
pub(crate) use labels::{Delivery, Direction, Ended, StatusClass};

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::Route;
use crate::keys::Verdict;
use crate::status::Code;
use labels::{BytesLabels, DeliveryLabels, KeyLabels, KeyReason, ReloadLabels, ReloadResult};
use labels::{RequestLabels, RouteLabels};

/// The families, cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    routes: Routes,
    disconnects: Family<DeliveryLabels, Counter>,
    body_bytes: Family<BytesLabels, Counter>,
    auth_failures: Family<KeyLabels, Counter>,
    key_reloads: ReloadMetrics,
    tls_reloads: ReloadMetrics,
    pub(crate) connections: ConnectionMetrics,
}

/// Families by generation route.
#[derive(Debug, Clone, Default)]
struct Routes {
    in_flight: Family<RouteLabels, Gauge>,
    duration: Family<RouteLabels, DurationHistogram>,
    time_to_first_token: Family<RouteLabels, DurationHistogram>,
    inter_token: Family<RouteLabels, DurationHistogram>,
    prompt_tokens: Family<RouteLabels, Counter>,
    cached_tokens: Family<RouteLabels, Counter>,
    output_tokens: Family<RouteLabels, Counter>,
}

/// The series of one generation route, looked up once.
#[derive(Debug)]
pub(crate) struct RouteMetrics {
    pub(crate) in_flight: Gauge,
    pub(crate) duration: DurationHistogram,
    pub(crate) time_to_first_token: DurationHistogram,
    pub(crate) inter_token: DurationHistogram,
    pub(crate) prompt_tokens: Counter,
    pub(crate) cached_tokens: Counter,
    pub(crate) output_tokens: Counter,
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
}

/// How often one kind of files was read again, by result.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReloadMetrics(Family<ReloadLabels, Counter>);

/// What became of connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionMetrics {
    pub(crate) open: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) accept_errors: Counter,
    pub(crate) handshake_failures: Counter,
    pub(crate) stalled: Counter,
}

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("frontend");
        registry.register(
            "requests",
            "Requests that ended, by the status class sent and the error code, ok where there was none",
            metrics.requests.clone(),
        );
        metrics.routes.register(registry);
        registry.register(
            "disconnects",
            "Requests whose client left before their end",
            metrics.disconnects.clone(),
        );
        registry.register_with_unit(
            "body",
            "Bodies of generation requests and of their replies; a reply that is only an error counts no bytes",
            Unit::Bytes,
            metrics.body_bytes.clone(),
        );
        registry.register(
            "auth_failures",
            "Requests refused for want of a valid key",
            metrics.auth_failures.clone(),
        );
        registry.register(
            "key_reloads",
            "Times the key file was read again, by result",
            metrics.key_reloads.0.clone(),
        );
        registry.register(
            "tls_reloads",
            "Times the TLS files were read again, by result",
            metrics.tls_reloads.0.clone(),
        );
        metrics.connections.register(registry);
        metrics
    }

    /// Counts one request at its end. `code` is absent when nothing failed.
    pub(crate) fn request_ended(&self, route: Route, status: StatusCode, code: Option<Code>) {
        let labels = RequestLabels {
            route,
            status: StatusClass::of(status),
            code: code.map_or(Ended::Ok, Ended::Failed),
        };
        self.requests.get_or_create(&labels).inc();
    }

    pub(crate) fn disconnected(&self, delivery: Delivery) {
        self.disconnects.get_or_create(&DeliveryLabels { delivery }).inc();
    }

    pub(crate) fn key_refused(&self, verdict: Verdict) {
        let reason = match verdict {
            Verdict::Granted(_) => return,
            Verdict::Missing => KeyReason::Missing,
            Verdict::Wrong => KeyReason::Wrong,
        };
        self.auth_failures.get_or_create(&KeyLabels { reason }).inc();
    }

    pub(crate) fn key_reloads(&self) -> ReloadMetrics {
        self.key_reloads.clone()
    }

    pub(crate) fn tls_reloads(&self) -> ReloadMetrics {
        self.tls_reloads.clone()
    }

    /// The series of one generation route.
    pub(crate) fn route(&self, route: Route) -> Arc<RouteMetrics> {
        let labels = RouteLabels { route };
        let bytes = |direction| self.body_bytes.get_or_create_owned(&BytesLabels { route, direction });
        Arc::new(RouteMetrics {
            in_flight: self.routes.in_flight.get_or_create_owned(&labels),
            duration: self.routes.duration.get_or_create_owned(&labels),
            time_to_first_token: self.routes.time_to_first_token.get_or_create_owned(&labels),
            inter_token: self.routes.inter_token.get_or_create_owned(&labels),
            prompt_tokens: self.routes.prompt_tokens.get_or_create_owned(&labels),
            cached_tokens: self.routes.cached_tokens.get_or_create_owned(&labels),
            output_tokens: self.routes.output_tokens.get_or_create_owned(&labels),
            bytes_received: bytes(Direction::Received),
            bytes_sent: bytes(Direction::Sent),
        })
    }
}

impl Routes {
    fn register(&self, registry: &mut Registry) {
        registry.register("requests_in_flight", "Generation requests not yet ended", self.in_flight.clone());
        registry.register_with_unit(
            "request_duration",
            "From the end of a request's headers to the end of its reply",
            Unit::Seconds,
            self.duration.clone(),
        );
        registry.register_with_unit(
            "time_to_first_token",
            "From the end of a request's headers to its first output token; replies that come as a whole have none",
            Unit::Seconds,
            self.time_to_first_token.clone(),
        );
        registry.register_with_unit(
            "inter_token",
            "Time between deltas that carry tokens, divided by the tokens of the later one",
            Unit::Seconds,
            self.inter_token.clone(),
        );
        registry.register("prompt_tokens", "Prompt tokens, each prompt once", self.prompt_tokens.clone());
        registry.register(
            "cached_tokens",
            "Prompt tokens that engines found in their prefix cache",
            self.cached_tokens.clone(),
        );
        registry.register("output_tokens", "Output tokens over all choices", self.output_tokens.clone());
    }
}

impl ConnectionMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register("connections_open", "Connections held now", self.open.clone());
        registry.register("connections_accepted", "Connections accepted", self.accepted.clone());
        registry.register(
            "accept_errors",
            "Connections the operating system could not hand over",
            self.accept_errors.clone(),
        );
        registry.register(
            "handshake_failures",
            "TLS handshakes that failed or took too long",
            self.handshake_failures.clone(),
        );
        registry.register(
            "stalled_clients",
            "Connections closed and streams reset because the client stopped reading",
            self.stalled.clone(),
        );
    }
}

impl ReloadMetrics {
    pub(crate) fn reloaded(&self) {
        self.0.get_or_create(&ReloadLabels { result: ReloadResult::Ok }).inc();
    }

    pub(crate) fn failed(&self) {
        self.0.get_or_create(&ReloadLabels { result: ReloadResult::Failed }).inc();
    }
}

impl RouteMetrics {
    /// One gap between deltas, spread over the tokens that ended it.
    pub(crate) fn gap(&self, gap: Duration, tokens: usize) {
        self.inter_token.observe(gap / u32::try_from(tokens.max(1)).unwrap_or(u32::MAX));
    }
}

#[cfg(test)]
mod tests;
