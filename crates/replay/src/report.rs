//! What a replay found. Plain numbers, ready to print.

use serde::Serialize;

use crate::prompts::Prompts;

/// A trace under several policies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Simulated workers.
    pub workers: u32,
    /// Requests of the trace.
    pub requests: u64,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Tokens they generate.
    pub output_tokens: u64,
    /// From the first arrival to the last, as recorded, at the speed of the replay.
    pub seconds: f64,
    /// How far the trace says what was answered.
    pub turns: TurnShares,
    /// Share of prompt tokens that one cache which never forgets finds: the most that is possible when requests arrive as
    /// recorded. None when they do not, and where no request fits an engine.
    pub one_cache_hit_rate: Option<f64>,
    /// One entry per policy.
    pub policies: Vec<PolicyReport>,
}

/// Shares of the requests, by what is known of the turn before and after.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TurnShares {
    /// The next turn of another request.
    pub next: f64,
    /// The output has a name that later prompts can have: the trace's own, or by the turn that extends it.
    pub named: f64,
    /// Another turn could have been the one before, or has the one before for its own: which is the trace does not say.
    pub ambiguous: f64,
}

/// A trace under one policy. Times are seconds of virtual time. What only served requests have is none when no request
/// was served.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyReport {
    /// The policy's name.
    pub policy: &'static str,
    /// Requests that ended with all their tokens.
    pub completed: u64,
    /// Requests no engine could take: prompt and output are longer than its KV room.
    pub rejected: u64,
    /// Share of the served requests' prompt tokens that the engines found in their caches.
    pub hit_rate: Option<f64>,
    /// Share of the served requests' prompt tokens that the index knew at the moment of the choice.
    pub known_hit_rate: Option<f64>,
    /// What caches that never forget would have found.
    pub best: BestHitRates,
    /// From arrival until the engine started on the request, in the router and in the engine.
    pub wait: Option<Spread>,
    /// Requests that waited in the router, because every worker was at its limit.
    pub queued: u64,
    /// From arrival to the first token.
    pub ttft: Option<Spread>,
    /// TTFT at 0 %, 1 % … 100 % of the served requests, by nearest rank; empty when there are none.
    pub ttft_quantiles: Vec<f64>,
    /// From arrival to the last token.
    pub e2e: Option<Spread>,
    /// How evenly work was spread.
    pub balance: Balance,
    /// Sequences that lost their blocks and were computed again.
    pub preemptions: u64,
    /// Steps whose block events were lost on the way to the index.
    pub lost_batches: u64,
    /// From the first arrival to the last token.
    pub seconds: Option<f64>,
}

/// Hit rates that could not have been beaten when requests arrive as recorded; none when they do not.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BestHitRates {
    /// With one cache for all workers, whatever the placement.
    pub one_cache: Option<f64>,
    /// With a cache of its own on every worker, under this policy's placement.
    pub fleet: Option<f64>,
}

/// How a number is distributed. Percentiles are by nearest rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// Greatest.
    pub max: f64,
}

/// The busiest worker against the mean of all; 1 is even. None when no request was served.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Balance {
    /// By prompt tokens computed.
    pub prefill: Option<f64>,
    /// By requests.
    pub requests: Option<f64>,
    /// Prompt tokens computed by each worker.
    pub prefill_tokens: Vec<u64>,
}

impl TurnShares {
    pub(crate) fn of(prompts: &Prompts) -> Self {
        let share = |count: usize| count as f64 / prompts.order.len().max(1) as f64;
        Self {
            next: share(prompts.turns.previous.iter().flatten().count()),
            named: share(prompts.named as usize),
            ambiguous: share(prompts.turns.ambiguous.iter().filter(|ambiguous| **ambiguous).count()),
        }
    }
}

impl Spread {
    /// Of numbers in any order, which are sorted.
    pub(crate) fn of(values: &mut [f64]) -> Option<Self> {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let quantiles = quantiles(values);
        let at = |percent: usize| quantiles.get(percent).copied();
        Some(Self { mean, p50: at(50)?, p90: at(90)?, p99: at(99)?, max: at(100)? })
    }
}

/// The values at 0 %, 1 % … 100 % of numbers in any order, which are sorted; empty when there are none. By nearest rank: the
/// least value that at least so many of all do not exceed.
pub(crate) fn quantiles(values: &mut [f64]) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    let rank = |percent: usize| (values.len() * percent).div_ceil(100).max(1);
    (0..=100).filter_map(|percent| values.get(rank(percent) - 1).copied()).collect()
}

impl Balance {
    pub(crate) fn of(prefill_tokens: Vec<u64>, requests: &[u64]) -> Self {
        Self { prefill: imbalance(&prefill_tokens), requests: imbalance(requests), prefill_tokens }
    }
}

fn imbalance(parts: &[u64]) -> Option<f64> {
    let most = parts.iter().copied().max()?;
    let mean = parts.iter().sum::<u64>() as f64 / parts.len() as f64;
    (most > 0).then(|| most as f64 / mean)
}

#[cfg(test)]
mod tests;
