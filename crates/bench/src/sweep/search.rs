//! Where the next step of a sweep goes: up by doubling until a rate is too high, then between the two. Pure.

/// A search for the highest rate that passes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    start: f64,
    /// A bracket of which the upper end is at most this share above the lower one is narrow enough.
    precision: f64,
    /// Highest rate that passed below all that did not.
    pub(super) passed: Option<f64>,
    /// Lowest rate that did not pass.
    pub(super) failed: Option<f64>,
}

impl Search {
    pub(super) fn new(start: f64, precision: f64) -> Self {
        Self { start, precision, passed: None, failed: None }
    }

    /// The rate to try next; none when the bracket is narrow enough.
    pub(super) fn next(&self) -> Option<f64> {
        match (self.passed, self.failed) {
            (None, None) => Some(self.start),
            (Some(passed), None) => Some(2.0 * passed),
            (None, Some(failed)) => Some(failed / 2.0),
            (Some(passed), Some(failed)) if failed <= passed * (1.0 + self.precision) => None,
            (Some(passed), Some(failed)) => Some(f64::midpoint(passed, failed)),
        }
    }

    /// Takes in what the rate that [`Search::next`] gave has shown.
    pub(super) fn tried(&mut self, rate: f64, passed: bool) {
        *if passed { &mut self.passed } else { &mut self.failed } = Some(rate);
    }
}

#[cfg(test)]
mod tests;
