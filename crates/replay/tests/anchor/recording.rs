//! The recording of a real engine, and the simulated one beside it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tito_engine_sim::Timing;
use tito_policy::PolicyKind;
use tito_replay::{EngineProfile, ReplayConfig, Served, TraceRequest};

/// What a client measured of one request.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Measured {
    /// From sending the request to its first token.
    pub(crate) ttft_ms: f64,
    /// From sending the request to its last token.
    pub(crate) e2e_ms: f64,
    /// Prompt tokens that the engine says it found in its cache.
    pub(crate) cached_tokens: u32,
}

/// The flags of the engine that was recorded, and how long the simulated one takes. Times in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Engine {
    /// Arguments beyond those that the other members name.
    pub(crate) more_args: Vec<String>,
    pub(crate) block_tokens: u32,
    pub(crate) num_gpu_blocks: u32,
    pub(crate) max_num_seqs: u32,
    pub(crate) max_num_batched_tokens: u32,
    pub(crate) step_us: f64,
    pub(crate) prefill_token_us: f64,
    pub(crate) prefill_attention_us: f64,
    pub(crate) decode_sequence_us: f64,
    pub(crate) decode_context_us: f64,
    pub(crate) request_us: f64,
}

/// A trace with what was measured of each request, by arrival.
pub(crate) struct Recording {
    pub(crate) trace: Vec<TraceRequest>,
    pub(crate) measured: Vec<Measured>,
}

impl Recording {
    pub(crate) fn parse(text: &str) -> serde_json::Result<Self> {
        let (mut trace, mut measured) = (Vec::new(), Vec::new());
        for line in text.lines() {
            trace.push(serde_json::from_str(line)?);
            measured.push(serde_json::from_str(line)?);
        }
        Ok(Self { trace, measured })
    }

    /// The same requests served by one simulated engine.
    pub(crate) fn simulated(&self, engine: &Engine) -> Vec<Served> {
        let config = ReplayConfig {
            policies: vec![PolicyKind::RoundRobin],
            engine: engine.profile(),
            in_flight_max: u32::MAX,
            trace_block_tokens: engine.block_tokens,
            ..ReplayConfig::new(1, 1)
        };
        tito_replay::serve(&self.trace, &config).expect("a recording can be replayed")
    }
}

impl Engine {
    fn profile(&self) -> EngineProfile {
        let time = |micros: f64| Duration::from_nanos((micros * 1e3) as u64);
        EngineProfile {
            block_tokens: self.block_tokens,
            // vLLM never gives out its first block.
            capacity_tokens: u64::from(self.num_gpu_blocks - 1) * u64::from(self.block_tokens),
            running_max: self.max_num_seqs,
            step_tokens_max: self.max_num_batched_tokens,
            timing: Timing {
                step: time(self.step_us),
                prefill_token: time(self.prefill_token_us),
                prefill_attention: time(self.prefill_attention_us),
                decode_sequence: time(self.decode_sequence_us),
                decode_context: time(self.decode_context_us),
                speed: 1.0,
            },
            request_time: time(self.request_us),
        }
    }
}

/// One number of a part of the recording: measured, and simulated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) real: f64,
    pub(crate) simulated: f64,
}

impl Pair {
    /// How far the simulated is from the measured, as a share of the measured.
    pub(crate) fn error(self) -> f64 {
        (self.simulated / self.real - 1.0).abs()
    }
}

/// A part of the recording.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Share of the prompt tokens that were found in the cache.
    pub(crate) hit_rate: Pair,
    /// Milliseconds at 50 % and 90 % of the requests.
    pub(crate) ttft: [Pair; 2],
    /// Milliseconds at 50 % and 90 % of the requests.
    pub(crate) e2e: [Pair; 2],
}

impl Comparison {
    pub(crate) fn of(recording: &Recording, served: &[Served], part: std::ops::Range<usize>) -> Self {
        let prompts: f64 =
            recording.trace[part.clone()].iter().map(|request| f64::from(request.input_length)).sum();
        let (measured, served) = (&recording.measured[part.clone()], &served[part.clone()]);
        let real: f64 = measured.iter().map(|request| f64::from(request.cached_tokens)).sum();
        let simulated: f64 = served.iter().map(|request| f64::from(request.cached_tokens)).sum();
        let quantiles = |real: fn(&Measured) -> f64, simulated: fn(&Served) -> f64| {
            [50, 90].map(|percent| Pair {
                real: quantile(measured.iter().map(real).collect(), percent),
                simulated: quantile(served.iter().map(simulated).collect(), percent),
            })
        };
        Self {
            hit_rate: Pair { real: real / prompts, simulated: simulated / prompts },
            ttft: quantiles(|request| request.ttft_ms, ttft_ms),
            e2e: quantiles(|request| request.e2e_ms, e2e_ms),
        }
    }
}

/// Simulated TTFT in milliseconds.
pub(crate) fn ttft_ms(served: &Served) -> f64 {
    since(served, served.first_token)
}

/// Simulated E2E latency in milliseconds.
pub(crate) fn e2e_ms(served: &Served) -> f64 {
    since(served, served.ended)
}

fn since(served: &Served, time: Option<Duration>) -> f64 {
    let time = time.expect("the engine that was recorded took every request");
    time.saturating_sub(served.arrived).as_secs_f64() * 1e3
}

/// The nearest rank: the least value that at least `percent` of all do not exceed.
fn quantile(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() * percent).div_ceil(100).max(1) - 1]
}
