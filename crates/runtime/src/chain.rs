//! One line for an error and its causes.
//!
//! It must not know any particular error.

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
mod tests;
