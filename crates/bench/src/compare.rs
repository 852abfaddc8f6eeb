//! Several targets under one load, in interleaved rounds.
//!
//! Machines are noisy and drift: a number measured now and one measured a minute later may differ by more than the
//! servers do. So the targets take turns, and what is compared is the ratio within a round; the median over the rounds
//! is reported.
//!
//! Targets may share what is behind them, and then the first to ask would fill the caches for the second. So all
//! targets of a round get prompts of the same lengths at the same times, but no run gets the prompts of another, and
//! each round begins with another target.

mod figures;
mod shared;
mod summary;

use std::error::Error as _;
use std::sync::Arc;

use serde::Serialize;

use crate::config::{self, BenchConfig, PromptSource, Target};
use crate::input::Matched;
use crate::progress::Progress;
use crate::report::Report;
use crate::rng::{Purpose, Rng};
use crate::run::{Error, read_processes, run};
use crate::table::UNCHECKED;
use crate::verdict::RunVerdict;

pub(crate) use summary::median;
pub use summary::{MinMax, TargetSummary};

/// The result of a comparison. The first target is the one the others are compared with.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The worst of its runs'.
    pub verdict: RunVerdict,
    /// Number of rounds that were measured whole.
    pub rounds: u32,
    /// Why no more rounds were measured, where more were asked for; null otherwise.
    pub stopped: Option<String>,
    /// One entry per target, in the order given.
    pub targets: Vec<TargetSummary>,
    /// Every run: round by round, in each the targets in the order given. Round r was begun by target r, modulo their
    /// number; the others followed in the order given, the first after the last.
    pub runs: Vec<Report>,
    /// What may bias the comparison, in sentences.
    pub warnings: Vec<String>,
}

impl Comparison {
    /// True when every run was.
    pub fn ok(&self) -> bool {
        self.verdict.ok()
    }

    /// Summarises runs made in rounds of `targets` runs each.
    pub(crate) fn new(rounds: u32, targets: usize, runs: Vec<Report>, warnings: Vec<String>) -> Self {
        let rounds_of_runs: Vec<&[Report]> = runs.chunks_exact(targets).collect();
        let summaries = (0..targets).map(|target| TargetSummary::new(target, &rounds_of_runs)).collect();
        let verdict = runs.iter().map(|run| run.verdict).max().unwrap_or(RunVerdict::Failed);
        Self { verdict, rounds, stopped: None, targets: summaries, runs, warnings }
    }

    /// The comparison could not go on, so it has failed.
    fn stopped(self, reason: String) -> Self {
        Self { verdict: self.verdict.max(RunVerdict::Failed), stopped: Some(reason), ..self }
    }
}

/// Measures `config.target` and each of `others` once per round. Round r uses the seed `config.workload.seed + r` for
/// all targets, and a prompt seed of its own for each. An error after the first round ends the comparison and leaves the rounds
/// before it.
pub async fn compare(
    config: &BenchConfig,
    others: &[Target],
    rounds: u32,
    progress: &Arc<dyn Progress>,
) -> Result<Comparison, Error> {
    config::rounds(rounds).map_err(Error::Config)?;
    let targets: Vec<_> = std::iter::once(&config.target).chain(others).collect();
    let matched = match &config.workload.prompts {
        PromptSource::DataSet { set, .. } => Some(Matched::new(set, targets.len())),
        PromptSource::Random { .. } | PromptSource::Trace { .. } => None,
    };
    let of = |target: usize, round: u32| {
        let mut config = BenchConfig { target: targets[target].clone(), ..config.clone() };
        config.workload.seed = config.workload.seed.wrapping_add(u64::from(round));
        config.workload.prompt_seed = prompt_seed(config.workload.prompt_seed, round, target);
        config.target.name = format!("{} {}/{rounds}", config.target.name, round + 1);
        if let (PromptSource::DataSet { order, .. }, Some(matched)) = (&mut config.workload.prompts, &matched)
        {
            *order = matched.order(target, share(matched, rounds) * u64::from(round));
        }
        config
    };
    for at in 0..targets.len() {
        let first = of(at, 0);
        first.check().map_err(Error::Config)?;
        read_processes(&first)?;
    }
    let mut backends = Vec::new();
    for target in &targets {
        backends.push(shared::backend(target).await);
    }
    let (mut runs, mut stopped) = (Vec::new(), None);
    'rounds: for round in 0..rounds {
        let mut turn = Vec::new();
        for at in order(round, targets.len()) {
            let name = &targets[at].name;
            match run(&of(at, round), progress).await {
                Ok(mut report) => {
                    report.target.name.clone_from(name);
                    turn.push((at, report));
                }
                Err(error) if round == 0 => return Err(error),
                Err(error) => {
                    stopped =
                        Some(format!("ended in round {} of {rounds}: {name}: {}", round + 1, words(&error)));
                    break 'rounds;
                }
            }
        }
        turn.sort_by_key(|(at, _)| *at);
        runs.extend(turn.into_iter().map(|(_, report)| report));
    }
    let mut warnings: Vec<_> = unchecked(&targets).into_iter().chain(shared::warnings(&backends)).collect();
    if let Some(matched) = &matched {
        warnings.extend(unequal(matched));
        warnings.extend(repeated(&runs, matched, rounds));
    }
    let measured = (runs.len() / targets.len()) as u32;
    let comparison = Comparison::new(measured, targets.len(), runs, warnings);
    Ok(match stopped {
        Some(reason) => comparison.stopped(reason),
        None => comparison,
    })
}

/// An error with its causes.
fn words(error: &Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}

/// How many prompts of a data set each run may send before it sends those of another run.
fn share(matched: &Matched, rounds: u32) -> u64 {
    matched.places() / u64::from(rounds)
}

/// A sentence where targets get prompts of other lengths than others.
fn unequal(matched: &Matched) -> Option<String> {
    let (unequal, places) = (matched.unequal, matched.places());
    (unequal > 0).then(|| {
        format!(
            "{unequal} of {places} prompts per target differ in length, or in the output asked for, from those of other \
             targets: the data set has too few that are equal"
        )
    })
}

/// A sentence where runs are known to send the same prompts of a data set.
fn repeated(runs: &[Report], matched: &Matched, rounds: u32) -> Option<String> {
    let requests = runs.iter().map(|run| run.requests.prompts).max()?;
    let (share, places) = (share(matched, rounds), matched.places());
    (requests > share).then(|| {
        format!(
            "{places} prompts per target are {share} for each run, and one sent {requests}: what one run asked \
             may be in a cache when another asks the same"
        )
    })
}

/// A sentence that names the targets whose certificates were accepted unseen.
fn unchecked(targets: &[&Target]) -> Option<String> {
    let names: Vec<_> = targets
        .iter()
        .filter(|target| target.certificates_checked() == Some(false))
        .map(|target| target.name.as_str())
        .collect();
    (!names.is_empty()).then(|| format!("{}: {UNCHECKED}", names.join(", ")))
}

/// The targets by number, in the order of their turns: each round begins with another one.
fn order(round: u32, targets: usize) -> impl Iterator<Item = usize> {
    (0..targets).map(move |turn| (round as usize + turn) % targets)
}

/// Another one for every run of a comparison.
fn prompt_seed(seed: u64, round: u32, target: usize) -> u64 {
    Rng::new(seed, Purpose::Run, u64::from(round) << 32 | target as u64).next_u64()
}

#[cfg(test)]
mod tests;
