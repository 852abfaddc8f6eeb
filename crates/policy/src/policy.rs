//! How one of the slots that fit is chosen. Every policy sees the same view.

use std::fmt;
use std::str::FromStr;

use crate::random::Random;
use crate::tournament::Key;
use crate::view::View;

mod kv;
mod spread;

/// The policies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyKind {
    /// Least cost: prefill to compute, queued prefill included, plus decode load.
    Kv,
    /// The one not chosen for the longest.
    RoundRobin,
    /// Any, evenly.
    Random,
    /// The less loaded of two random ones.
    PowerOfTwo,
    /// The least loaded, whatever it holds.
    LeastLoaded,
    /// Only where the request is pinned.
    Direct,
}

/// The text names no policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl PolicyKind {
    /// All of them, in the order of their documentation.
    pub const ALL: [Self; 6] =
        [Self::Kv, Self::RoundRobin, Self::Random, Self::PowerOfTwo, Self::LeastLoaded, Self::Direct];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Kv => "kv",
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::PowerOfTwo => "power-of-two",
            Self::LeastLoaded => "least-loaded",
            Self::Direct => "direct",
        }
    }

    /// Only `kv` knows a temperature.
    pub(crate) fn build(self, temperature: f64) -> Box<dyn Policy> {
        match self {
            Self::Kv if temperature > 0.0 => Box::new(kv::Softmax { temperature }),
            Self::Kv => Box::new(kv::Cheapest),
            Self::RoundRobin => Box::new(spread::RoundRobin),
            Self::Random => Box::new(spread::Any),
            Self::PowerOfTwo => Box::new(spread::PowerOfTwo),
            // A pin may leave several slots, the ranks of a worker: the least loaded of them.
            Self::LeastLoaded | Self::Direct => Box::new(spread::LeastLoaded),
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|kind| kind.word() == text).ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = PolicyKind::ALL.map(PolicyKind::word).join(", ");
        write!(f, "no policy is called {:?}; there are {words}", self.0)
    }
}

impl std::error::Error for UnknownPolicy {}

/// Picks one of the slots that fit. None exactly when none fits.
pub(crate) trait Policy: fmt::Debug + Send {
    fn pick(&self, view: &View<'_>, random: &mut Random) -> Option<Key>;
}
