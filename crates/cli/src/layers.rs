//! One set of values from four places: flag > environment > file > default.
//!
//! A configuration file is TOML whose keys equal the long flags. Its values become flags and are read by the same
//! parser, so a setting has one type, one range and one message wherever it was written.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};
use std::path::{Path, PathBuf};

use clap::builder::FalseyValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use toml::Value;

use crate::args;

/// Largest configuration file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    Flag,
    Env,
    File,
    Default,
}

/// Why the layers do not make one configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Usage(#[from] clap::Error),
    #[error("cannot read {path}", path = .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    #[error("{path} is larger than {FILE_BYTES_MAX} bytes", path = .0.display())]
    TooLarge(PathBuf),
    /// The line itself is not shown: it may hold a key.
    #[error("{path} is not TOML: line {line}: {message}", path = .path.display())]
    Syntax { path: PathBuf, line: usize, message: String },
    /// Every key and value that cannot be used, each with the place it was found in.
    #[error("{}", .0.join("; "))]
    Mistakes(Vec<String>),
}

impl Error {
    /// One line each.
    pub(crate) fn problems(self) -> Vec<String> {
        match self {
            Self::Mistakes(problems) => problems,
            Self::Usage(_) | Self::Read(..) | Self::TooLarge(_) | Self::Syntax { .. } => {
                vec![format!("{:#}", anyhow::Error::from(self))]
            }
        }
    }
}

/// The parsed values of one subcommand, and which of them the file gave.
#[derive(Debug)]
pub(crate) struct Layered {
    pub(crate) matches: ArgMatches,
    /// The command line with the file's values appended as flags.
    pub(crate) argv: Vec<OsString>,
    from_file: Vec<String>,
}

impl Layered {
    /// Reads `argv` (program name first) for `command`; a `--config` among it names the file.
    pub(crate) fn read(command: &Command, argv: &[OsString]) -> Result<Self, Error> {
        let said = lax(command.clone()).try_get_matches_from(argv)?;
        let (mut argv, mut from_file, mut problems) = (argv.to_vec(), Vec::new(), Vec::new());
        let path = said.get_one::<PathBuf>("config").cloned();
        if let Some(path) = &path {
            let (file, bad) = add_flags(command, &said, read_table(path)?, &mut argv);
            from_file = file;
            problems = bad.iter().map(|problem| format!("{}: {problem}", path.display())).collect();
        }
        let parsed = command.clone().try_get_matches_from(&argv);
        if parsed.is_err() || !problems.is_empty() {
            problems.extend(bad_values(command, &argv, |id| match (&path, said.value_source(id)) {
                (Some(path), _) if from_file.iter().any(|known| known == id) => path.display().to_string(),
                (_, Some(ValueSource::EnvVariable)) => "environment".to_owned(),
                _ => "command line".to_owned(),
            }));
        }
        if !problems.is_empty() {
            return Err(Error::Mistakes(problems));
        }
        Ok(Self { matches: parsed?, argv, from_file })
    }

    /// Where the value of the argument `id` came from.
    pub(crate) fn origin(&self, id: &str) -> Origin {
        if self.from_file.iter().any(|known| known == id) {
            return Origin::File;
        }
        match self.matches.value_source(id) {
            Some(ValueSource::CommandLine) => Origin::Flag,
            Some(ValueSource::EnvVariable) => Origin::Env,
            _ => Origin::Default,
        }
    }
}

/// Variables that are named like ours and that no command reads, such as misspelled settings.
pub(crate) fn unknown_variables() -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    add_variables(&args::command(), &mut known);
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("TITO_") && !known.contains(name)).collect()
}

fn add_variables(command: &Command, known: &mut BTreeSet<String>) {
    let names = command.get_arguments().filter_map(Arg::get_env);
    known.extend(names.map(|name| name.to_string_lossy().into_owned()));
    for inner in command.get_subcommands() {
        add_variables(inner, known);
    }
}

fn read_table(path: &Path) -> Result<toml::Table, Error> {
    let read = |error| Error::Read(path.to_owned(), error);
    if std::fs::metadata(path).map_err(read)?.len() > FILE_BYTES_MAX {
        return Err(Error::TooLarge(path.to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(read)?;
    toml::from_str(&text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.get(..start).unwrap_or_default().matches('\n').count() + 1;
        Error::Syntax { path: path.to_owned(), line, message: error.message().to_owned() }
    })
}

/// The command with every value taken as it is, to see what was said before asking whether it is right.
pub(crate) fn lax(command: Command) -> Command {
    command.mut_args(|arg| {
        if arg.get_id() == "config" {
            arg
        } else if arg.get_action().takes_values() {
            arg.value_parser(value_parser!(OsString))
        } else {
            // What is not said on the command line may stand in the environment, as any text.
            arg.value_parser(FalseyValueParser::new())
        }
    })
}

/// Every value that its setting does not take: the parser stops at the first, so each setting is judged alone.
fn bad_values(command: &Command, argv: &[OsString], place: impl Fn(&str) -> String) -> Vec<String> {
    let judge = |arg: &Arg| {
        let id = arg.get_id().as_str();
        let error = lax(command.clone()).mut_arg(id, |_| arg.clone()).try_get_matches_from(argv).err()?;
        let about_value = matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation);
        about_value.then(|| format!("{}: {}", place(id), one_line(&error)))
    };
    command.get_arguments().filter_map(judge).collect()
}

/// What the parser says about a value, without its hints on how to get help.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let said = text.split("\n\n").next().unwrap_or_default();
    let lines: Vec<&str> = said.trim_start_matches("error: ").lines().map(str::trim).collect();
    let line = lines.join(" ");
    let Some(source) = error.source().and_then(|source| source.downcast_ref::<ParseIntError>()) else {
        return line;
    };
    let ours = match source.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "out of range",
        _ => "not a whole number",
    };
    line.replace(&source.to_string(), ours)
}

/// Appends the file's values as flags where nothing beats them. Returns their ids, and every bad key.
fn add_flags(
    command: &Command,
    matches: &ArgMatches,
    table: toml::Table,
    argv: &mut Vec<OsString>,
) -> (Vec<String>, Vec<String>) {
    let (mut from_file, mut problems) = (Vec::new(), Vec::new());
    for (key, value) in table {
        let known =
            command.get_arguments().find(|arg| arg.get_long() == Some(key.as_str()) && is_setting(arg));
        let Some(arg) = known else {
            let meant = meant(command, &key).map(|meant| format!("; did you mean `{meant}`?"));
            let meant = meant.unwrap_or_default();
            problems.push(format!("unknown key `{key}`: keys are the long flags of tito serve{meant}"));
            continue;
        };
        let id = arg.get_id().as_str();
        let beaten =
            matches!(matches.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable));
        match flags_of(arg, &key, value) {
            Ok(_) if beaten => {}
            Ok(flags) => {
                from_file.push(id.to_owned());
                argv.extend(flags.into_iter().map(OsString::from));
            }
            Err(problem) => problems.push(problem),
        }
    }
    (from_file, problems)
}

/// The key that looks most like an unknown one, if any: as a flag, the parser knows.
fn meant(command: &Command, key: &str) -> Option<String> {
    let error = command.clone().try_get_matches_from(["tito".to_owned(), format!("--{key}=")]).err()?;
    let Some(ContextValue::String(flag)) = error.get(ContextKind::SuggestedArg) else { return None };
    let name = flag.strip_prefix("--")?;
    let known = command.get_arguments().any(|arg| arg.get_long() == Some(name) && is_setting(arg));
    known.then(|| name.to_owned())
}

/// Whether a file may hold it.
pub(crate) fn is_setting(arg: &Arg) -> bool {
    let id = arg.get_id().as_str();
    !matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    ) && !matches!(id, "config" | "json")
}

fn flags_of(arg: &Arg, key: &str, value: Value) -> Result<Vec<String>, String> {
    let takes_value = arg.get_action().takes_values();
    match value {
        Value::Boolean(on) if !takes_value => Ok(on.then(|| format!("--{key}")).into_iter().collect()),
        _ if !takes_value => Err(format!("`{key}` must be true or false")),
        Value::Array(items) if matches!(arg.get_action(), ArgAction::Append) => {
            let texts = items.into_iter().map(|item| scalar(key, item));
            texts.map(|text| Ok(format!("--{key}={}", text?))).collect()
        }
        value => Ok(vec![format!("--{key}={}", scalar(key, value)?)]),
    }
}

fn scalar(key: &str, value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(value) => Ok(value.to_string()),
        Value::Array(_) => Err(format!("`{key}` takes one value, not a list")),
        Value::Datetime(_) | Value::Table(_) => {
            Err(format!("`{key}` must be a string, a number or a boolean"))
        }
    }
}

#[cfg(test)]
mod tests;
