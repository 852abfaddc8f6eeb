//! One set of values from four places: flag > environment > file > default.
//!
//! A configuration file is TOML whose keys equal the long flags. Its values become flags and are read by the same
//! parser, so a setting has one type, one range and one message wherever it was written.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::Value;

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
    #[error("{path} is not TOML: {1}", path = .0.display())]
    Syntax(PathBuf, toml::de::Error),
    #[error("{path}: {problems}", path = .0.display(), problems = .1.join("; "))]
    Keys(PathBuf, Vec<String>),
    #[error("{path}: {1}", path = .0.display())]
    Values(PathBuf, clap::Error),
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
        let matches = command.clone().try_get_matches_from(argv)?;
        let Some(path) = matches.get_one::<PathBuf>("config").cloned() else {
            return Ok(Self { matches, argv: argv.to_vec(), from_file: Vec::new() });
        };
        let table = read_table(&path)?;
        let mut argv = argv.to_vec();
        let from_file =
            add_flags(command, &matches, table, &mut argv).map_err(|bad| Error::Keys(path.clone(), bad))?;
        let matches =
            command.clone().try_get_matches_from(&argv).map_err(|error| Error::Values(path, error))?;
        Ok(Self { matches, argv, from_file })
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

fn read_table(path: &Path) -> Result<toml::Table, Error> {
    let read = |error| Error::Read(path.to_owned(), error);
    if std::fs::metadata(path).map_err(read)?.len() > FILE_BYTES_MAX {
        return Err(Error::TooLarge(path.to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(read)?;
    toml::from_str(&text).map_err(|error| Error::Syntax(path.to_owned(), error))
}

/// Appends the file's values as flags where nothing beats them. Returns their ids, or every bad key.
fn add_flags(
    command: &Command,
    matches: &ArgMatches,
    table: toml::Table,
    argv: &mut Vec<OsString>,
) -> Result<Vec<String>, Vec<String>> {
    let (mut from_file, mut problems) = (Vec::new(), Vec::new());
    for (key, value) in table {
        let known =
            command.get_arguments().find(|arg| arg.get_long() == Some(key.as_str()) && is_setting(arg));
        let Some(arg) = known else {
            problems.push(format!("unknown key `{key}`: keys are the long flags of tito serve"));
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
    if problems.is_empty() { Ok(from_file) } else { Err(problems) }
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
