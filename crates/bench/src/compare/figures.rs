//! The numbers of a report that are worth comparing.

use std::collections::BTreeMap;

use crate::percentiles::Percentiles;
use crate::report::Report;

/// A number of one run as the smallest and the largest value that it can have: the same where it is exact. The largest is
/// infinite where the number is a lower bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figure {
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Figure {
    fn exact(value: f64) -> Self {
        Self { least: value, most: value }
    }

    fn at_least(value: f64) -> Self {
        Self { least: value, most: f64::INFINITY }
    }

    pub(super) fn is_exact(&self) -> bool {
        self.least.total_cmp(&self.most).is_eq()
    }

    /// None where the divisor may be zero.
    pub(super) fn divided_by(self, base: Self) -> Option<Self> {
        (base.least > 0.0).then(|| Self { least: self.least / base.most, most: self.most / base.least })
    }
}

/// By the name they have in the JSON report. Absent measurements are left out.
pub(super) fn of(report: &Report) -> BTreeMap<&'static str, Figure> {
    let exact = |value: Option<f64>| value.map(Figure::exact);
    let figures = [
        ("requests_per_s", exact(Some(report.requests_per_s))),
        ("output_tokens_per_s", exact(Some(report.output_tokens_per_s))),
        ("ttft_ms.p50", time(report.ttft_ms, "p50")),
        ("ttft_ms.p99", time(report.ttft_ms, "p99")),
        ("itl_ms.p50", time(report.itl_ms, "p50")),
        ("itl_ms.p99", time(report.itl_ms, "p99")),
        ("itl_event_ms.p99", time(report.itl_event_ms, "p99")),
        ("tpot_ms.p50", time(report.tpot_ms, "p50")),
        ("e2e_ms.p50", time(report.e2e_ms, "p50")),
        ("e2e_ms.p99", time(report.e2e_ms, "p99")),
        ("events_coalesced", exact(report.events_coalesced)),
        ("cpu_ms_per_request", exact(report.cpu_ms_per_request)),
        ("rss_peak_bytes", exact(report.rss_peak_bytes.map(|bytes| bytes as f64))),
    ];
    figures.into_iter().filter_map(|(key, figure)| Some((key, figure?))).collect()
}

fn time(times: Option<Percentiles>, statistic: &str) -> Option<Figure> {
    let mut values = times?.values().into_iter();
    let (_, value, lower_bound) = values.find(|(name, ..)| *name == statistic)?;
    Some(if lower_bound { Figure::at_least(value) } else { Figure::exact(value) })
}
