//! What slots will hold once what was sent to them has run: a tree of the prompts in flight.
//!
//! A node is a stretch of blocks that the same entries cover. Hashes are chained, so one equal hash proves the whole
//! prefix: a look-up compares one hash per node and bisects inside the node where prompts part.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::fast_map::FastMap;

/// Most slots one look-up reports, those with the longest prefix first. More say nothing new: a prefix that so many
/// slots share decides nothing.
pub(crate) const SLOTS_MAX: usize = 64;

/// One dispatched prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryId {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Entry {
    generation: u32,
    /// The node where its chain ends, and whose it is; absent when it is free.
    place: Option<(u32, u32)>,
}

#[derive(Debug)]
struct Node {
    chain: Arc<[u64]>,
    /// Blocks `from..to` of the chain.
    from: u32,
    to: u32,
    parent: Option<u32>,
    kids: u32,
    /// All kids' numbers, each in once: the number itself when there is one kid.
    kids_xor: u32,
    /// Entries that cover it, by slot; most prompts are on one.
    slots: SmallVec<[(u32, u32); 2]>,
    /// Entries that cover it.
    entries: u32,
}

/// Prompts in flight, and those whose events may still be on their way.
#[derive(Debug)]
pub(crate) struct Predicted {
    entries: Vec<Entry>,
    free_entries: Vec<u32>,
    nodes: Vec<Option<Node>>,
    free_nodes: Vec<u32>,
    /// The node that starts with this block.
    heads: FastMap<u32>,
    /// When entries end by themselves, in order: `now` never goes back and all wait equally long.
    expiring: VecDeque<(Duration, EntryId)>,
    entries_max: usize,
    /// Entries left out because there were as many as may be.
    pub(crate) refused: u64,
}

/// Where a walk along a chain ended.
struct Walk {
    /// The last node that was entered.
    node: Option<u32>,
    /// Leading blocks found.
    matched: u32,
}

impl Predicted {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            entries: Vec::new(),
            free_entries: Vec::new(),
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            heads: FastMap::default(),
            expiring: VecDeque::new(),
            entries_max: entries_max.min(u32::MAX as usize),
            refused: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free_entries.len()
    }

    /// Expects a prompt on a slot. None when it has no full block, or there is no room.
    pub(crate) fn insert(&mut self, slot: u32, chain: &Arc<[u64]>) -> Option<EntryId> {
        if chain.is_empty() || u32::try_from(chain.len()).is_err() {
            return None;
        }
        if self.len() >= self.entries_max {
            self.refused += 1;
            return None;
        }
        let Walk { node, matched } = self.walk(chain);
        let above =
            node.map(|node| if self.node(node).to > matched { self.split(node, matched) } else { node });
        let end = match above {
            Some(above) if matched as usize == chain.len() => above,
            _ => self.add_node(chain, matched, above),
        };
        let mut next = Some(end);
        while let Some(number) = next {
            let node = self.node_mut(number);
            node.entries += 1;
            match node.slots.binary_search_by_key(&slot, |entry| entry.0) {
                Ok(at) => node.slots[at].1 += 1,
                Err(at) => node.slots.insert(at, (slot, 1)),
            }
            next = node.parent;
        }
        let index = self.free_entries.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, place: None });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[index as usize];
        entry.place = Some((end, slot));
        Some(EntryId { index, generation: entry.generation })
    }

    /// The prompt is computed: its events are on their way, and nothing is expected from `until` on.
    pub(crate) fn settle(&mut self, id: EntryId, until: Duration) {
        // In order even if the caller's clock went back.
        let until = self.expiring.back().map_or(until, |last| until.max(last.0));
        self.expiring.push_back((until, id));
    }

    /// Ends what waited long enough.
    pub(crate) fn expire(&mut self, now: Duration) {
        while let Some((until, id)) = self.expiring.front().copied() {
            if until > now {
                break;
            }
            self.expiring.pop_front();
            self.remove(id);
        }
    }

    /// The prompt will not be there, or is no news any more.
    pub(crate) fn remove(&mut self, id: EntryId) {
        let Some(entry) = self.entries.get_mut(id.index as usize) else { return };
        if entry.generation != id.generation {
            return;
        }
        let Some((end, slot)) = entry.place.take() else { return };
        entry.generation = entry.generation.wrapping_add(1);
        self.free_entries.push(id.index);
        self.leave(end, slot);
    }

    /// Forgets what was expected on a slot.
    pub(crate) fn remove_slot(&mut self, slot: u32) {
        for index in 0..self.entries.len() as u32 {
            let entry = &self.entries[index as usize];
            if entry.place.is_some_and(|place| place.1 == slot) {
                self.remove(EntryId { index, generation: entry.generation });
            }
        }
    }

    /// For slots that expect leading blocks of the chain: how many, longest first, at most [`SLOTS_MAX`] slots. A slot
    /// may be told again with fewer, which says nothing.
    pub(crate) fn find(&self, chain: &[u64], mut report: impl FnMut(u32, u32)) {
        if self.heads.is_empty() {
            return;
        }
        let Walk { node, mut matched } = self.walk(chain);
        let (mut next, mut left) = (node, SLOTS_MAX);
        let mut told = 0;
        while let Some(number) = next {
            let node = self.node(number);
            // Whoever covers a node covers all above it: only what a node has more than the one below is news.
            if node.slots.len() > told {
                told = node.slots.len();
                for &(slot, _) in node.slots.iter().take(left) {
                    report(slot, matched);
                }
                left = SLOTS_MAX.saturating_sub(told);
                if left == 0 {
                    break;
                }
            }
            matched = node.from;
            next = node.parent;
        }
    }

    /// Follows a chain as far as it is known.
    fn walk(&self, chain: &[u64]) -> Walk {
        let mut walk = Walk { node: None, matched: 0 };
        while let Some(first) = chain.get(walk.matched as usize) {
            let Some(&number) = self.heads.get(first) else { break };
            let node = self.node(number);
            if node.parent != walk.node || node.from != walk.matched {
                break;
            }
            let limit = node.to.min(chain.len() as u32);
            let equal = |blocks: u32| node.chain[blocks as usize - 1] == chain[blocks as usize - 1];
            let (mut low, mut high) = (walk.matched + 1, limit);
            if equal(limit) {
                low = limit;
            }
            while low < high {
                let middle = low + (high - low).div_ceil(2);
                if equal(middle) { low = middle } else { high = middle - 1 }
            }
            walk = Walk { node: Some(number), matched: low };
            if low < node.to {
                break;
            }
        }
        walk
    }

    /// Parts a node before block `at`; the number of the front part. The back keeps the old number, because entries
    /// and kids refer to it.
    fn split(&mut self, back: u32, at: u32) -> u32 {
        let front = self.free_node();
        let node = self.node_mut(back);
        let (chain, from, parent) = (Arc::clone(&node.chain), node.from, node.parent);
        let (slots, entries) = (node.slots.clone(), node.entries);
        node.from = at;
        node.parent = Some(front);
        self.heads.insert(chain[from as usize], front);
        self.heads.insert(chain[at as usize], back);
        if let Some(parent) = parent {
            self.node_mut(parent).kids_xor ^= back ^ front;
        }
        let part = Node { chain, from, to: at, parent, kids: 1, kids_xor: back, slots, entries };
        self.nodes[front as usize] = Some(part);
        front
    }

    fn add_node(&mut self, chain: &Arc<[u64]>, from: u32, parent: Option<u32>) -> u32 {
        let number = self.free_node();
        self.heads.insert(chain[from as usize], number);
        if let Some(parent) = parent {
            let parent = self.node_mut(parent);
            parent.kids += 1;
            parent.kids_xor ^= number;
        }
        let (chain, to) = (Arc::clone(chain), chain.len() as u32);
        let node = Node { chain, from, to, parent, kids: 0, kids_xor: 0, slots: SmallVec::new(), entries: 0 };
        self.nodes[number as usize] = Some(node);
        number
    }

    /// Takes one entry off a path, from its end up.
    fn leave(&mut self, end: u32, slot: u32) {
        let (mut next, mut lowest) = (Some(end), None);
        while let Some(number) = next {
            let node = self.node_mut(number);
            next = node.parent;
            node.entries -= 1;
            if let Ok(at) = node.slots.binary_search_by_key(&slot, |entry| entry.0) {
                node.slots[at].1 -= 1;
                if node.slots[at].1 == 0 {
                    node.slots.remove(at);
                }
            }
            if node.entries == 0 {
                self.drop_node(number);
            } else if lowest.is_none() {
                lowest = Some(number);
            }
        }
        if let Some(lowest) = lowest {
            self.merge(lowest);
        }
    }

    fn drop_node(&mut self, number: u32) {
        let node = self.nodes[number as usize].take().expect("a node on the path of an entry exists");
        self.heads.remove(&node.chain[node.from as usize]);
        if let Some(parent) = node.parent {
            let parent = self.node_mut(parent);
            parent.kids -= 1;
            parent.kids_xor ^= number;
        }
        self.free_nodes.push(number);
    }

    /// Joins a node with its only kid when no entry ends between them, so that old partings do not pile up.
    fn merge(&mut self, front: u32) {
        let Node { kids, kids_xor: back, entries, from, parent, .. } = *self.node(front);
        if kids != 1 || self.node(back).entries != entries {
            return;
        }
        self.nodes[front as usize] = None;
        self.free_nodes.push(front);
        let node = self.node_mut(back);
        let second = node.chain[node.from as usize];
        node.from = from;
        node.parent = parent;
        let first = node.chain[from as usize];
        self.heads.remove(&second);
        self.heads.insert(first, back);
        if let Some(parent) = parent {
            self.node_mut(parent).kids_xor ^= front ^ back;
        }
    }

    fn free_node(&mut self) -> u32 {
        self.free_nodes.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.nodes.len() as u32 - 1
        })
    }

    fn node(&self, number: u32) -> &Node {
        self.nodes[number as usize].as_ref().expect("numbers in the tree name nodes that exist")
    }

    fn node_mut(&mut self, number: u32) -> &mut Node {
        self.nodes[number as usize].as_mut().expect("numbers in the tree name nodes that exist")
    }
}

#[cfg(test)]
mod tests;
