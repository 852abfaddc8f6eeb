use std::io;

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("{words}")]
struct Outer<E: Error + 'static> {
    words: &'static str,
    source: E,
}

#[track_caller]
fn check(error: &dyn Error, expected: &str) {
    assert_eq!(Chain(error).to_string(), expected);
}

#[test]
fn an_error_is_shown_with_its_causes() {
    check(&Outer { words: "read keys", source: io::Error::other("disk gone") }, "read keys: disk gone");
}

#[test]
fn words_that_an_error_takes_from_its_cause_are_shown_once() {
    let refused = || Outer { words: "connect", source: io::Error::other("refused") };
    check(&Outer { words: "connect", source: refused() }, "connect: refused");
    check(&Outer { words: "refused", source: refused() }, "refused: connect: refused");
    let twice = Outer { words: "refused", source: io::Error::other("refused") };
    check(&Outer { words: "ask", source: twice }, "ask: refused");
}
