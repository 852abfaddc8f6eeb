//! What all policies see of a trace: order, times and block identities.

use std::sync::Arc;
use std::time::Duration;

use tito_kv_index::Hasher;

use crate::content::Content;
use crate::trace::order;
use crate::turns::Turns;
use crate::{ReplayConfig, TraceRequest};

pub(crate) struct Prompts {
    /// Requests by arrival; those of one moment in the order of the trace.
    pub(crate) order: Vec<u32>,
    /// By request: its place in that order.
    pub(crate) places: Vec<u32>,
    /// Arrivals as recorded, in virtual time, by request.
    pub(crate) arrivals: Vec<Duration>,
    /// Who is whose next turn.
    pub(crate) turns: Turns,
    /// By request: from the reply to the turn before until it arrives, as recorded.
    pub(crate) thinking: Vec<Duration>,
    /// Identities of the prompts' full blocks, by request.
    pub(crate) chains: Vec<Arc<[u64]>>,
    /// Identities of the full blocks after the prompt's that are computed, by request.
    pub(crate) outputs: Vec<Box<[u64]>>,
    /// Requests whose output has a name that other prompts can have.
    pub(crate) named: u64,
}

impl Prompts {
    pub(crate) fn new(trace: &[TraceRequest], config: &ReplayConfig) -> Self {
        let order = order(trace);
        let start = order.first().map_or(0.0, |&first| trace[first as usize].timestamp);
        let arrival = |request: &TraceRequest| {
            let seconds = (request.timestamp - start) / 1000.0 / config.speed;
            // Checked before: finite, and a year at most.
            Duration::from_secs_f64(seconds.max(0.0))
        };
        let turns = Turns::new(trace, &order, config.trace_block_tokens);
        let content = Content { trace, turns: &turns, block_tokens: config.trace_block_tokens };
        let hasher = hasher(config.seed);
        let block_tokens = config.engine.block_tokens;
        let root = hasher.root(block_tokens, None, None);
        let (mut chains, mut outputs) = (Vec::with_capacity(trace.len()), Vec::with_capacity(trace.len()));
        let mut named = 0;
        for (index, request) in trace.iter().enumerate() {
            let mut chain = Vec::new();
            let tokens = content.tokens(index as u32);
            // The last token is generated, and never computed.
            hasher.extend(root, &tokens[..tokens.len() - 1], block_tokens as usize, &mut chain);
            let (prompt, output) = chain.split_at((request.input_length / block_tokens) as usize);
            chains.push(Arc::from(prompt));
            outputs.push(Box::from(output));
            named += u64::from(content.output_is_named(index as u32));
        }
        let arrivals: Vec<Duration> = trace.iter().map(arrival).collect();
        let thinking = thinking(trace, config, &arrivals, &turns);
        let mut places = vec![0; trace.len()];
        for (place, &request) in order.iter().enumerate() {
            places[request as usize] = place as u32;
        }
        Self { order, places, arrivals, turns, thinking, chains, outputs, named }
    }

    /// From the first arrival to the last.
    pub(crate) fn seconds(&self) -> f64 {
        self.arrivals.iter().max().copied().unwrap_or_default().as_secs_f64()
    }
}

/// What the trace says between a reply and the next turn. Where it does not: what is left of the time between the two
/// arrivals when the earlier is answered by a worker that does nothing else and has the turn before that in its cache.
fn thinking(
    trace: &[TraceRequest],
    config: &ReplayConfig,
    arrivals: &[Duration],
    turns: &Turns,
) -> Vec<Duration> {
    let one = |(index, request): (usize, &TraceRequest)| {
        let Some(before) = turns.previous[index] else { return Duration::ZERO };
        if let Some(delay) = request.delay {
            return Duration::from_secs_f64(delay / 1000.0 / config.speed);
        }
        let earlier = &trace[before as usize];
        let cached = turns.previous[before as usize].map(|first| &trace[first as usize]);
        let cached = cached.filter(|first| earlier.extends(first, config.trace_block_tokens));
        let cached = cached.map_or(0, |first| first.input_length + first.output_tokens());
        let answered = config.engine.alone(earlier.input_length, earlier.output_tokens(), cached);
        arrivals[index].saturating_sub(arrivals[before as usize] + answered)
    };
    trace.iter().enumerate().map(one).collect()
}

/// Brings prompts and events to one identity.
pub(crate) fn hasher(seed: u64) -> Hasher {
    Hasher::new(u128::from(seed) << 64 | 0x7265_706c_6179)
}
