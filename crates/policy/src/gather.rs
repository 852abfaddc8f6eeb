//! What one query finds on each slot, found again in constant time. Reused, so that a choice allocates nothing.

use crate::Query;
use crate::cost::Held;
use crate::predicted::Predicted;
use crate::slots::Slots;

/// Leading tokens on one slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holding {
    pub(crate) slot: u32,
    pub(crate) held: Held,
}

#[derive(Debug, Default)]
pub(crate) struct Gather {
    pub(crate) holdings: Vec<Holding>,
    /// Per slot: the query that wrote it, and where its holding is.
    marks: Vec<(u64, u32)>,
    query: u64,
}

impl Gather {
    /// Brings events and predictions together.
    pub(crate) fn fill(&mut self, slots: &Slots, predicted: &Predicted, query: &Query<'_>) {
        self.query += 1;
        self.holdings.clear();
        self.marks.resize(slots.entries.len(), (0, 0));
        for overlap in query.overlaps {
            if slots.alive(overlap.slot)
                && query.groups.contains(&slots.hot[overlap.slot.index as usize].group)
            {
                let held = self.held_mut(overlap.slot.index);
                (held.gpu, held.cpu, held.storage) =
                    (overlap.gpu_tokens, overlap.cpu_tokens, overlap.storage_tokens);
            }
        }
        if let Some(prefix) = query.prefix {
            predicted.find(&prefix.chain, |slot, blocks| {
                if query.groups.contains(&slots.hot[slot as usize].group) {
                    let held = self.held_mut(slot);
                    held.predicted = held.predicted.max(blocks.saturating_mul(prefix.block_tokens));
                }
            });
        }
    }

    /// What a slot has of the prompt.
    pub(crate) fn held(&self, slot: u32) -> Held {
        let (query, at) = self.marks[slot as usize];
        if query == self.query { self.holdings[at as usize].held } else { Held::default() }
    }

    fn held_mut(&mut self, slot: u32) -> &mut Held {
        let mark = &mut self.marks[slot as usize];
        if mark.0 != self.query {
            *mark = (self.query, self.holdings.len() as u32);
            self.holdings.push(Holding { slot, held: Held::default() });
        }
        &mut self.holdings[mark.1 as usize].held
    }
}
