//! One measurement from beginning to end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::arrivals::Arrivals;
use crate::caller::Caller;
use crate::config::{BenchConfig, ConfigError, ConfigErrors, Load, PromptSource, Stop, defaults};
use crate::connection::{Network, Pool, ResolveError, TlsError, Transport};
use crate::lag::{LoopLag, Probe};
use crate::pacer::Pacer;
use crate::phase::Phase;
use crate::process::{ProcessError, Reading};
use crate::progress::{Progress, Total};
use crate::report::{Costs, Measured, Report};
use crate::target::{Endpoint, RequestHead};
use crate::workload::Workload;

/// Why a run could not begin or go on. A request that fails is not an error; it is counted in the report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error("bad configuration")]
    Config(#[source] ConfigErrors),
    /// The target's name has no address.
    #[error("cannot look up `{host}`")]
    Resolve {
        /// The name.
        host: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// No TLS connection can be made to the target.
    #[error(transparent)]
    Tls(TlsError),
    /// A process to be measured is not there to begin with.
    #[error("cannot measure a process")]
    Process(#[source] ProcessError),
    /// The system's timer failed.
    #[error("the timer failed")]
    Timer(#[source] io::Error),
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::Config(ConfigErrors(vec![error]))
    }
}

/// Measures one target. The future may be dropped at any time; its requests are then cut off.
pub async fn run(config: &BenchConfig, progress: &Arc<dyn Progress>) -> Result<Report, Error> {
    config.check().map_err(Error::Config)?;
    let endpoint = Endpoint::parse(&config.target.url)?;
    let transport = Network::resolve(&endpoint, &config.target.trust).await;
    let transport = transport.map_err(|error| match error {
        ResolveError::Name(source) => Error::Resolve { host: endpoint.host, source },
        ResolveError::Tls(error) => Error::Tls(error),
    })?;
    let pacer = Pacer::exact().map_err(Error::Timer)?;
    run_over(config, transport, &pacer, progress).await
}

/// The same over any transport and pacer.
pub(crate) async fn run_over<T: Transport>(
    config: &BenchConfig,
    transport: T,
    pacer: &Pacer,
    progress: &Arc<dyn Progress>,
) -> Result<Report, Error> {
    let pool = Arc::new(Pool::new(transport));
    let workload = Workload::try_new(&config.target, &config.workload, requests(config.load))?;
    let caller = caller(config, &pool, workload)?;
    let before = read_processes(config)?;
    let name = &config.target.name;

    let warmup = warmup_phase(config, &pool, progress)?;
    if config.warmup_requests > 0 {
        progress.begin(&format!("{name}, warm-up"), Total::Requests(config.warmup_requests));
        let stop = Stop::Requests(config.warmup_requests);
        let sent = warmup.closed_loop(warmup_concurrency(config), stop, pacer).await;
        sent.map_err(Error::Timer)?;
        progress.end();
    }

    // Read again: what the warm-up cost is not part of the run, and what did not survive it has no cost.
    let (mut survived, mut vanished) = (Vec::new(), Vec::new());
    for before in before {
        before.again().map_or_else(|error| vanished.push(error.to_string()), |now| survived.push(now));
    }
    let generator_before = Reading::take(std::process::id()).ok();
    let probe = Probe::start(&caller.lag, pacer).map_err(Error::Timer)?;
    progress.begin(name, total(config));
    let begin = Instant::now();
    let phase = Phase::new(&caller, progress, &config.report, Some(name.clone()));
    // What did not survive the warm-up, or gave no right reply in it, is not measured.
    let useless = warmup.gave_up() || (config.warmup_requests > 0 && !warmup.was_answered());
    if !useless {
        match config.load {
            Load::Closed { concurrency, stop } => {
                phase.closed_loop(concurrency, stop, pacer).await.map_err(Error::Timer)?;
            }
            Load::Open { rate_per_s, arrivals, duration, in_flight_max } => {
                let arrivals = Arrivals::new(arrivals, rate_per_s, config.workload.seed);
                let sent = phase.open_loop(arrivals, duration, in_flight_max, pacer).await;
                sent.map_err(Error::Timer)?;
            }
            Load::FixedSchedule { speed, duration, in_flight_max } => {
                let PromptSource::Trace { trace } = &config.workload.prompts else {
                    return Err(ConfigError::NoSchedule.into());
                };
                let end = trace.duration(speed) + Duration::from_nanos(1); // the last arrival included
                let duration = duration.map_or(end, |duration| duration.min(end));
                let sent = phase.open_loop(trace.arrivals(speed), duration, in_flight_max, pacer).await;
                sent.map_err(Error::Timer)?;
            }
        }
    }
    probe.end().map_err(Error::Timer)?;
    let costs = costs(survived, vanished, generator_before);
    progress.end();

    let gave_up = useless || phase.gave_up();
    let prompts = phase.prompts();
    let (warmup, stats) = (warmup.into_stats(), phase.into_stats());
    let connections_opened = pool.opened();
    Ok(Report::new(config, Measured { warmup, stats, prompts, begin, costs, connections_opened, gave_up }))
}

/// Requests like those that are measured, with prompts of their own: whatever prefix cache they fill, the measured
/// requests find nothing of theirs in it.
fn warmup_phase<T: Transport>(
    config: &BenchConfig,
    pool: &Arc<Pool<T>>,
    progress: &Arc<dyn Progress>,
) -> Result<Arc<Phase<T>>, Error> {
    let workload = Workload::warmup(&config.target, &config.workload, config.warmup_requests)?;
    Ok(Phase::new(&caller(config, pool, workload)?, progress, &config.report, None))
}

fn caller<T: Transport>(
    config: &BenchConfig,
    pool: &Arc<Pool<T>>,
    workload: Workload,
) -> Result<Arc<Caller<T>>, Error> {
    Ok(Arc::new(Caller {
        pool: Arc::clone(pool),
        head: RequestHead::new(&config.target, config.workload.stream)?,
        workload,
        ignore_eos: config.workload.ignore_eos,
        stream: config.workload.stream,
        limits: config.limits,
        lag: Arc::new(LoopLag::new()),
    }))
}

/// How many requests a loop sends, where that is known before.
fn requests(load: Load) -> Option<u64> {
    match load {
        Load::Closed { stop: Stop::Requests(requests), .. } => Some(requests),
        Load::Closed { stop: Stop::Time(_), .. } | Load::Open { .. } | Load::FixedSchedule { .. } => None,
    }
}

/// A closed loop warms up as it will run; an open loop with no more than a usual closed one, because a burst of all it
/// might have in flight is not what it will send.
fn warmup_concurrency(config: &BenchConfig) -> u32 {
    let concurrency = match config.load {
        Load::Closed { concurrency, .. } => concurrency,
        Load::Open { in_flight_max, .. } | Load::FixedSchedule { in_flight_max, .. } => {
            in_flight_max.min(defaults::CONCURRENCY)
        }
    };
    u64::from(concurrency).min(config.warmup_requests) as u32
}

fn total(config: &BenchConfig) -> Total {
    match config.load {
        Load::Closed { stop: Stop::Requests(requests), .. } => Total::Requests(requests),
        Load::Closed { stop: Stop::Time(duration), .. }
        | Load::Open { duration, .. }
        | Load::FixedSchedule { duration: Some(duration), .. } => Total::Time(duration),
        Load::FixedSchedule { duration: None, .. } => Total::Requests(match &config.workload.prompts {
            PromptSource::Trace { trace } => trace.requests(),
            PromptSource::Random { .. } | PromptSource::DataSet { .. } => 0,
        }),
    }
}

pub(crate) fn read_processes(config: &BenchConfig) -> Result<Vec<Reading>, Error> {
    let readings = config.target.pids.iter().map(|pid| Reading::take(*pid));
    readings.collect::<Result<_, _>>().map_err(Error::Process)
}

fn costs(before: Vec<Reading>, vanished: Vec<String>, generator_before: Option<Reading>) -> Costs {
    let mut costs = Costs { errors: vanished, ..Costs::default() };
    for before in before {
        match before.again() {
            Ok(after) => costs.pairs.push((before, after)),
            Err(error) => costs.errors.push(error.to_string()),
        }
    }
    costs.generator = generator_before.and_then(|before| before.again().ok().map(|after| (before, after)));
    costs
}

#[cfg(test)]
mod tests;
