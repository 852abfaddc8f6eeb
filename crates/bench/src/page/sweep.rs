//! The picture of a sweep: what came of each arrival rate.

use std::fmt;

use super::{Side, curve, lines, panel, picture};
use crate::percentiles::Percentiles;
use crate::report::Report;
use crate::sweep::Sweep;

pub(super) fn draw(out: &mut String, sweep: &Sweep) -> fmt::Result {
    let knee = match (sweep.knee_per_s, sweep.too_high_per_s, sweep.limit) {
        (Some(knee), ..) => format!("knee at {} requests/s", super::number(knee)),
        (None, None, Some(nothing)) => format!("a step measured nothing: {}", nothing.words()),
        (None, ..) => "no rate was kept up with".to_owned(),
    };
    let name = sweep.steps.first().map_or("", |step| &step.report.target.name);
    let legend = ["TTFT", "good", "E2E latency"].map(str::to_owned);
    picture(out, 2, &format!("{name}: {knee}"), &legend, |out| {
        let mut steps: Vec<_> = sweep.steps.iter().collect();
        steps.sort_by(|one, other| one.rate_per_s.total_cmp(&other.rate_per_s));
        let by_rate = |value: &dyn Fn(&Report) -> Option<f64>| -> Vec<(f64, Option<f64>)> {
            steps.iter().map(|step| (step.rate_per_s, value(&step.report))).collect()
        };
        let offered: Vec<_> = steps.iter().map(|step| (step.rate_per_s, Some(step.rate_per_s))).collect();
        let done = by_rate(&|report| Some(report.requests_per_s));
        let good = by_rate(&|report| report.goodput.map(|goodput| goodput.requests_per_s));
        let title = "Requests/s by arrival rate: done, dashed offered";
        let rates = [curve(4, true, &offered), curve(2, false, &done), curve(1, false, &good)];
        lines(out, &panel(0, Side::Whole), title, &rates, "/s")?;
        for (side, title, statistic) in
            [(Side::Left, "Milliseconds, median", "p50"), (Side::Right, "Milliseconds, p99", "p99")]
        {
            let exact = |times: Option<Percentiles>| times.and_then(|times| times.exact(statistic));
            let ttft = by_rate(&|report| exact(report.ttft_ms));
            let e2e = by_rate(&|report| exact(report.e2e_ms));
            lines(out, &panel(1, side), title, &[curve(0, false, &ttft), curve(2, false, &e2e)], "/s")?;
        }
        Ok(())
    })
}
