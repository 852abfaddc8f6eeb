//! What would a policy have done with this traffic? A trace is replayed in virtual time over simulated engines.
//!
//! Policy, ledger, block identity and index are the ones the router uses; only the engines are simulated, by
//! `tito-engine-sim`, whose block events reach the index with a delay as they do on a network. Nothing here reads a
//! clock, a file or a random source: the same trace and configuration give the same report.

mod bounds;
mod config;
mod content;
mod drive;
mod feed;
mod plot;
mod prompts;
mod random;
mod report;
mod residency;
mod trace;
mod turns;
mod worker;

pub use config::{Arrivals, EngineProfile, Error, ReplayConfig};
pub use drive::Served;
pub use feed::EventPath;
pub use plot::{html, svg};
pub use report::{Balance, BestHitRates, PolicyReport, Report, Spread, TurnShares};
pub use tito_engine_sim::Timing;
pub use trace::TraceRequest;

use bounds::one_cache;
use drive::Drive;
use prompts::Prompts;

/// Replays the trace once per policy. `progress` is told how many requests of how many are over, now and then and at
/// the end; all policies together are the whole.
pub fn run(
    trace: &[TraceRequest],
    config: &ReplayConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, Error> {
    config.check(trace)?;
    let prompts = Prompts::new(trace, config);
    // Where arrivals wait for replies, the recorded order bounds nothing.
    let bounded = config.arrivals == Arrivals::Recorded;
    let best = bounded.then(|| one_cache(trace, &prompts, &config.engine)).flatten();
    let total = (trace.len() * config.policies.len()) as u64;
    let mut policies = Vec::with_capacity(config.policies.len());
    for (index, &policy) in config.policies.iter().enumerate() {
        let before = (index * trace.len()) as u64;
        let mut drive = Drive::new(trace, &prompts, config, policy);
        drive.run(&mut |done| progress(before + done, total));
        policies.push(drive.report(best));
    }
    progress(total, total);
    Ok(Report {
        workers: config.workers,
        requests: trace.len() as u64,
        prompt_tokens: trace.iter().map(|request| u64::from(request.input_length)).sum(),
        output_tokens: trace.iter().map(|request| u64::from(request.output_length)).sum(),
        seconds: prompts.seconds(),
        turns: TurnShares::of(&prompts),
        one_cache_hit_rate: best,
        policies,
    })
}

/// Replays the trace under the first policy of the configuration. What became of each request, in the order of the trace.
pub fn serve(trace: &[TraceRequest], config: &ReplayConfig) -> Result<Vec<Served>, Error> {
    config.check(trace)?;
    let prompts = Prompts::new(trace, config);
    let mut drive = Drive::new(trace, &prompts, config, config.policies[0]);
    drive.run(&mut |_| ());
    Ok(drive.served())
}

#[cfg(test)]
mod tests;
