//! Reports as a reader in a terminal wants them.

mod comparison;

use std::fmt;
use std::time::Duration;

use crate::config::{Api, ArrivalProcess, Load, Stop, WorkloadConfig};
use crate::report::{Clock, Percentiles, Report};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let api = match self.target.api {
            Api::Generate => "generate",
            Api::Completions => "completions",
        };
        writeln!(f, "{}  {} ({api})", self.target.name, self.target.url)?;
        writeln!(f, "  {}", WorkloadLine(&self.workload))?;
        writeln!(f, "  {}", LoadLine(self.load))?;
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
        fmt_costs(self, f)?;
        for (kind, failures) in &self.failures {
            writeln!(f, "FAILED       {} × {kind}: {}", failures.count, failures.example)?;
        }
        if requests.shed > 0 {
            writeln!(f, "FAILED       {} arrivals shed: too many requests in flight", requests.shed)?;
        }
        for error in &self.process_errors {
            writeln!(f, "FAILED       {error}")?;
        }
        if self.gave_up {
            writeln!(f, "FAILED       gave up after {} failed requests", self.limits.failures_max)?;
        }
        Ok(())
    }
}

fn fmt_times(report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if report.e2e_ms.is_none() {
        return Ok(()); // without a right reply there is nothing to show
    }
    write!(f, "{:<12}", "ms")?;
    let columns = ["mean", "p50", "p90", "p95", "p99", "p99.9", "max"];
    columns.iter().try_for_each(|column| write!(f, "{column:>11}"))?;
    writeln!(f)?;
    let rows = [
        ("TTFT", report.ttft_ms),
        ("ITL", report.itl_ms),
        ("TPOT", report.tpot_ms),
        ("E2E", report.e2e_ms),
        ("send lag", report.send_lag_ms),
    ];
    for (name, times) in rows {
        let Some(Percentiles { count: _, mean, p50, p90, p95, p99, p99_9, max }) = times else { continue };
        write!(f, "{name:<12}")?;
        [mean, p50, p90, p95, p99, p99_9, max].iter().try_for_each(|time| write!(f, "{time:>11.3}"))?;
        writeln!(f)?;
    }
    match report.clock {
        Clock::ServiceTime => writeln!(f, "             from sending (closed loop: service time)"),
        Clock::IntendedTime => writeln!(f, "             from when the request was due (open loop)"),
    }
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
            prompt_tokens,
            output_tokens,
            ids: _,
            prefix,
            ignore_eos,
            stream,
            seed,
            prompt_seed: _,
        } = self.0;
        let mode = if *stream { "streaming" } else { "unary" };
        let exactly = if *ignore_eos { "" } else { "up to " };
        write!(
            f,
            "{mode}, {prompt_tokens} prompt tokens, {exactly}{output_tokens} output tokens, seed {seed}"
        )?;
        if prefix.tokens > 0 {
            write!(f, ", {} groups × {} siblings sharing {}", prefix.groups, prefix.siblings, prefix.tokens)?;
        }
        Ok(())
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
                let arrivals = match arrivals {
                    ArrivalProcess::Poisson => "Poisson",
                    ArrivalProcess::Constant => "constant",
                };
                write!(f, "open loop, {rate_per_s} requests/s ({arrivals}), {} s, ", seconds(duration))?;
                write!(f, "at most {in_flight_max} in flight")
            }
        }
    }
}

#[cfg(test)]
mod tests;
