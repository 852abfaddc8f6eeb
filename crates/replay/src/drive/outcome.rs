//! What became of the requests, one by one and in sum.

use std::time::Duration;

use super::{Drive, Record};
use crate::bounds::placed;
use crate::{Balance, BestHitRates, PolicyReport, Spread};

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

    /// All of them, at the end. `one_cache` is the best hit rate of any policy.
    pub(crate) fn report(self, end: Duration, one_cache: f64) -> PolicyReport {
        let Self { trace, prompts, config, .. } = self;
        let since = |time: fn(&Record) -> Option<Duration>| -> Vec<f64> {
            let waited = |record| Some(time(record)?.saturating_sub(record.arrived).as_secs_f64());
            self.records.iter().filter_map(waited).collect()
        };
        let completed = self.records.iter().filter(|record| record.ended.is_some()).count() as u64;
        let prompt_tokens: u64 = trace.iter().map(|request| u64::from(request.input_length)).sum();
        let share = |tokens: fn(&Record) -> u32| {
            self.records.iter().map(|record| u64::from(tokens(record))).sum::<u64>() as f64
                / prompt_tokens.max(1) as f64
        };
        let places: Vec<Option<u32>> = self.records.iter().map(|record| record.worker).collect();
        let (ttft, ttft_quantiles) = Spread::of(since(|record| record.first_token));
        let requests: Vec<u64> = self.workers.iter().map(|worker| worker.requests).collect();
        let prefill_tokens = self.workers.iter().map(|worker| worker.prefill_tokens).collect();
        PolicyReport {
            policy: self.policy.word(),
            completed,
            rejected: trace.len() as u64 - completed,
            hit_rate: share(|record| record.cached_tokens),
            known_hit_rate: share(|record| record.known_tokens),
            best: BestHitRates {
                one_cache,
                fleet: placed(trace, prompts, &places, config.workers, config.engine.block_tokens),
            },
            wait: Spread::of(since(|record| record.started)).0,
            queued: self.queued,
            ttft,
            ttft_quantiles,
            e2e: Spread::of(since(|record| record.ended)).0,
            balance: Balance::of(prefill_tokens, &requests),
            preemptions: self.workers.iter().map(|worker| worker.simulation.stats().preemptions).sum(),
            lost_batches: self.lost_batches,
            seconds: end.as_secs_f64(),
        }
    }
}
