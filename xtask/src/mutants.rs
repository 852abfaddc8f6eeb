//! `cargo xtask mutants`: how many of a seeded sample of mutants the tests catch.
//!
//! A mutant is the code with one change that a test should notice, as `cargo mutants` makes it. Each is tested by its own
//! crate first; only what survives is tested by the crates that run everything together. Mutants that do not compile are
//! replaced by the next ones that the seed draws, so that the sample consists of viable ones.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::workspace::{Crate, Workspace};
use crate::{Verdict, process, table};

use record::{Outcome, Record};
use tool::{Tests, Tree};

mod record;
mod sample;
mod tool;

/// Where decisions are made: what is sampled when nothing else is asked for.
const PACKAGES: [&str; 6] =
    ["tito-dataplane", "tito-policy", "tito-router", "tito-fleet", "tito-formats", "tito-kv-index"];

/// Own tests of every crate first, then those once more that may have hung for want of a core, then everything together.
const STEPS: [(Option<Outcome>, Tests); 3] = [
    (None, Tests::Own),
    (Some(Outcome::TimedOut), Tests::Own),
    (Some(Outcome::MissedByOwn), Tests::WholeStack),
];

/// Arguments of `cargo xtask mutants`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Decides which mutants are drawn.
    #[arg(long)]
    seed: u64,
    /// How many viable mutants are tested; every one when there are fewer.
    #[arg(long, default_value_t = 300, value_name = "MUTANTS", value_parser = clap::value_parser!(u32).range(1..))]
    sample: u32,
    /// Crates to mutate, in equal shares; those that decide when absent, or with --base every one that changed.
    #[arg(long = "package", value_name = "NAME")]
    packages: Vec<String>,
    /// Only mutants in lines that changed since this commit.
    #[arg(long, value_name = "COMMIT")]
    base: Option<String>,
    /// Percentage of the sample that must be caught.
    #[arg(long, default_value_t = 95, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..=100))]
    at_least: u64,
    /// Stop after this many minutes; the next run goes on from there.
    #[arg(long, default_value_t = 600, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit_minutes: u64,
}

/// One crate's part of the sample.
struct Stratum<'a> {
    package: &'a Crate,
    /// Every mutant of the crate, in the order of the seed.
    drawn: Vec<String>,
    /// How many viable ones are wanted.
    share: usize,
}

/// Tests the sample and prints what was caught and what survived.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Verdict> {
    let deadline = Instant::now() + Duration::from_mins(args.limit_minutes);
    if process::output(&workspace.root, &["cargo", "mutants", "--version"]).is_err() {
        bail!("cargo-mutants is not installed: cargo install cargo-mutants --locked");
    }
    let commit = process::output(&workspace.root, &["git", "rev-parse", "HEAD"])?.trim().to_owned();
    let folder = format!("{}/mutants", workspace.target);
    std::fs::create_dir_all(&folder).with_context(|| format!("create {folder}"))?;
    let tree = Tree::checkout(workspace, &folder, &commit)?;
    let mut record = Record::open(Path::new(&format!("{folder}/{commit}.tsv")))?;
    let strata = strata(workspace, args, &tree)?;
    println!("mutants of commit {commit}, seed {}", args.seed);
    for (state, tests) in STEPS {
        for stratum in &strata {
            stratum.test(&tree, &mut record, state, tests, deadline)?;
        }
    }
    print!("\n{}", report(&strata, &record));
    Ok(verdict(&strata, &record, args.at_least))
}

fn strata<'a>(workspace: &'a Workspace, args: &Args, tree: &Tree) -> Result<Vec<Stratum<'a>>> {
    let packages = chosen(workspace, args)?;
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for mutant in tree.list(&packages, args.base.as_deref())? {
        names.entry(mutant.package).or_default().push(mutant.name);
    }
    let mut drawn: Vec<Vec<String>> =
        packages.iter().map(|package| names.remove(&package.name).unwrap_or_default()).collect();
    for names in &mut drawn {
        sample::draw(args.seed, names);
    }
    let shares = sample::shares(args.sample as usize, &drawn.iter().map(Vec::len).collect::<Vec<_>>());
    let strata = packages.into_iter().zip(drawn).zip(shares);
    Ok(strata.map(|((package, drawn), share)| Stratum { package, drawn, share }).collect())
}

/// The crates to mutate. The developer commands and the crates of tests are no product.
fn chosen<'a>(workspace: &'a Workspace, args: &Args) -> Result<Vec<&'a Crate>> {
    let find = |name: &str| {
        let mut crates = workspace.crates.iter();
        crates.find(|each| each.name == name).with_context(|| format!("there is no crate {name}"))
    };
    if !args.packages.is_empty() {
        return args.packages.iter().map(|name| find(name)).collect();
    }
    if args.base.is_none() {
        return PACKAGES.iter().map(|name| find(name)).collect();
    }
    let product =
        |each: &&Crate| !["xtask", "tito-testkit", "tito-test-support"].contains(&each.name.as_str());
    Ok(workspace.crates.iter().filter(product).collect())
}

impl Stratum<'_> {
    /// One step: tests those of the sample that are in this state. Rounds of the first step replace the unviable ones of
    /// the round before, until the share is full of viable mutants.
    fn test(
        &self,
        tree: &Tree,
        record: &mut Record,
        state: Option<Outcome>,
        tests: Tests,
        deadline: Instant,
    ) -> Result<()> {
        loop {
            let names = self.sample(record).into_iter().filter(|name| record.get(name) == state);
            let names: Vec<String> = names.map(str::to_owned).collect();
            let left = deadline.saturating_duration_since(Instant::now());
            if names.is_empty() || left.is_zero() {
                return Ok(());
            }
            println!("--- {}: {} mutants, tests: {tests:?}", self.package.name, names.len());
            let known = tree.test(self.package, &names, tests, left)?;
            if known.is_empty() && !deadline.saturating_duration_since(Instant::now()).is_zero() {
                bail!("cargo mutants tested none of the mutants of {}, see above", self.package.name);
            }
            for (name, outcome) in known {
                let hangs = outcome == Outcome::TimedOut && state.is_some();
                record.set(&self.package.name, &name, if hangs { Outcome::Hung } else { outcome })?;
            }
        }
    }

    /// The first mutants in the order of the seed that are viable or not known to be unviable.
    fn sample(&self, record: &Record) -> Vec<&str> {
        let viable = self.drawn.iter().filter(|name| record.get(name) != Some(Outcome::Unviable));
        viable.take(self.share).map(String::as_str).collect()
    }

    fn count(&self, record: &Record, outcomes: &[Outcome]) -> usize {
        let counted = |name: &&str| record.get(name).is_some_and(|outcome| outcomes.contains(&outcome));
        self.sample(record).into_iter().filter(counted).count()
    }

    /// Viable mutants of the sample whose outcome is final.
    fn tested(&self, record: &Record) -> usize {
        self.caught(record) + self.count(record, &[Outcome::Missed])
    }

    fn caught(&self, record: &Record) -> usize {
        self.count(record, &[Outcome::Caught, Outcome::CaughtAbove, Outcome::Hung])
    }

    fn row(&self, record: &Record) -> Vec<String> {
        let count = |outcome| self.count(record, &[outcome]).to_string();
        let unviable = self.drawn.iter().filter(|name| record.get(name) == Some(Outcome::Unviable)).count();
        vec![
            self.package.name.clone(),
            self.drawn.len().to_string(),
            self.sample(record).len().to_string(),
            unviable.to_string(),
            count(Outcome::Caught),
            count(Outcome::CaughtAbove),
            count(Outcome::Hung),
            count(Outcome::Missed),
            (self.sample(record).len() - self.tested(record)).to_string(),
        ]
    }
}

/// A row per crate, the share of the sample that was caught, and each survivor by name.
fn report(strata: &[Stratum<'_>], record: &Record) -> String {
    let header =
        ["crate", "mutants", "sample", "unviable", "caught", "caught above", "hung", "missed", "not tested"];
    let drawn: Vec<&Stratum<'_>> = strata.iter().filter(|stratum| !stratum.drawn.is_empty()).collect();
    let rows: Vec<Vec<String>> = drawn.iter().map(|stratum| stratum.row(record)).collect();
    let (caught, tested) = sums(strata, record);
    let share = if tested > 0 {
        format!("{:.1} %", caught as f64 / tested as f64 * 100.0)
    } else {
        "nothing was tested".to_owned()
    };
    let missed = drawn.iter().flat_map(|stratum| stratum.sample(record));
    let missed = missed.filter(|name| record.get(name) == Some(Outcome::Missed));
    let missed: String = missed.flat_map(|name| ["missed: ", name, "\n"]).collect();
    format!("{}{missed}mutants: {caught} of {tested} caught, {share}\n", table::markdown(&header, &rows))
}

/// Caught and tested mutants of every crate.
fn sums(strata: &[Stratum<'_>], record: &Record) -> (usize, usize) {
    let caught = strata.iter().map(|stratum| stratum.caught(record)).sum();
    let tested = strata.iter().map(|stratum| stratum.tested(record)).sum();
    (caught, tested)
}

/// Partial when the time ended before the sample, and when nothing was tested: no line with a mutant changed, say.
fn verdict(strata: &[Stratum<'_>], record: &Record, at_least: u64) -> Verdict {
    let (caught, tested) = sums(strata, record);
    let sample: usize = strata.iter().map(|stratum| stratum.sample(record).len()).sum();
    if (caught as u64) * 100 < at_least * tested as u64 {
        Verdict::Broken
    } else if tested == 0 || tested < sample {
        Verdict::Partial
    } else {
        Verdict::Holds
    }
}

#[cfg(test)]
mod tests;
