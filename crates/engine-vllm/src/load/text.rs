//! The three gauges of interest among the metrics of an engine, in Prometheus or OpenMetrics text. Bytes from
//! elsewhere: whatever does not read as expected is passed over.

use std::collections::BTreeMap;
use std::ops::Range;

use tito_types::EngineLoad;

/// Longest line that is looked at, in bytes; those of interest have some hundred.
const LINE_BYTES_MAX: usize = 4096;
/// Most requests that one rank is believed to have.
const REQUESTS_MAX: f64 = 1e6;

/// In vLLM 0.32, each with the labels `model_name` and `engine`, which is the global number of the rank.
const GAUGES: [&str; 3] = ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"];

/// The load of each of these ranks that all three gauges tell of, by rank.
pub(crate) fn loads(text: &[u8], ranks: Range<u32>) -> Vec<EngineLoad> {
    // At most as many entries as there are ranks.
    let mut told: BTreeMap<u32, [Option<f64>; 3]> = BTreeMap::new();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| line.len() <= LINE_BYTES_MAX);
    for (gauge, rank, value) in lines.filter_map(sample) {
        let most = if gauge == 2 { 1.0 } else { REQUESTS_MAX };
        // Not so for what is no number.
        if ranks.contains(&rank) && (0.0..=most).contains(&value) {
            told.entry(rank).or_default()[gauge] = Some(value);
        }
    }
    let load = |(rank, gauges): (u32, [Option<f64>; 3])| {
        let [Some(running), Some(waiting), Some(kv_usage)] = gauges else { return None };
        Some(EngineLoad { rank, running: running as u32, waiting: waiting as u32, kv_usage })
    };
    told.into_iter().filter_map(load).collect()
}

/// Which gauge, of which rank, and its value: `vllm:NAME{LABELS} VALUE`, perhaps with a time behind it.
fn sample(line: &[u8]) -> Option<(usize, u32, f64)> {
    let line = str::from_utf8(line.strip_prefix(b"vllm:")?).ok()?;
    let (name, rest) = line.split_once('{')?;
    let gauge = GAUGES.iter().position(|gauge| *gauge == name)?;
    let (rank, rest) = rank_of(rest)?;
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some((gauge, rank, value))
}

/// The label `engine` among others, and what follows the closing brace. Values may hold braces, commas and escapes.
fn rank_of(mut rest: &str) -> Option<(u32, &str)> {
    let mut rank = None;
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((rank?, behind));
        }
        let (key, quoted) = rest.split_once("=\"")?;
        let mut escaped = false;
        let end = quoted.find(|character| {
            let ends = character == '"' && !escaped;
            escaped = character == '\\' && !escaped;
            ends
        })?;
        if key == "engine" {
            rank = Some(quoted[..end].parse().ok()?);
        }
        rest = &quoted[end + 1..];
    }
}

#[cfg(test)]
mod tests;
