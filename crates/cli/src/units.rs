//! Values with units on the command line.

use std::time::Duration;

/// `10`, `0.5`, `10s`, `250ms`, `5m`, `1h`: a plain number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_seconds = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("unknown unit `{unit}`: use ms, s, m or h")),
    };
    let number: f64 =
        digits.parse().map_err(|_| "a number with an optional unit: 10, 250ms, 5m".to_owned())?;
    Duration::try_from_secs_f64(number * unit_seconds)
        .map_err(|_| "must be a positive, finite time".to_owned())
}

/// Like [`duration`], but 0 means that there is no limit.
pub(crate) fn limit(text: &str) -> Result<Limit, String> {
    let time = duration(text)?;
    Ok(Limit((!time.is_zero()).then_some(time)))
}

/// A time limit that may be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<Duration>);

/// `1048576`, `64KiB`, `32MiB`, `1GiB`.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: usize = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        unit => return Err(format!("unknown unit `{unit}`: use B, KiB, MiB or GiB")),
    };
    let number: usize =
        digits.parse().map_err(|_| "a whole number with an optional unit: 64MiB".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "too large".to_owned())
}

#[cfg(test)]
mod tests;
