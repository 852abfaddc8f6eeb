//! What became of the requests, one by one and in sum.

use std::time::Duration;

use super::{Drive, Record};
use crate::bounds::placed;
use crate::report::quantiles;
use crate::{Arrivals, Balance, BestHitRates, PolicyReport, Spread};

/// What became of one request. Times are virtual, since the first arrival.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Served {
    /// When it arrived.
    pub arrived: Duration,
    /// Prompt tokens that its worker found in its cache.
    pub cached_tokens: u32,
    /// When its first token came; absent where no worker could take it.
    pub first_token: Option<Duration>,
    /// When its last token came.
    pub ended: Option<Duration>,
}

impl Drive<'_> {
    /// Every request, in the order of the trace.
    pub(crate) fn served(&self) -> Vec<Served> {
        let served = |record: &Record| Served {
            arrived: record.arrived,
            cached_tokens: record.cached_tokens,
            first_token: record.first_token,
            ended: record.ended,
        };
        self.records.iter().map(served).collect()
    }

    /// All of them, at the end. `one_cache` is the best hit rate of any policy, where there is one.
    pub(crate) fn report(self, one_cache: Option<f64>) -> PolicyReport {
        let Self { trace, prompts, config, .. } = self;
        let since = |time: fn(&Record) -> Option<Duration>| -> Vec<f64> {
            let waited = |record| Some(time(record)?.saturating_sub(record.arrived).as_secs_f64());
            self.records.iter().filter_map(waited).collect()
        };
        let ended = || trace.iter().zip(&self.records).filter(|(_, record)| record.ended.is_some());
        let completed = ended().count() as u64;
        let prompt_tokens: u64 = ended().map(|(request, _)| u64::from(request.input_length)).sum();
        let share = |tokens: fn(&Record) -> u32| {
            let tokens: u64 = ended().map(|(_, record)| u64::from(tokens(record))).sum();
            (prompt_tokens > 0).then(|| tokens as f64 / prompt_tokens as f64)
        };
        let places: Vec<Option<u32>> = self.records.iter().map(|record| record.worker).collect();
        let bounded = config.arrivals == Arrivals::Recorded;
        let fleet = || placed(trace, prompts, &places, config.workers, config.engine.block_tokens);
        let mut first_tokens = since(|record| record.first_token);
        let requests: Vec<u64> = self.workers.iter().map(|worker| worker.requests).collect();
        let prefill_tokens = self.workers.iter().map(|worker| worker.prefill_tokens).collect();
        PolicyReport {
            policy: self.policy.word(),
            completed,
            rejected: trace.len() as u64 - completed,
            hit_rate: share(|record| record.cached_tokens),
            known_hit_rate: share(|record| record.known_tokens),
            best: BestHitRates { one_cache, fleet: bounded.then(fleet).flatten() },
            wait: Spread::of(&mut since(|record| record.started)),
            queued: self.queued,
            ttft: Spread::of(&mut first_tokens),
            ttft_quantiles: quantiles(&mut first_tokens),
            e2e: Spread::of(&mut since(|record| record.ended)),
            balance: Balance::of(prefill_tokens, &requests),
            preemptions: self.workers.iter().map(|worker| worker.simulation.stats().preemptions).sum(),
            lost_batches: self.lost_batches,
            seconds: self.records.iter().filter_map(|record| record.ended).max().map(|end| end.as_secs_f64()),
        }
    }
}
