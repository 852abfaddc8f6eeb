use std::error::Error;
use std::{fmt, iter};

/// An error and everything that caused it, on one line. No error of ours prints its own source.
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        iter::successors(self.0.source(), |&cause| cause.source())
            .try_for_each(|cause| write!(f, ": {cause}"))
    }
}

#[cfg(test)]
mod tests {
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
}
