use std::io::{BufReader, Read as _, repeat};
use std::path::Path;

use serde::Deserialize;

use super::{LINE_BYTES_MAX, parse, read};

#[derive(Deserialize)]
struct Row {
    n: u32,
}

/// The numbers read, or the error.
fn numbers(text: &str, lines: Option<u64>) -> Result<Vec<u32>, String> {
    let mut found = Vec::new();
    let take = |row: Row| {
        found.push(row.n);
        if row.n < 100 { Ok(()) } else { Err(format!("{} is too large", row.n)) }
    };
    let parsed = parse(text.as_bytes(), Path::new("f"), lines, take);
    parsed.map(|()| found).map_err(|error| error.to_string())
}

#[track_caller]
fn check(text: &str, lines: Option<u64>, expected: Result<&[u32], &str>) {
    assert_eq!(numbers(text, lines), expected.map(<[u32]>::to_vec).map_err(str::to_owned));
}

#[test]
fn every_line_is_an_object_and_the_last_needs_no_end() {
    check("{\"n\":1}\n\n  {\"n\":2, \"more\":[]}\r\n{\"n\":3}", None, Ok(&[1, 2, 3]));
    check("{\"n\":1}\n{\"n\":2}\nnonsense", Some(2), Ok(&[1, 2]));
}

#[test]
fn a_mistake_is_named_by_file_and_line() {
    check("", None, Err("f: holds no request"));
    check("\n\n", None, Err("f: holds no request"));
    check("{\"n\":1}\n[2]", None, Err("f:2: a line must be a JSON object"));
    check("{\"n\":1}\n\n{\"n\":}", None, Err("f:3: column 6: expected value"));
    check("{}", None, Err("f:1: column 2: missing field `n`"));
    check("{\"n\":1}\n{\"n\":100}", None, Err("f:2: 100 is too large"));
}

#[test]
fn a_line_without_an_end_is_given_up_at_its_bound() {
    let endless = BufReader::new(repeat(b' ').take(LINE_BYTES_MAX + 2));
    let error = parse(endless, Path::new("f"), None, |_: Row| Ok(())).unwrap_err();
    assert_eq!(error.to_string(), format!("f:1: longer than {LINE_BYTES_MAX} bytes"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = read(Path::new("/nonexistent/f"), None, |_: Row| Ok(())).unwrap_err();
    assert_eq!(error.to_string(), "/nonexistent/f: cannot be read");
}
