//! One line for an error and its causes.
//!
//! It must not know any particular error.

use std::error::Error;
use std::{fmt, iter};

/// An error and everything that caused it, on one line. No error of ours prints its own source; where others hand on
/// the words of their cause as their own, these are shown once.
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        for cause in iter::successors(self.0.source(), |&cause| cause.source()) {
            let words = cause.to_string();
            if words != said {
                write!(f, ": {words}")?;
                said = words;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
