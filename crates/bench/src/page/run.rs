//! The picture of one run: how latencies are distributed, and what happened when.

use std::fmt;

use super::{Side, curve, distribution, lines, panel, picture};
use crate::report::{Report, TargetLabel};
use crate::series::{Interval, Series};

/// Lines over time have at most about so many points, so that a long run stays readable.
const POINTS_MAX: usize = 120;

pub(super) fn draw(out: &mut String, report: &Report) -> fmt::Result {
    let TargetLabel { name, url, .. } = &report.target;
    let title = if name == url { name.clone() } else { format!("{name}: {url}") };
    let legend = ["TTFT", "ITL per token", "E2E latency"].map(str::to_owned);
    picture(out, 3, &title, &legend, |out| {
        let curves = &report.curves;
        let curves = [(0, &*curves.ttft), (1, &*curves.itl), (2, &*curves.e2e)];
        distribution(out, &panel(0, Side::Whole), "Share of the values within … milliseconds", &curves)?;
        let series = thin(&report.series);
        let over_time = |value: &dyn Fn(&Interval) -> Option<f64>| -> Vec<(f64, Option<f64>)> {
            series.intervals.iter().map(|interval| (interval.at_s, value(interval))).collect()
        };
        let per_s = 1.0 / series.interval_s;
        let done = over_time(&|interval| Some(interval.succeeded as f64 * per_s));
        let sent = over_time(&|interval| Some(interval.sent as f64 * per_s));
        let tokens = over_time(&|interval| Some(interval.output_tokens as f64 * per_s));
        let in_flight = over_time(&|interval| Some(interval.in_flight as f64));
        let failed = over_time(&|interval| Some((interval.failed + interval.shed) as f64 * per_s));
        let latency = [
            (0, false, over_time(&|interval| interval.ttft_ms_p50)),
            (0, true, over_time(&|interval| interval.ttft_ms_p99)),
            (2, false, over_time(&|interval| interval.e2e_ms_p50)),
            (2, true, over_time(&|interval| interval.e2e_ms_p99)),
        ];
        let latency: Vec<_> =
            latency.iter().map(|(colour, dashed, points)| curve(*colour, *dashed, points)).collect();
        lines(out, &panel(1, Side::Left), "Milliseconds: median, dashed p99", &latency, "s")?;
        let requests = [curve(2, false, &done), curve(4, true, &sent), curve(1, false, &failed)];
        let title = "Requests/s: done, dashed sent, orange failed or shed";
        lines(out, &panel(1, Side::Right), title, &requests, "s")?;
        lines(out, &panel(2, Side::Left), "Output tokens/s", &[curve(2, false, &tokens)], "s")?;
        lines(out, &panel(2, Side::Right), "Requests in flight", &[curve(2, false, &in_flight)], "s")
    })
}

/// Adjacent intervals together, until there are few enough. Of latencies the larger stays, unless failed requests hide one.
fn thin(series: &Series) -> Series {
    let mut thin = series.clone();
    while thin.intervals.len() > POINTS_MAX {
        thin.interval_s *= 2.0;
        thin.intervals =
            thin.intervals.chunks(2).map(|pair| pair[1..].iter().fold(pair[0], together)).collect();
    }
    // The last interval is rarely a whole one, and would look like a fall.
    if thin.intervals.len() > 2 {
        thin.intervals.pop();
    }
    thin
}

fn together(one: Interval, other: &Interval) -> Interval {
    let larger = |latency: fn(&Interval) -> Option<f64>| {
        let both = [&one, other];
        let hidden = |at: &&Interval| latency(at).is_none() && at.failed + at.shed > 0;
        let largest = both.into_iter().filter_map(latency).reduce(f64::max);
        largest.filter(|_| !both.iter().any(hidden))
    };
    Interval {
        at_s: one.at_s,
        sent: one.sent + other.sent,
        succeeded: one.succeeded + other.succeeded,
        failed: one.failed + other.failed,
        shed: one.shed + other.shed,
        in_flight: other.in_flight,
        output_tokens: one.output_tokens + other.output_tokens,
        ttft_ms_p50: larger(|interval| interval.ttft_ms_p50),
        ttft_ms_p99: larger(|interval| interval.ttft_ms_p99),
        e2e_ms_p50: larger(|interval| interval.e2e_ms_p50),
        e2e_ms_p99: larger(|interval| interval.e2e_ms_p99),
    }
}
