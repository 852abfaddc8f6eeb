//! What is known of one rank's block table, and how well.

use tito_kv_index::Table;
use tito_types::KvCounters;

use super::Clears;
use crate::metrics::TargetMetrics;

/// Why a rank is not compared that holds what device memory had dropped before it was told.
const UNKNOWN_BELOW: &str = "it holds blocks outside device memory that are not known";
/// Why a table is not complete that holds nothing but blocks shorter than announced.
const GUESSING: &str = "its events do not show yet how many tokens a block has";

#[derive(Debug)]
pub(super) struct Known {
    pub(super) table: Table,
    pub(super) state: KvState,
    pub(super) clears: Clears,
    /// Whether the feed, as far as it knows, has missed nothing.
    pub(super) proven: bool,
    /// What was lost here of what the feed told, since the table was last known to be empty.
    pub(super) lost: Option<String>,
    /// Whether an event named media with their offsets.
    pub(super) media_shown: bool,
    /// Why its events cannot tell media apart.
    pub(super) media_inexact: Option<String>,
    /// Why its events are no measure of what the engine reports as cached.
    pub(super) not_compared: Option<String>,
    /// Whether it told of blocks outside device memory that are not known here, since the table was last known to be empty.
    pub(super) unknown_below: bool,
    pub(super) counters: KvCounters,
    /// In device memory, host memory and storage.
    pub(super) blocks: [u64; 3],
}

/// How much of a block table is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KvState {
    /// The engine does not tell.
    Off(String),
    /// It was complete, and the feed is finding out whether it missed something since.
    Unproven,
    /// What is known is true; there may be more.
    Partial(String),
    /// All of it.
    Complete,
}

impl KvState {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Off(_) => "off",
            Self::Unproven | Self::Partial(_) => "partial",
            Self::Complete => "complete",
        }
    }

    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::Off(reason) | Self::Partial(reason) => Some(reason),
            Self::Unproven => Some("whether a batch is missing is being found out"),
            Self::Complete => None,
        }
    }

    /// Whether nothing is known to be lost.
    fn whole(&self) -> bool {
        matches!(self, Self::Complete | Self::Unproven)
    }
}

impl Known {
    pub(super) fn new(table: Table, state: KvState) -> Self {
        Self {
            table,
            state,
            clears: Clears::default(),
            proven: false,
            lost: None,
            media_shown: false,
            media_inexact: None,
            not_compared: None,
            unknown_below: false,
            counters: KvCounters::default(),
            blocks: [0; 3],
        }
    }

    /// Whether all of the table is known, as readers see it.
    pub(super) fn complete(&self) -> bool {
        self.state == KvState::Complete && !self.table.guessing()
    }

    /// How much of the table is known, as readers see it.
    pub(super) fn shown(&self) -> KvState {
        if self.state == KvState::Complete && !self.complete() {
            return KvState::Partial(GUESSING.to_owned());
        }
        self.state.clone()
    }

    /// Whether its events identify media: in a word, as readers see it.
    pub(super) fn media(&self) -> &'static str {
        match (&self.state, &self.media_inexact, self.media_shown) {
            (KvState::Off(_), ..) => "off",
            (_, Some(_), _) => "inexact",
            (_, None, true) => "exact",
            (_, None, false) => "unproven",
        }
    }

    /// Why what is known is no measure of what the engine reports as cached.
    pub(super) fn not_compared(&self) -> Option<&str> {
        let below = self.unknown_below.then_some(UNKNOWN_BELOW);
        self.not_compared.as_deref().or(below)
    }

    /// Something that the feed told is not in the table any more. What made it partial before is still why.
    pub(super) fn lose(&mut self, metrics: &TargetMetrics, reason: &str) {
        self.lost.get_or_insert_with(|| reason.to_owned());
        if self.state.whole() {
            self.partial(metrics, reason.to_owned());
        }
    }

    /// The engine holds nothing: whatever was lost of it here is gone there too.
    pub(super) fn begin_again(&mut self) {
        self.lost = None;
        self.whole_if_proven();
    }

    /// The feed may have missed something. What was told before stays.
    pub(super) fn unproven(&mut self) {
        self.proven = false;
        if self.state == KvState::Complete {
            self.state = KvState::Unproven;
        }
    }

    /// Complete, unless something was lost on the way here, which is then why it is not.
    pub(super) fn whole_if_proven(&mut self) {
        if self.proven {
            self.state = self.lost.clone().map_or(KvState::Complete, KvState::Partial);
        }
    }

    pub(super) fn partial(&mut self, metrics: &TargetMetrics, reason: String) {
        if self.state.whole() {
            metrics.became_partial();
        }
        self.state = KvState::Partial(reason);
    }
}
