//! The short forms a command line offers for spans, routes and arrivals.

use std::fmt;
use std::str::FromStr;

use super::{Api, ArrivalProcess, Span};

/// A value that does not have the form its type wants.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {wanted}")]
pub struct ParseError {
    /// What was written.
    pub given: String,
    /// What could have been.
    pub wanted: &'static str,
}

pub(super) fn wrong<T>(given: &str, wanted: &'static str) -> Result<T, ParseError> {
    Err(ParseError { given: given.to_owned(), wanted })
}

impl FromStr for Span {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self { first, last }),
            _ => wrong(text, "a number N or a range FIRST-LAST"),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { first, last } if first == last => write!(f, "{first}"),
            Self { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

impl FromStr for Api {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "generate" => Ok(Self::Generate),
            "completions" => Ok(Self::Completions),
            _ => wrong(text, "`generate` or `completions`"),
        }
    }
}

impl FromStr for ArrivalProcess {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "poisson" => Ok(Self::Poisson),
            "constant" => Ok(Self::Constant),
            _ => wrong(text, "`poisson` or `constant`"),
        }
    }
}

#[cfg(test)]
mod tests;
