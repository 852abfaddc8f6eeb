//! Reports as a reader in a terminal wants them.

mod comparison;
mod sweep;

use std::fmt;
use std::time::Duration;

use crate::config::{Api, ArrivalProcess, Load, PromptSource, SessionConfig, Stop, WorkloadConfig};
use crate::goodput::Goodput;
use crate::report::{Clock, Report, TargetLabel};
use crate::steady::SteadyWindow;
use crate::verdict::RunVerdict;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let api = match self.target.api {
            Api::Generate => "generate",
            Api::Completions => "completions",
        };
        writeln!(f, "{}  {} ({api})", self.target.name, self.target.url)?;
        writeln!(f, "  {}", WorkloadLine(&self.workload))?;
        writeln!(f, "  {}", LoadLine(self.load))?;
        fmt_trust(&self.target, f)?;
        fmt_repeats(&self.workload, self.requests.prompts, f)?;
        let requests = self.requests;
        write!(f, "requests     {} succeeded, {} failed", requests.succeeded, requests.failed)?;
        write!(f, ", {} shed, {:.3} s", requests.shed, self.elapsed_s)?;
        match requests.warmup_succeeded + requests.warmup_failed {
            0 => writeln!(f)?,
            warmup => writeln!(f, ", after {warmup} for warm-up")?,
        }
        write!(f, "throughput   {:.1} requests/s, ", self.requests_per_s)?;
        write!(f, "{:.0} output tokens/s, ", self.output_tokens_per_s)?;
        writeln!(f, "{:.0} prompt tokens/s", self.prompt_tokens_per_s)?;
        fmt_times(self, f)?;
        fmt_coalesced(self, f)?;
        fmt_steady(self, f)?;
        fmt_costs(self, f)?;
        troubles(self).into_iter().try_for_each(|(word, reason)| writeln!(f, "{word:<12} {reason}"))
    }
}

/// What is wrong with a run: the word of the verdict that it leads to, and a reason for each.
fn troubles(report: &Report) -> Vec<(&'static str, String)> {
    let failed = |reason: String| (RunVerdict::Failed.word(), reason);
    let mut troubles: Vec<_> = report
        .failures
        .iter()
        .map(|(kind, failures)| failed(format!("{} × {kind}: {}", failures.count, failures.example)))
        .collect();
    if report.requests.shed > 0 {
        troubles.push(failed(format!("{} arrivals shed: too many requests in flight", report.requests.shed)));
    }
    troubles.extend(report.process_errors.iter().cloned().map(failed));
    let late = if report.report.late_allowed { RunVerdict::Late } else { RunVerdict::Invalid };
    troubles.extend(report.late.iter().map(|reason| (late.word(), reason.clone())));
    if report.requests.warmup_failed > 0 && report.requests.warmup_succeeded == 0 {
        troubles.push(failed("nothing was measured: no right reply in the warm-up".to_owned()));
    } else if report.gave_up {
        troubles.push(failed(format!("gave up after {} failed requests", report.limits.failures_max)));
    }
    troubles
}

/// Share of the events read together beyond which the gaps between events say little.
const NOTED_FROM: f64 = 0.5;

/// What a report says where any certificate was accepted.
pub(crate) const UNCHECKED: &str =
    "certificates were not checked, so anyone may have answered for the server";

fn fmt_trust(target: &TargetLabel, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match target.certificates_checked {
        Some(false) => writeln!(f, "WARNING      {UNCHECKED}"),
        Some(true) | None => Ok(()),
    }
}

/// Says where the lines of a data set were fewer than what was sent: a cache may have known the rest.
fn fmt_repeats(workload: &WorkloadConfig, sent: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let PromptSource::DataSet { set, order } = &workload.prompts else { return Ok(()) };
    let prompts = order.distinct(set.prompts());
    if sent <= prompts {
        return Ok(());
    }
    writeln!(
        f,
        "WARNING      {sent} prompts sent of a data set of {prompts}: what was asked before may have been in a cache"
    )
}

fn fmt_times(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if report.e2e_ms.is_none() {
        return Ok(()); // without a request there is nothing to show
    }
    write!(f, "{:<12}", "ms")?;
    let columns = ["mean", "p50", "p90", "p95", "p99", "p99.9", "max"];
    columns.iter().try_for_each(|column| write!(f, "{column:>11}"))?;
    writeln!(f)?;
    let rows = [
        ("TTFT", report.ttft_ms),
        ("ITL", report.itl_ms),
        ("ITL/event", report.itl_event_ms),
        ("TPOT", report.tpot_ms),
        ("E2E", report.e2e_ms),
        ("send lag", report.send_lag_ms),
        ("read lag", report.read_lag_ms),
    ];
    for (name, times) in rows {
        let Some(times) = times else { continue };
        write!(f, "{name:<12}")?;
        for (_, time, lower_bound) in times.values() {
            write!(f, "{:>11}", shown_time(time, lower_bound))?;
        }
        writeln!(f)?;
    }
    match report.clock {
        Clock::ServiceTime => writeln!(f, "             from sending (closed loop: service time)")?,
        Clock::IntendedTime => writeln!(f, "             from when the request was due (open loop)")?,
    }
    if rows.iter().flat_map(|(_, times)| times).any(|times| times.censored > 0) {
        writeln!(
            f,
            "             > at least: a failed request took at least the time after which it failed"
        )?;
    }
    Ok(())
}

/// Gaps of zero come from events that were read together.
fn fmt_coalesced(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(share) = report.events_coalesced else { return Ok(()) };
    writeln!(f, "coalesced    {:.1} % of the events were read together with the one before", share * 100.0)?;
    let median_is_zero = report.itl_event_ms.is_some_and(|gaps| shown_time(gaps.p50, false) == "0.000");
    if share > NOTED_FROM || median_is_zero {
        writeln!(
            f,
            "NOTE         most events came several at once: ITL of 0 means that, not a fast engine; see TPOT"
        )?;
    }
    Ok(())
}

fn fmt_steady(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(SteadyWindow {
        from_s,
        to_s,
        due,
        requests_per_s,
        output_tokens_per_s,
        ttft_ms,
        e2e_ms,
        ..
    }) = &report.steady
    {
        write!(
            f,
            "steady       {from_s:.1} to {to_s:.1} s: {due} requests, {requests_per_s:.1} requests/s, "
        )?;
        writeln!(f, "{output_tokens_per_s:.0} output tokens/s")?;
        for (name, times) in [("TTFT", ttft_ms), ("E2E", e2e_ms)] {
            let Some(times) = times else { continue };
            write!(f, "             {name} ms:")?;
            let shown = times.values().into_iter().filter(|(name, ..)| ["p50", "p90", "p99"].contains(name));
            for (name, time, lower_bound) in shown {
                write!(f, " {name} {}", shown_time(time, lower_bound))?;
            }
            writeln!(f)?;
        }
    }
    if let Some(Goodput { slo, good, share, requests_per_s }) = &report.goodput {
        write!(f, "goodput      {requests_per_s:.1} requests/s: {good} requests, ")?;
        writeln!(f, "{:.2} % of all, within {slo}", share * 100.0)?;
    }
    Ok(())
}

fn shown_time(ms: f64, lower_bound: bool) -> String {
    if lower_bound { format!(">{ms:.3}") } else { format!("{ms:.3}") }
}

fn fmt_costs(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for process in &report.processes {
        write!(
            f,
            "process      {} ({}): {:.4} CPU ms/request",
            process.pid, process.name, process.cpu_ms_per_request
        )?;
        writeln!(f, ", RSS {:.1} MiB, peak {:.1} MiB", mib(process.rss_bytes), mib(process.rss_peak_bytes))?;
    }
    if let Some(generator) = report.generator {
        write!(f, "generator    {:.4} CPU ms/request, ", generator.cpu_ms_per_request)?;
        writeln!(f, "{:.2} cores busy, {} connections", generator.cores_busy, report.connections_opened)?;
    }
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

struct WorkloadLine<'a>(&'a WorkloadConfig);

impl fmt::Display for WorkloadLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkloadConfig {
            prompts,
            session,
            output_tokens,
            ids: _,
            ignore_eos,
            stream,
            seed,
            prompt_seed: _,
        } = self.0;
        let mode = if *stream { "streaming" } else { "unary" };
        let exactly = if *ignore_eos { "" } else { "up to " };
        match prompts {
            PromptSource::Random { prompt_tokens, prefix } => {
                write!(f, "{mode}, {prompt_tokens} prompt tokens, {exactly}{output_tokens} output tokens")?;
                write!(f, ", seed {seed}")?;
                if prefix.tokens > 0 {
                    let (groups, siblings) = (prefix.groups, prefix.siblings);
                    write!(f, ", {groups} groups × {siblings} siblings sharing {}", prefix.tokens)?;
                }
            }
            PromptSource::DataSet { set, order } => {
                write!(
                    f,
                    "{mode}, {set} from line {}, {exactly}{output_tokens} output tokens",
                    order.line(0) + 1
                )?;
                write!(f, " where it does not say, seed {seed}")?;
            }
            PromptSource::Trace { trace } => write!(f, "{mode}, {trace}, seed {seed}")?,
        }
        let Some(SessionConfig { turns, turn_tokens, think_time }) = session else { return Ok(()) };
        write!(f, "; sessions of {turns} turns, {turn_tokens} new tokens each, {think_time} of thinking")
    }
}

struct LoadLine(Load);

impl fmt::Display for LoadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |duration: Duration| duration.as_secs_f64();
        match self.0 {
            Load::Closed { concurrency, stop: Stop::Requests(requests) } => {
                write!(f, "closed loop, {concurrency} in flight, {requests} requests")
            }
            Load::Closed { concurrency, stop: Stop::Time(duration) } => {
                write!(f, "closed loop, {concurrency} in flight, {} s", seconds(duration))
            }
            Load::Open { rate_per_s, arrivals, duration, in_flight_max } => {
                write!(f, "open loop, {rate_per_s} requests/s (")?;
                match arrivals {
                    ArrivalProcess::Poisson => f.write_str("Poisson")?,
                    ArrivalProcess::Constant => f.write_str("constant")?,
                    ArrivalProcess::Gamma { burstiness } => write!(f, "gamma, burstiness {burstiness}")?,
                }
                write!(f, "), {} s, at most {in_flight_max} in flight", seconds(duration))
            }
            Load::FixedSchedule { speed, duration, in_flight_max } => {
                write!(f, "fixed schedule, {speed} × the recorded speed, ")?;
                if let Some(duration) = duration {
                    write!(f, "{} s, ", seconds(duration))?;
                }
                write!(f, "at most {in_flight_max} in flight")
            }
        }
    }
}

#[cfg(test)]
mod tests;
