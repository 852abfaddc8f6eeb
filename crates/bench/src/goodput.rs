//! Goodput: requests that were served well enough, by limits on their own latencies.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::caller::Call;
use crate::config::ParseError;
use crate::latency::Latencies;
use crate::stats::Stats;
use crate::times::Sample;

/// What a latency of a request may be at most. A request that meets every limit and got a right reply is good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Slo {
    /// Time to the first output.
    #[serde(rename = "ttft_ms", serialize_with = "milliseconds")]
    pub ttft: Option<Duration>,
    /// The longest gap between two events with output.
    #[serde(rename = "itl_ms", serialize_with = "milliseconds")]
    pub itl: Option<Duration>,
    /// Mean time per output token after the first event.
    #[serde(rename = "tpot_ms", serialize_with = "milliseconds")]
    pub tpot: Option<Duration>,
    /// Time to the end of the reply.
    #[serde(rename = "e2e_ms", serialize_with = "milliseconds")]
    pub e2e: Option<Duration>,
}

/// How many requests met their limits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Goodput {
    /// The limits.
    pub slo: Slo,
    /// Requests that met all of them with a right reply.
    pub good: u64,
    /// The same as a share of all requests, from 0 to 1; failed and shed ones count as not good.
    pub share: f64,
    /// Good requests per second of the run.
    pub requests_per_s: f64,
}

impl Goodput {
    /// None without limits.
    pub(crate) fn of(stats: &Stats, slo: Slo, elapsed_s: f64) -> Option<Self> {
        let all = stats.succeeded + stats.failed + stats.shed;
        (!slo.is_empty()).then(|| Self {
            slo,
            good: stats.good,
            share: if all > 0 { stats.good as f64 / all as f64 } else { 0.0 },
            requests_per_s: if elapsed_s > 0.0 { stats.good as f64 / elapsed_s } else { 0.0 },
        })
    }
}

/// What is wanted in a list of limits.
const WANTED: &str = "a list of limits such as `ttft:500ms itl:50ms tpot:30ms e2e:2s`, each at most once";

impl Slo {
    /// True when nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True when it limits what only a stream shows.
    pub(crate) fn needs_stream(&self) -> bool {
        self.ttft.or(self.itl).or(self.tpot).is_some()
    }

    /// A time that a request does not have, as the gap of a stream of one event, is within any limit.
    pub(crate) fn is_met(&self, latencies: &Latencies, call: &Call) -> bool {
        let Self { ttft, itl, tpot, e2e } = *self;
        let within = |limit: Option<Duration>, time: Option<Duration>| match (limit, time) {
            (Some(limit), Some(time)) => time <= limit,
            (None, _) | (_, None) => true,
        };
        let known = |sample: Option<Sample>| match sample {
            Some(Sample::Known(time) | Sample::AtLeast(time)) => Some(time),
            None => None,
        };
        call.result.is_ok()
            && within(ttft, known(latencies.ttft))
            && within(itl, latencies.gap_max)
            && within(tpot, known(latencies.tpot))
            && within(e2e, known(Some(latencies.e2e)))
    }

    /// The limits that are set, by name.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        let Self { ttft, itl, tpot, e2e } = *self;
        let limits = [("ttft", ttft), ("itl", itl), ("tpot", tpot), ("e2e", e2e)];
        limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)))
    }
}

impl FromStr for Slo {
    type Err = ParseError;

    /// Limits separated by blanks or commas. A number without a unit is in milliseconds, as in other load generators.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError { given: text.to_owned(), wanted: WANTED };
        let mut slo = Self::default();
        for limit in text.split([' ', ',']).filter(|limit| !limit.is_empty()) {
            let (name, time) = limit.split_once(':').ok_or_else(wrong)?;
            let field = match name {
                "ttft" => &mut slo.ttft,
                "itl" => &mut slo.itl,
                "tpot" => &mut slo.tpot,
                "e2e" | "e2el" => &mut slo.e2e,
                _ => return Err(wrong()),
            };
            if field.replace(time_of(time).ok_or_else(wrong)?).is_some() {
                return Err(wrong());
            }
        }
        if slo.is_empty() { Err(wrong()) } else { Ok(slo) }
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, limit) in self.limits() {
            write!(f, "{separator}{name} {} ms", limit.as_secs_f64() * 1e3)?;
            separator = ", ";
        }
        Ok(())
    }
}

/// `500`, `500ms`, `0.5s`, `1m`; more than zero.
fn time_of(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_ms = match &text[digits.len()..] {
        "" | "ms" => 1.0,
        "s" => 1e3,
        "m" => 6e4,
        _ => return None,
    };
    let ms = digits.parse::<f64>().ok()? * unit_ms;
    Duration::try_from_secs_f64(ms / 1e3).ok().filter(|time| !time.is_zero())
}

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn milliseconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64() * 1e3).serialize(serializer)
}

#[cfg(test)]
mod tests;
