use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

/// What a request asked for, as a metric label and a log field: bounded, whatever clients send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Route {
    /// vLLM's token-in, token-out generate.
    Generate,
    /// OpenAI completions.
    Completions,
    /// The list of models.
    Models,
    /// One model.
    Model,
    /// Liveness.
    Live,
    /// Readiness.
    Ready,
    /// Metrics.
    Metrics,
    /// The description of the interface.
    OpenApi,
    /// The release.
    Version,
    /// The workers.
    Workers,
    /// Where a request would go.
    DebugRoute,
    /// The order to drop prefix caches.
    ResetPrefixCache,
    /// Anything else.
    Unknown,
}

/// Every built-in path; [`Route::DebugRoute`] takes POST, the others GET. What the formats add is in [`FormatRoute`](crate::FormatRoute).
pub(crate) const BUILT_IN: [(&str, Route); 14] = [
    ("/v1/models", Route::Models),
    ("/v1/models/{*id}", Route::Model),
    ("/live", Route::Live),
    ("/healthz", Route::Live),
    ("/liveness", Route::Live),
    ("/ready", Route::Ready),
    ("/readyz", Route::Ready),
    ("/readiness", Route::Ready),
    ("/health", Route::Ready),
    ("/metrics", Route::Metrics),
    ("/openapi.json", Route::OpenApi),
    ("/version", Route::Version),
    ("/workers", Route::Workers),
    ("/debug/route", Route::DebugRoute),
];

/// Every path where orders are taken; [`Route::ResetPrefixCache`] takes POST, the other GET. It has two paths: vLLM's,
/// which trainers know, and one that no engine has, so that a command sent to the wrong port does nothing.
pub(crate) const CONTROL: [(&str, Route); 3] = [
    ("/reset_prefix_cache", Route::ResetPrefixCache),
    ("/workers/reset", Route::ResetPrefixCache),
    ("/workers", Route::Workers),
];

impl Route {
    /// The route of a request's path where orders are taken.
    pub(crate) fn control(path: &str) -> Self {
        CONTROL.iter().find(|(known, _)| *known == path).map_or(Self::Unknown, |(_, route)| *route)
    }

    /// The built-in route of a request's path.
    pub(crate) fn built_in(path: &str) -> Self {
        let exact = BUILT_IN.iter().find(|(known, _)| *known == path).map(|(_, route)| *route);
        exact.unwrap_or_else(|| match path.strip_prefix("/v1/models/") {
            Some(id) if !id.is_empty() => Self::Model,
            _ => Self::Unknown,
        })
    }

    /// The label value.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Generate => "generate",
            Self::Completions => "completions",
            Self::Models => "models",
            Self::Model => "model",
            Self::Live => "live",
            Self::Ready => "ready",
            Self::Metrics => "metrics",
            Self::OpenApi => "openapi",
            Self::Version => "version",
            Self::Workers => "workers",
            Self::DebugRoute => "debug_route",
            Self::ResetPrefixCache => "reset_prefix_cache",
            Self::Unknown => "unknown",
        }
    }
}

impl EncodeLabelValue for Route {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        self.as_str().encode(encoder)
    }
}
