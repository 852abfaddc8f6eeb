//! Whether a server kept up with a rate. Pure.

use serde::Serialize;

use crate::report::Report;

/// Share of the arrivals by which replies may stay behind.
const BEHIND_MAX: f64 = 0.05;
/// Standard deviations of chance that are allowed beyond that: the number in flight moves by about its square root.
const CHANCE: f64 = 3.0;

/// What one rate has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RateVerdict {
    /// The server kept up and met the limits.
    KeptUp,
    /// Replies stayed behind arrivals in the steady window, or there was none.
    FellBehind,
    /// Too few requests met the limits of goodput.
    MissedSlo,
    /// A request failed or was shed, and there are no limits of goodput that would count it.
    Failed,
    /// The generator was late; nothing is known about the server.
    GeneratorLate,
    /// The warm-up failed; nothing was measured.
    WarmupFailed,
    /// No request was due in the time of the step; nothing was measured.
    NoArrivals,
}

impl RateVerdict {
    pub(super) fn of(report: &Report, good_share_min: f64) -> Self {
        let requests = report.requests;
        if requests.warmup_failed > 0 {
            return Self::WarmupFailed;
        }
        if requests.arrivals() == 0 {
            return Self::NoArrivals;
        }
        if !report.late.is_empty() && !report.report.late_allowed {
            return Self::GeneratorLate;
        }
        match report.goodput {
            Some(goodput) if goodput.share < good_share_min => return Self::MissedSlo,
            None if requests.failed + requests.shed > 0 => return Self::Failed,
            Some(_) | None => (),
        }
        if kept_up(report) { Self::KeptUp } else { Self::FellBehind }
    }

    /// Whether the step tells nothing of the server at this rate.
    pub(super) fn measured_nothing(self) -> bool {
        matches!(self, Self::WarmupFailed | Self::NoArrivals)
    }

    /// For a table.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::KeptUp => "kept up",
            Self::FellBehind => "fell behind",
            Self::MissedSlo => "missed the SLO",
            Self::Failed => "requests failed",
            Self::GeneratorLate => "generator late",
            Self::WarmupFailed => "warm-up failed",
            Self::NoArrivals => "no arrivals: a longer --duration is needed",
        }
    }
}

/// In a steady state as many replies end as requests arrive. What is in flight (by Little's law: the arrival rate times
/// the mean E2E latency) moves by chance, so a difference of that size is none.
fn kept_up(report: &Report) -> bool {
    let Some(steady) = &report.steady else { return false };
    let due = steady.due as f64;
    let behind = due - steady.succeeded as f64;
    let rate_per_s = due / (steady.to_s - steady.from_s);
    let in_flight = rate_per_s * steady.e2e_ms.map_or(0.0, |e2e| e2e.mean / 1e3);
    behind <= BEHIND_MAX * due + CHANCE * in_flight.sqrt()
}

#[cfg(test)]
mod tests;
