use std::io;

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("read {path}")]
struct Outer {
    path: &'static str,
    source: io::Error,
}

#[test]
fn an_error_is_shown_with_its_causes() {
    let error = Outer { path: "keys", source: io::Error::other("disk gone") };
    assert_eq!(Chain(&error).to_string(), "read keys: disk gone");
}
