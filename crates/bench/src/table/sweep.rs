//! A rate sweep as a reader in a terminal wants it: one line per rate.

use std::fmt;

use super::{LoadLine, WorkloadLine, fmt_repeats, fmt_trust, shown_time};
use crate::config::Load;
use crate::percentiles::Percentiles;
use crate::report::Report;
use crate::sweep::{Sweep, SweepStep};

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.steps.first() else { return Ok(()) };
        writeln!(f, "{}  {}", first.report.target.name, first.report.target.url)?;
        writeln!(f, "  {}", WorkloadLine(&first.report.workload))?;
        writeln!(f, "  first step: {}", LoadLine(first.report.load))?;
        fmt_trust(&first.report.target, f)?;
        fmt_repeats(
            &first.report.workload,
            self.steps.iter().map(|step| step.report.requests.prompts).sum(),
            f,
        )?;
        if let Some(goodput) = first.report.goodput {
            writeln!(
                f,
                "  {:.1} % of the requests within {}",
                self.config.good_share_min * 100.0,
                goodput.slo
            )?;
        }
        let columns = ["done/s", "good %", "TTFT p50", "TTFT p99", "E2E p50", "E2E p99"];
        write!(f, "{:>11}{:>11}", "rate/s", "arrived/s")?;
        columns.iter().try_for_each(|column| write!(f, "{column:>11}"))?;
        writeln!(f, "  (ms)")?;
        let mut steps: Vec<_> = self.steps.iter().collect();
        steps.sort_by(|one, other| one.rate_per_s.total_cmp(&other.rate_per_s));
        steps.into_iter().try_for_each(|step| fmt_step(step, f))?;
        match (self.knee_per_s, self.too_high_per_s, self.limit) {
            (Some(knee), Some(above), Some(limit)) => {
                writeln!(f, "knee         {knee:.3} requests/s; at {above:.3}: {}", limit.words())
            }
            (Some(knee), ..) => writeln!(f, "no knee      up to {knee:.3} requests/s: more steps are needed"),
            (None, None, Some(nothing)) => {
                writeln!(f, "FAILED       a step measured nothing: {}", nothing.words())
            }
            (None, ..) => writeln!(f, "FAILED       no rate was kept up with"),
        }
    }
}

fn fmt_step(step: &SweepStep, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let SweepStep { rate_per_s, verdict, report } = step;
    write!(f, "{rate_per_s:>11.3}{:>11}{:>11.3}", arrived(report), report.requests_per_s)?;
    let good = report.goodput.map_or("–".to_owned(), |goodput| format!("{:.2}", goodput.share * 100.0));
    write!(f, "{good:>11}")?;
    for times in [report.ttft_ms, report.e2e_ms] {
        for statistic in ["p50", "p99"] {
            write!(f, "{:>11}", shown(times, statistic))?;
        }
    }
    writeln!(f, "  {}", verdict.words())
}

/// Requests or sessions that were due per second of the step: chance makes them more or fewer than its rate.
fn arrived(report: &Report) -> String {
    let Load::Open { duration, .. } = report.load else { return "–".to_owned() };
    format!("{:.3}", report.requests.arrivals() as f64 / duration.as_secs_f64())
}

fn shown(times: Option<Percentiles>, statistic: &str) -> String {
    let value = times.and_then(|times| times.values().into_iter().find(|(name, ..)| *name == statistic));
    value.map_or("–".to_owned(), |(_, ms, lower_bound)| shown_time(ms, lower_bound))
}
