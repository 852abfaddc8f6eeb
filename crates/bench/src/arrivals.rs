//! Arrival times of an open loop: pure, endless, from a seed.

use std::time::Duration;

use crate::config::ArrivalProcess;
use crate::rng::{Purpose, Rng};

/// When each request is due, counted from the start of the loop.
#[derive(Debug)]
pub(crate) struct Arrivals {
    process: ArrivalProcess,
    rate_per_s: f64,
    rng: Rng,
    count: u64,
    random_s: f64,
}

impl Arrivals {
    pub(crate) fn new(process: ArrivalProcess, rate_per_s: f64, seed: u64) -> Self {
        let rng = Rng::new(seed, Purpose::Arrivals, 0);
        Self { process, rate_per_s, rng, count: 0, random_s: 0.0 }
    }

    /// The time that lies so many mean gaps after the last arrival.
    fn after(&mut self, mean_gaps: f64) -> f64 {
        self.random_s += mean_gaps / self.rate_per_s;
        self.random_s
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let due_s = match self.process {
            ArrivalProcess::Constant => self.count as f64 / self.rate_per_s,
            ArrivalProcess::Poisson => {
                let gap = -self.rng.positive_unit().ln();
                self.after(gap)
            }
            ArrivalProcess::Gamma { burstiness } => {
                let gap = self.rng.gamma(burstiness) / burstiness;
                self.after(gap)
            }
        };
        self.count += 1;
        Duration::try_from_secs_f64(due_s).ok()
    }
}

#[cfg(test)]
mod tests;
