//! The numbers of a report that are worth comparing.

use std::collections::BTreeMap;

use crate::report::Report;

/// By the name they have in the JSON report. Absent measurements are left out, and so are lower bounds: two of them say
/// nothing about which server is faster.
pub(super) fn of(report: &Report) -> BTreeMap<&'static str, f64> {
    let figures = [
        ("requests_per_s", Some(report.requests_per_s)),
        ("output_tokens_per_s", Some(report.output_tokens_per_s)),
        ("ttft_ms.p50", report.ttft_ms.and_then(|times| times.exact("p50"))),
        ("ttft_ms.p99", report.ttft_ms.and_then(|times| times.exact("p99"))),
        ("itl_ms.p50", report.itl_ms.and_then(|times| times.exact("p50"))),
        ("itl_ms.p99", report.itl_ms.and_then(|times| times.exact("p99"))),
        ("itl_event_ms.p99", report.itl_event_ms.and_then(|times| times.exact("p99"))),
        ("tpot_ms.p50", report.tpot_ms.and_then(|times| times.exact("p50"))),
        ("e2e_ms.p50", report.e2e_ms.and_then(|times| times.exact("p50"))),
        ("e2e_ms.p99", report.e2e_ms.and_then(|times| times.exact("p99"))),
        ("cpu_ms_per_request", report.cpu_ms_per_request),
        ("rss_peak_bytes", report.rss_peak_bytes.map(|bytes| bytes as f64)),
    ];
    figures.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}
