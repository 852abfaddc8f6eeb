//! Lengths in tokens: fixed, drawn from a range, from a normal or log-normal distribution, or from a stated set.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::parse::{ParseError, wrong};
use super::{ConfigError, Span};
use crate::rng::Rng;

/// Most different lengths of a set.
const CHOICES_MAX: usize = 1000;
/// A normal or log-normal value is cut to this many standard deviations (of its logarithm), so that it has a bound.
const DEVIATIONS_MAX: f64 = 4.0;
/// What a text can be.
const FORMS: &str = "N, FIRST-LAST, normal:MEAN,STDDEV, lognormal:MEAN,STDDEV or N[:WEIGHT],N[:WEIGHT],…";

/// How a length is drawn. Written as a command line takes it, in JSON too.
#[derive(Debug, Clone, PartialEq)]
pub enum Lengths {
    /// Evenly from a range; `N` is always N.
    Even(Span),
    /// From a normal distribution, at least 1.
    Normal(Bell),
    /// From a log-normal distribution, at least 1: most are short, a few are long.
    LogNormal(Bell),
    /// From a set, each as often as its weight says.
    Set(Vec<Choice>),
}

/// Mean and standard deviation of lengths, in tokens, before they are cut at four deviations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bell {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
}

/// One length of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Tokens.
    pub tokens: u32,
    /// How often, in relation to the weights of the others.
    pub weight: u32,
}

impl Lengths {
    /// Always this many tokens.
    pub const fn fixed(tokens: u32) -> Self {
        Self::Even(Span { first: tokens, last: tokens })
    }

    /// Draws one. At least [`Lengths::min`], at most [`Lengths::max`].
    pub(crate) fn draw(&self, rng: &mut Rng) -> u32 {
        match self {
            Self::Even(span) => span.draw(rng),
            Self::Normal(bell) => bell.normal(rng.normal()),
            Self::LogNormal(bell) => bell.log_normal(rng.normal()),
            Self::Set(choices) => {
                let total: u64 = choices.iter().map(|choice| u64::from(choice.weight)).sum();
                let mut left = rng.below(total.max(1));
                let chosen = choices.iter().find(|choice| {
                    let weight = u64::from(choice.weight);
                    let found = left < weight;
                    left = left.saturating_sub(weight);
                    found
                });
                chosen.or(choices.last()).map_or(0, |choice| choice.tokens)
            }
        }
    }

    /// The shortest that can be drawn.
    pub fn min(&self) -> u32 {
        match self {
            Self::Even(span) => span.first,
            Self::Normal(bell) => bell.normal(-DEVIATIONS_MAX),
            Self::LogNormal(bell) => bell.log_normal(-DEVIATIONS_MAX),
            Self::Set(choices) => drawn(choices).min().unwrap_or(0),
        }
    }

    /// The longest that can be drawn.
    pub fn max(&self) -> u32 {
        match self {
            Self::Even(span) => span.last,
            Self::Normal(bell) => bell.normal(DEVIATIONS_MAX),
            Self::LogNormal(bell) => bell.log_normal(DEVIATIONS_MAX),
            Self::Set(choices) => drawn(choices).max().unwrap_or(0),
        }
    }

    /// What is wrong with it, apart from how short or long its values are.
    pub(super) fn check(&self, field: &'static str) -> Option<ConfigError> {
        match self {
            Self::Even(span) => (span.first > span.last).then_some(ConfigError::EmptySpan { field }),
            Self::Normal(Bell { mean, stddev }) | Self::LogNormal(Bell { mean, stddev }) => {
                let sound = mean.is_finite() && stddev.is_finite() && *mean >= 1.0 && *stddev >= 0.0;
                (!sound).then_some(ConfigError::Bell { field, mean: *mean, stddev: *stddev })
            }
            Self::Set(choices) => {
                let sound = choices.len() <= CHOICES_MAX && drawn(choices).next().is_some();
                (!sound).then_some(ConfigError::Choices { field, max: CHOICES_MAX })
            }
        }
    }
}

/// The lengths of a set that can be drawn at all.
fn drawn(choices: &[Choice]) -> impl Iterator<Item = u32> {
    choices.iter().filter(|choice| choice.weight > 0).map(|choice| choice.tokens)
}

impl Bell {
    /// The length that lies so many standard deviations above the mean.
    fn normal(&self, deviations: f64) -> u32 {
        round(self.mean + self.stddev * deviations.clamp(-DEVIATIONS_MAX, DEVIATIONS_MAX))
    }

    /// The same for the logarithm of the length, whose mean and deviation follow from those of the length.
    fn log_normal(&self, deviations: f64) -> u32 {
        let variance = (1.0 + (self.stddev / self.mean).powi(2)).ln();
        let deviations = deviations.clamp(-DEVIATIONS_MAX, DEVIATIONS_MAX);
        round((self.mean.ln() - variance / 2.0 + variance.sqrt() * deviations).exp())
    }
}

/// To a whole number of tokens, at least one. A cast saturates.
fn round(tokens: f64) -> u32 {
    tokens.round().max(1.0) as u32
}

impl From<Span> for Lengths {
    fn from(span: Span) -> Self {
        Self::Even(span)
    }
}

impl FromStr for Lengths {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bell = |text: &str| {
            let (mean, stddev) = text.split_once(',')?;
            Some(Bell { mean: mean.parse().ok()?, stddev: stddev.parse().ok()? })
        };
        let parsed = if let Some(text) = text.strip_prefix("normal:") {
            bell(text).map(Self::Normal)
        } else if let Some(text) = text.strip_prefix("lognormal:") {
            bell(text).map(Self::LogNormal)
        } else if text.contains([',', ':']) {
            text.split(',').map(choice).collect::<Option<_>>().map(Self::Set)
        } else {
            text.parse().ok().map(Self::Even)
        };
        parsed.map_or_else(|| wrong(text, FORMS), Ok)
    }
}

/// `N` or `N:WEIGHT`.
fn choice(text: &str) -> Option<Choice> {
    let (tokens, weight) = text.split_once(':').unwrap_or((text, "1"));
    Some(Choice { tokens: tokens.parse().ok()?, weight: weight.parse().ok()? })
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Even(span) => write!(f, "{span}"),
            Self::Normal(Bell { mean, stddev }) => write!(f, "normal:{mean},{stddev}"),
            Self::LogNormal(Bell { mean, stddev }) => write!(f, "lognormal:{mean},{stddev}"),
            Self::Set(choices) => choices.iter().enumerate().try_for_each(|(at, choice)| {
                let comma = if at == 0 { "" } else { "," };
                write!(f, "{comma}{}:{}", choice.tokens, choice.weight)
            }),
        }
    }
}

impl Serialize for Lengths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests;
