//! Values with units on the command line.

use std::time::Duration;

/// Longest time that can be set: 30 days. Added to any instant, it stays far from overflow.
pub(crate) const TIME_MAX: Duration = Duration::from_hours(24 * 30);
/// Largest size that can be set, in bytes: no protobuf message is larger than 2 GiB.
pub(crate) const BYTES_MAX: usize = 2 << 30;
/// Most memory that anything can be given: 1 TiB.
pub(crate) const MEMORY_MAX: usize = 1 << 40;

/// `10`, `0.5`, `10s`, `250ms`, `5m`, `1h`: a plain number is seconds. From 0 to [`TIME_MAX`].
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
    let time = Duration::try_from_secs_f64(number * unit_seconds).ok().filter(|time| *time <= TIME_MAX);
    time.ok_or_else(|| format!("must be a time from 0 to {}h", TIME_MAX.as_secs() / 3600))
}

/// Like [`duration`], but not 0.
pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() { Err("must be longer than 0".to_owned()) } else { Ok(time) }
}

/// Like [`duration`], but 0 means that there is no limit.
pub(crate) fn limit(text: &str) -> Result<Limit, String> {
    let time = duration(text)?;
    Ok(Limit((!time.is_zero()).then_some(time)))
}

/// A time limit that may be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<Duration>);

/// `1048576`, `64KiB`, `32MiB`, `1GiB`. From 1 to [`BYTES_MAX`].
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    size(text, BYTES_MAX)
}

/// Like [`bytes`], up to [`MEMORY_MAX`].
pub(crate) fn memory(text: &str) -> Result<usize, String> {
    size(text, MEMORY_MAX)
}

fn size(text: &str, max: usize) -> Result<usize, String> {
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
    let size = number.checked_mul(unit).filter(|size| (1..=max).contains(size));
    size.ok_or_else(|| format!("must be a size from 1 byte to {}GiB", max >> 30))
}

/// Like [`bytes`], and 0.
pub(crate) fn bytes_or_none(text: &str) -> Result<usize, String> {
    if text == "0" { Ok(0) } else { bytes(text) }
}

#[cfg(test)]
mod tests;
