//! Whether the generator itself was late, so that its times are not the server's. Pure.

use std::time::Duration;

use crate::percentiles::Percentiles;
use crate::report::GeneratorUse;

/// Share of one core from which the generator's only thread is the bottleneck.
const CORES_BUSY_MAX: f64 = 0.9;
/// CPU time is counted in ticks: over a shorter run, a share of a core means nothing.
const JUDGED_FROM: Duration = Duration::from_secs(1);

/// What a run shows of its generator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signs {
    pub(crate) elapsed: Duration,
    /// Largest 99th percentile of each lag.
    pub(crate) lag_max: Duration,
    /// Open loop only.
    pub(crate) send_lag: Option<Percentiles>,
    pub(crate) read_lag: Option<Percentiles>,
    /// Share of the events that were read together with the one before; streams only.
    pub(crate) coalesced: Option<f64>,
    pub(crate) generator: Option<GeneratorUse>,
}

/// Why the run is invalid, in sentences; empty when the generator kept up.
pub(crate) fn reasons(signs: Signs) -> Vec<String> {
    let Signs { elapsed, lag_max, send_lag, read_lag, coalesced, generator } = signs;
    let lag_max_ms = lag_max.as_secs_f64() * 1e3;
    let beyond = |lag: Option<Percentiles>| lag.map(|lag| lag.p99).filter(|p99| *p99 > lag_max_ms);
    let mut reasons = Vec::new();
    if let Some(p99) = beyond(send_lag) {
        reasons.push(format!(
            "requests were sent late: send lag p99 is {p99:.1} ms, allowed are {lag_max_ms} ms"
        ));
    }
    if let Some(p99) = beyond(read_lag) {
        let together = coalesced.map_or(String::new(), |share| {
            format!(", and {:.1} % of the events were read together with the one before", share * 100.0)
        });
        reasons.push(format!(
            "replies were read late: read lag p99 is {p99:.1} ms, allowed are {lag_max_ms} ms{together}"
        ));
    }
    let busy = generator.map(|generator| generator.cores_busy).filter(|busy| *busy > CORES_BUSY_MAX);
    if let Some(busy) = busy.filter(|_| elapsed >= JUDGED_FROM) {
        reasons.push(format!(
            "the generator's thread was busy {:.0} % of the time, allowed are {:.0} %",
            busy * 100.0,
            CORES_BUSY_MAX * 100.0
        ));
    }
    reasons
}

#[cfg(test)]
mod tests;
