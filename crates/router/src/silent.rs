//! Requests whose engine says nothing until the end: whether their prompt is computed is seen in its block table.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use tito_fleet::{Blocks, Target};
use tito_policy::{Prefix, Ticket};

/// Requests watched at a time; beyond it a request counts as being in its prefill until it ends.
const WATCHED_MAX: usize = 16_384;

/// Requests in flight that are not known to be past their prefill.
#[derive(Debug, Default)]
pub(crate) struct Silent {
    /// Oldest look first.
    watched: VecDeque<Watched>,
    tickets: BTreeSet<Ticket>,
}

#[derive(Debug)]
struct Watched {
    ticket: Ticket,
    target: Arc<Target>,
    chain: Arc<[u64]>,
}

impl Silent {
    /// Watches a request. Without news from its target there is nothing to see.
    pub(crate) fn add(&mut self, ticket: Ticket, target: &Arc<Target>, prefix: Option<&Prefix>) {
        let Some(prefix) = prefix.filter(|prefix| prefix.block_tokens == target.block_tokens()) else {
            return;
        };
        if self.watched.len() < WATCHED_MAX && self.tickets.insert(ticket) {
            let (target, chain) = (Arc::clone(target), Arc::clone(&prefix.chain));
            self.watched.push_back(Watched { ticket, target, chain });
        }
    }

    /// Requests that are still to be looked at, those that are over and not dropped yet among them.
    #[cfg(test)]
    pub(crate) fn watched(&self) -> usize {
        self.watched.len()
    }

    /// Looks at so many requests; the tickets of those whose whole prompt is there now.
    pub(crate) fn done(&mut self, blocks: &Blocks, looks: usize) -> Vec<Ticket> {
        let mut done = Vec::new();
        for _ in 0..looks.min(self.watched.len()) {
            let Some(watched) = self.watched.pop_front() else { break };
            if !self.tickets.contains(&watched.ticket) {
                continue;
            }
            // A target that is busy with its news is looked at another time.
            let overlap = watched.target.try_overlap(blocks, &watched.chain);
            if overlap.is_some_and(|overlap| overlap.gpu == watched.chain.len()) {
                self.tickets.remove(&watched.ticket);
                done.push(watched.ticket);
            } else {
                self.watched.push_back(watched);
            }
        }
        done
    }

    /// The request is over.
    pub(crate) fn remove(&mut self, ticket: Ticket) {
        self.tickets.remove(&ticket);
        // Entries of requests that are over are dropped when their turn to be looked at comes; not too many wait for it.
        if self.watched.len() > 2 * self.tickets.len() + 64 {
            let tickets = &self.tickets;
            self.watched.retain(|watched| tickets.contains(&watched.ticket));
        }
    }
}
