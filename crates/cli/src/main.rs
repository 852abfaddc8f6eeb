//! The `tito` binary: it reads the command line, puts the parts together and runs them.

// This is the program's face: what it prints is its output.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command prints its result and its errors")]

mod args;
mod bench;
mod check;
mod client;
mod data_plane;
mod demo;
mod layers;
mod mock;
mod operator;
mod plain_http;
mod process;
mod replay;
mod serve;
mod settings;
mod units;
mod workers;

use std::ffi::OsString;
use std::iter;
use std::process::ExitCode;

use clap::{ArgMatches, FromArgMatches as _};

use crate::args::{Action, Cli, WITH_SETTINGS};
use crate::layers::Layered;

fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    let lax =
        WITH_SETTINGS.into_iter().fold(args::command(), |all, name| all.mut_subcommand(name, layers::lax));
    let said = lax.get_matches_from(&argv);
    let command = name_of(&said);
    process::ended(&command, run(said, &argv))
}

/// `tito workers reset`: the command whose help tells more.
fn name_of(said: &ArgMatches) -> String {
    let inner = iter::successors(said.subcommand(), |(_, inner)| inner.subcommand());
    inner.fold("tito".to_owned(), |name, (part, _)| format!("{name} {part}"))
}

fn run(said: ArgMatches, argv: &[OsString]) -> ExitCode {
    let checks = said.subcommand_matches("check").map(|said| said.get_flag("json"));
    let cli = match parse(said, argv) {
        Ok(cli) => cli,
        Err(layers::Error::Usage(error)) => error.exit(),
        Err(error) => {
            let problems = error.problems();
            return checks
                .map_or_else(|| process::usage(&problems), |json| check::unreadable(json, &problems));
        }
    };
    match cli.command {
        Action::Serve(args) => serve::run(&args),
        Action::Check(args) => check::run(&args, argv),
        Action::Mock(args) => mock::run(*args),
        Action::Demo(args) => demo::run(&args),
        Action::Bench(args) => bench::run(*args),
        Action::Workers(args) => workers::run(&args),
        Action::Replay(args) => replay::run(&args),
    }
}

/// Converts what was said; the commands that take a configuration file read that too.
fn parse(mut matches: ArgMatches, argv: &[OsString]) -> Result<Cli, layers::Error> {
    let name = matches.subcommand_name().unwrap_or_default().to_owned();
    if WITH_SETTINGS.contains(&name.as_str()) {
        let (command, rest) = sub(&name, argv);
        let layered = Layered::read(&command, &rest)?;
        matches = args::command().try_get_matches_from(
            ["tito", &name].map(OsString::from).into_iter().chain(layered.argv.iter().skip(1).cloned()),
        )?;
    }
    Ok(Cli::from_arg_matches(&matches)?)
}

/// The command of that name by itself, and its part of `argv`.
pub(crate) fn sub(name: &str, argv: &[OsString]) -> (clap::Command, Vec<OsString>) {
    let command = args::command();
    let command =
        command.find_subcommand(name).expect("clap found it").clone().bin_name(format!("tito {name}"));
    (command, argv[1..].to_vec())
}
