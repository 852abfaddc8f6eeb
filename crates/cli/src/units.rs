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
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_unless_they_say_otherwise() {
        let check = |text: &str, expected: Result<u64, &str>| {
            let found = duration(text).map(|time| time.as_millis() as u64);
            assert_eq!(found, expected.map_err(ToOwned::to_owned), "{text}");
        };
        check("10", Ok(10_000));
        check("0.5", Ok(500));
        check("250ms", Ok(250));
        check("5m", Ok(300_000));
        check("1h", Ok(3_600_000));
        check("0", Ok(0));
        check("-1", Err("must be a positive, finite time"));
        check("1e300", Err("must be a positive, finite time"));
        check("nan", Err("unknown unit `nan`: use ms, s, m or h"));
        check("", Err("a number with an optional unit: 10, 250ms, 5m"));
        check("5d", Err("unknown unit `d`: use ms, s, m or h"));
        assert_eq!(limit("0"), Ok(Limit(None)));
        assert_eq!(limit("2"), Ok(Limit(Some(Duration::from_secs(2)))));
    }

    #[test]
    fn sizes_are_bytes_unless_they_say_otherwise() {
        assert_eq!(bytes("64MiB"), Ok(64 << 20));
        assert_eq!(bytes("7"), Ok(7));
        assert_eq!(bytes("99999999999GiB"), Err("too large".into()));
        assert_eq!(bytes("1MB"), Err("unknown unit `MB`: use B, KiB, MiB or GiB".into()));
        assert_eq!(bytes("1.5MiB"), Err("a whole number with an optional unit: 64MiB".into()));
    }
}
