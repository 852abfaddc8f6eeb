//! What an engine last said that one of its ranks has to do.

use std::time::Duration;

use tito_engine::LOAD_EVERY;
use tito_types::EngineLoad;
use tokio::time::Instant;

/// What an engine said of its load holds for so long: until it should have said it again three times.
pub const LOAD_HOLDS: Duration = Duration::from_secs(3 * LOAD_EVERY.as_secs());

/// One thing that an engine said of one rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToldLoad {
    /// Grows with each that the same target got.
    pub number: u64,
    /// What it said.
    pub load: EngineLoad,
}

#[derive(Debug, Default)]
pub(super) struct Said {
    number: u64,
    last: Option<(Instant, EngineLoad)>,
    /// Why it is not known, where it was asked for.
    pub(super) problem: Option<String>,
}

impl Said {
    pub(super) fn book(&mut self, load: Result<EngineLoad, &str>) {
        self.number += 1;
        self.last = load.ok().map(|load| (Instant::now(), load));
        self.problem = load.err().map(str::to_owned);
    }

    pub(super) fn latest(&self) -> Option<ToldLoad> {
        let (at, load) = self.last?;
        (at.elapsed() < LOAD_HOLDS).then_some(ToldLoad { number: self.number, load })
    }
}
