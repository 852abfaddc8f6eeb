//! The times of one request, taken from when its parts came. Pure.

use std::time::Duration;

use tokio::time::Instant;

use crate::caller::Call;
use crate::times::{Sample, Times};

/// TTFT, TPOT and E2E latency of one request, and its longest gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Latencies {
    /// From due to the first output; streams only.
    pub(crate) ttft: Option<Sample>,
    /// Mean time per token after the first event; streams only.
    pub(crate) tpot: Option<Sample>,
    /// From due to the last byte.
    pub(crate) e2e: Sample,
    /// Longest gap between two events with output; streams of two events and more only.
    pub(crate) gap_max: Option<Duration>,
}

impl Latencies {
    /// The times of a request that was due at `due`, however it ended.
    pub(crate) fn of(due: Instant, call: &Call) -> Self {
        let until_end = call.ended - due;
        let failed = call.result.is_err();
        let e2e = if failed { Sample::AtLeast(until_end) } else { Sample::Known(until_end) };
        let ttft = match call.outputs.first() {
            Some(first) => Some(Sample::Known(first.at - due)),
            None if call.stream && failed => Some(Sample::AtLeast(until_end)),
            None => None,
        };
        let gap_max = call.outputs.windows(2).map(|pair| pair[1].at - pair[0].at).max();
        Self { ttft, tpot: tpot(call), e2e, gap_max }
    }
}

/// A stream that failed after its first output was still waiting for the rest of what it had asked for.
fn tpot(call: &Call) -> Option<Sample> {
    let (first, last) = (call.outputs.first()?, call.outputs.last()?);
    match &call.result {
        Ok(tokens) if *tokens > 1 => Some(Sample::Known((last.at - first.at) / (tokens - 1))),
        Err(_) if call.wanted_tokens > 1 => {
            Some(Sample::AtLeast((call.ended - first.at) / (call.wanted_tokens - 1)))
        }
        Ok(_) | Err(_) => None,
    }
}

/// The gaps before each event with output but the first, with the tokens that the event carried where they are known;
/// at the end of a stream that failed too early, the gap in which it did.
fn gaps(call: &Call) -> impl Iterator<Item = (Sample, Option<u32>)> {
    let known = tokens_known(call);
    let between = call.outputs.windows(2).map(move |pair| {
        (Sample::Known(pair[1].at - pair[0].at), if known { pair[1].tokens.or(Some(1)) } else { None })
    });
    let delivered: u32 = call.outputs.iter().map(|output| output.tokens.unwrap_or(1)).sum();
    let cut = call.result.is_err() && delivered < call.wanted_tokens;
    let cut = call.outputs.last().filter(|_| cut).map(|last| Sample::AtLeast(call.ended - last.at));
    between.chain(cut.map(|sample| (sample, known.then_some(1))))
}

/// Tokens per event are known where the server sends ids, and where there are as many events as tokens.
fn tokens_known(call: &Call) -> bool {
    let ids = call.outputs.iter().all(|output| output.tokens.is_some());
    ids || call.result.as_ref().is_ok_and(|tokens| *tokens as usize == call.outputs.len())
}

/// When tokens of a right reply came: events by their ids or, without ids, with an even share; a unary body at its end.
pub(crate) fn arrivals(call: &Call) -> impl Iterator<Item = (Instant, u64)> {
    let tokens = u64::from(*call.result.as_ref().unwrap_or(&0));
    let events = call.outputs.len() as u64;
    let share = move |event: u64| tokens * event / events.max(1);
    let ids = call.outputs.iter().all(|output| output.tokens.is_some());
    let of_events = call.outputs.iter().zip(0_u64..).map(move |(output, event)| {
        let evenly = share(event + 1) - share(event);
        (output.at, if ids { output.tokens.map_or(0, u64::from) } else { evenly })
    });
    of_events.chain((events == 0).then_some((call.ended, tokens))).filter(|_| call.result.is_ok())
}

/// The distributions of many requests.
#[derive(Debug)]
pub(crate) struct LatencyTimes {
    pub(crate) ttft: Times,
    /// Per token: an event that brings k tokens after a gap g counts as k gaps of g / k.
    pub(crate) itl: Times,
    /// Per event with output, however many tokens it carries.
    pub(crate) itl_event: Times,
    pub(crate) tpot: Times,
    pub(crate) e2e: Times,
}

impl LatencyTimes {
    pub(crate) fn new() -> Self {
        let [ttft, itl, itl_event, tpot, e2e] = std::array::from_fn(|_| Times::new());
        Self { ttft, itl, itl_event, tpot, e2e }
    }

    /// Adds one request.
    pub(crate) fn record(&mut self, latencies: &Latencies, call: &Call) {
        let Latencies { ttft, tpot, e2e, gap_max: _ } = *latencies;
        if let Some(ttft) = ttft {
            self.ttft.record(ttft);
        }
        if let Some(tpot) = tpot {
            self.tpot.record(tpot);
        }
        self.e2e.record(e2e);
        for (gap, tokens) in gaps(call) {
            self.itl_event.record(gap);
            match (gap, tokens) {
                (Sample::Known(gap), Some(tokens)) if tokens > 0 => {
                    self.itl.record_times(Sample::Known(gap / tokens), u64::from(tokens));
                }
                (Sample::AtLeast(_), Some(_)) => self.itl.record(gap),
                (Sample::Known(_) | Sample::AtLeast(_), _) => (),
            }
        }
    }

    /// Adds an arrival that was never sent: all that is known of it is that it would have taken some time.
    pub(crate) fn record_shed(&mut self, stream: bool) {
        let unknown = Sample::AtLeast(Duration::ZERO);
        self.e2e.record(unknown);
        if stream {
            self.ttft.record(unknown);
        }
    }
}

#[cfg(test)]
mod tests;
