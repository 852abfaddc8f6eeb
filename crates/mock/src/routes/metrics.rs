//! A few of vLLM's metric families, in OpenMetrics text.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use tito_engine_sim::Stats;

use crate::engine::Engine;
use crate::instance::Instance;

pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Name, kind, help and value of a family with one series per rank.
type Family = (&'static str, &'static str, &'static str, fn(&Stats) -> f64);

const FAMILIES: [Family; 8] = [
    ("num_requests_running", "gauge", "Requests in the batch.", |stats| f64::from(stats.running)),
    ("num_requests_waiting", "gauge", "Requests that wait.", |stats| f64::from(stats.waiting)),
    ("kv_cache_usage_perc", "gauge", "Share of KV blocks in use; 1 is all.", usage),
    ("prefix_cache_queries", "counter", "Prompt tokens looked up.", |stats| {
        stats.cache_queries_tokens as f64
    }),
    ("prefix_cache_hits", "counter", "Prompt tokens found.", |stats| stats.cache_hits_tokens as f64),
    ("num_preemptions", "counter", "Sequences that lost their blocks.", |stats| stats.preemptions as f64),
    ("prompt_tokens", "counter", "Prompt tokens of started requests.", |stats| stats.prompt_tokens as f64),
    ("generation_tokens", "counter", "Tokens generated.", |stats| stats.output_tokens as f64),
];

fn usage(stats: &Stats) -> f64 {
    f64::from(stats.blocks - stats.free_blocks) / f64::from(stats.blocks.max(1))
}

pub(super) fn render(instance: &Instance) -> String {
    let mut text = String::new();
    let model = escape(instance.config.primary_name());
    for (name, kind, help, value) in FAMILIES {
        head(&mut text, name, kind, help);
        let suffix = if kind == "counter" { "_total" } else { "" };
        for engine in &instance.engines {
            let (rank, value) = (engine.rank, value(&engine.stats()));
            line(
                &mut text,
                format_args!("vllm:{name}{suffix}{{model_name=\"{model}\",engine=\"{rank}\"}} {value}"),
            );
        }
    }
    head(&mut text, "request_success", "counter", "Requests that ended, by reason.");
    for engine in &instance.engines {
        for (reason, count) in finished(engine) {
            let rank = engine.rank;
            let labels = format!("model_name=\"{model}\",engine=\"{rank}\",finished_reason=\"{reason}\"");
            line(&mut text, format_args!("vllm:request_success_total{{{labels}}} {count}"));
        }
    }
    text.push_str("# EOF\n");
    text
}

fn finished(engine: &Engine) -> [(&'static str, u64); 4] {
    let counters = engine.finished();
    [
        ("stop", counters.stop.load(Ordering::Relaxed)),
        ("length", counters.length.load(Ordering::Relaxed)),
        ("abort", counters.abort.load(Ordering::Relaxed)),
        ("error", counters.error.load(Ordering::Relaxed)),
    ]
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    line(text, format_args!("# HELP vllm:{name} {help}"));
    line(text, format_args!("# TYPE vllm:{name} {kind}"));
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("writing to a string cannot fail");
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
