//! Per-request steering: `kv_transfer_params.script`, honoured when the configuration says so.
//!
//! The knobs are those of the scripted engine behind the recordings, so that its requests replay.

use std::time::Duration;

use prost_types::Struct;
use prost_types::value::Kind;
use tito_engine_sim::{Finish, Script, SimRequest, StopCause};

use crate::faults::{BreakOff, Effects};
use crate::transfer::kind;

#[cfg(test)]
mod tests;

/// Longest list that a knob may hold.
const LIST_MAX: usize = 65_536;

/// What one request's script says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Knobs {
    ids: Option<Vec<u32>>,
    most: Option<u32>,
    chunk: Option<u32>,
    delay: Duration,
    hang_after: Option<u32>,
    die_after: Option<u32>,
    exit_after: Option<u32>,
    finish: Option<String>,
    stop_reason: Option<u32>,
    /// Transfer parameters of the end.
    pub(crate) kv_out: Option<Struct>,
    /// Encoder-cache parameters of the end.
    pub(crate) ec_out: Option<Struct>,
    /// Cached tokens to report.
    pub(crate) cached: Option<u32>,
    /// Sampling mask, one list per token; the last repeats.
    pub(crate) mask: Vec<Vec<u32>>,
    /// Log-prob of each token; the last repeats.
    pub(crate) logprobs: Vec<f32>,
}

impl Knobs {
    /// The script of a request, if it has one.
    pub(crate) fn of(parameters: Option<&Struct>) -> Option<Self> {
        let Some(Kind::StructValue(script)) = kind(parameters?, "script") else { return None };
        let number = |name: &str| match kind(script, name) {
            Some(Kind::NumberValue(number)) => Some(*number),
            _ => None,
        };
        // Casts saturate, so a number out of range is the nearest one in range.
        let count = |name: &str| number(name).map(|number| number as u32);
        let seconds = number("delay").filter(|seconds| (0.0..3600.0).contains(seconds)).unwrap_or(0.0);
        let structure = |name: &str| match kind(script, name) {
            Some(Kind::StructValue(inner)) => Some(inner.clone()),
            _ => None,
        };
        let text = match kind(script, "finish") {
            Some(Kind::StringValue(text)) => Some(text.clone()),
            _ => None,
        };
        let ids = numbers(kind(script, "ids"));
        let mask = match kind(script, "mask") {
            Some(Kind::ListValue(list)) => {
                list.values.iter().take(LIST_MAX).map(|row| ids_of(&numbers(row.kind.as_ref()))).collect()
            }
            _ => Vec::new(),
        };
        Some(Self {
            ids: (!ids.is_empty()).then(|| ids_of(&ids)),
            most: count("n"),
            chunk: count("chunk"),
            delay: Duration::from_secs_f64(seconds),
            hang_after: count("hang_after"),
            die_after: count("die_after"),
            exit_after: count("exit_after"),
            finish: text,
            stop_reason: count("stop_reason"),
            kv_out: structure("kv_out"),
            ec_out: structure("ec_out"),
            cached: count("cached"),
            mask,
            logprobs: numbers(kind(script, "lp")).iter().map(|number| *number as f32).collect(),
        })
    }

    /// Writes the script into a request and its faults.
    pub(crate) fn apply(&self, request: &mut SimRequest, effects: &mut Effects) {
        let most = self.most.unwrap_or(u32::MAX).min(request.max_tokens) as usize;
        let letters = || (0..most as u32).map(|index| 65 + index % 26).collect();
        let mut ids: Vec<u32> = self.ids.clone().unwrap_or_else(letters);
        ids.truncate(most);
        request.tokens_per_step = self.chunk.unwrap_or(1).max(1);
        request.pace = request.pace.max(self.delay);
        if let Some(after) = self.hang_after {
            request.stall_after = Some(request.stall_after.map_or(after, |other| other.min(after)));
        }
        if let Some(after) = self.die_after {
            effects.break_at(after, BreakOff::EngineDead);
        }
        if let Some(after) = self.exit_after {
            effects.break_at(after, BreakOff::Die);
        }
        request.script = Some(Script { ids, then: Some(self.end()) });
    }

    fn end(&self) -> Finish {
        match self.finish.as_deref() {
            Some("stop") => Finish::Stop(self.stop_reason.map_or(StopCause::Eos, StopCause::Id)),
            Some("abort" | "repetition") => Finish::Aborted,
            Some("error") => Finish::Error,
            Some(_) | None => Finish::Length,
        }
    }
}

fn numbers(kind: Option<&Kind>) -> Vec<f64> {
    let Some(Kind::ListValue(list)) = kind else { return Vec::new() };
    let number = |value: &prost_types::Value| match value.kind {
        Some(Kind::NumberValue(number)) => Some(number),
        _ => None,
    };
    list.values.iter().take(LIST_MAX).filter_map(number).collect()
}

fn ids_of(numbers: &[f64]) -> Vec<u32> {
    numbers.iter().map(|number| *number as u32).collect()
}
