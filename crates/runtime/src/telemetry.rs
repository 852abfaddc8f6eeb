//! The log: one subscriber, set once by the binary.

use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing::subscriber::{SetGlobalDefaultError, set_global_default};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The words of a level.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The level is none of the words and no list of `target=level`.
    #[error(
        "{0:?} is no level: use error, warn, info, debug, trace or off, or TARGET=LEVEL, joined by commas"
    )]
    Level(String),
    /// Something in this process has set up a log before.
    #[error("the log was set up twice")]
    Twice(#[source] SetGlobalDefaultError),
}

/// Sends log lines to standard error, which leaves standard output to commands that print results.
///
/// `level` is `error`, `warn`, `info`, `debug`, `trace` or `off`, optionally refined per target:
/// `info,access=off` drops the line that is otherwise written per request.
pub fn init(level: &str, format: LogFormat) -> Result<(), Error> {
    match format {
        LogFormat::Text => {
            let colour = io::stderr().is_terminal();
            set_global_default(text(level, colour, io::stderr)?).map_err(Error::Twice)
        }
        LogFormat::Json => set_global_default(json(level, io::stderr)?).map_err(Error::Twice),
    }
}

/// Whether [`init`] would take this level; sets nothing up.
pub fn check(level: &str) -> Result<(), Error> {
    filter(level).map(drop)
}

fn filter(level: &str) -> Result<EnvFilter, Error> {
    let none = || Error::Level(level.to_owned());
    // The library takes a bare word that is no level for a target, whose every line would then be logged and no other.
    let mut bare = level.split(',').filter(|part| !part.contains('='));
    let is_level = |word: &str| LEVELS.iter().any(|level| word.trim().eq_ignore_ascii_case(level));
    // Spans and their fields, in brackets, may hold commas: those are the library's to judge.
    if !level.contains('[') && bare.any(|word| !is_level(word)) {
        return Err(none());
    }
    EnvFilter::builder().parse(level).map_err(|_| none())
}

fn text<W>(level: &str, colour: bool, writer: W) -> Result<impl Subscriber + Send + Sync, Error>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    Ok(tracing_subscriber::fmt()
        .with_env_filter(filter(level)?)
        .with_ansi(colour)
        .with_writer(writer)
        .finish())
}

fn json<W>(level: &str, writer: W) -> Result<impl Subscriber + Send + Sync, Error>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    Ok(tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter(level)?)
        .with_writer(writer)
        .finish())
}

#[cfg(test)]
mod tests;
