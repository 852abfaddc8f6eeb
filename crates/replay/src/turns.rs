//! Which request is the next turn of which: by the trace's own sessions, or by what prompts have in common.

use std::collections::{BTreeMap, VecDeque};

use crate::TraceRequest;

#[cfg(test)]
mod tests;

/// Requests that are remembered per common prefix, the last ones to arrive: a bound on work and memory.
const CANDIDATES_MAX: usize = 8;

/// The conversations of a trace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Turns {
    /// By request: the turn after it.
    pub(crate) next: Vec<Option<u32>>,
    /// By request: the turn before it.
    pub(crate) previous: Vec<Option<u32>>,
    /// By request: whether another turn could have been the one before, or it could have been the next of one that has
    /// another.
    pub(crate) ambiguous: Vec<bool>,
}

impl Turns {
    /// Requests with a session follow each other in it. Any other request is the next turn of an earlier one when its
    /// prompt begins with all of the other's full blocks, is at least as long as the other's prompt and output, and has
    /// more in common with it than all requests of the trace have. Of several the one with most in common counts, then the
    /// last to arrive; each has one next turn at most.
    pub(crate) fn new(trace: &[TraceRequest], order: &[u32], block_tokens: u32) -> Self {
        let mut turns = Self {
            next: vec![None; trace.len()],
            previous: vec![None; trace.len()],
            ambiguous: vec![false; trace.len()],
        };
        turns.follow_sessions(trace, order);
        turns.match_prompts(trace, order, block_tokens);
        turns
    }

    fn follow_sessions(&mut self, trace: &[TraceRequest], order: &[u32]) {
        let mut last: BTreeMap<&str, u32> = BTreeMap::new();
        for &index in order {
            if let Some(session) = &trace[index as usize].session_id
                && let Some(before) = last.insert(session, index)
            {
                self.join(before, index);
            }
        }
    }

    fn match_prompts(&mut self, trace: &[TraceRequest], order: &[u32], block_tokens: u32) {
        let shared = shared_blocks(trace);
        // By the id of the last full block.
        let mut ends: BTreeMap<u64, VecDeque<u32>> = BTreeMap::new();
        for &index in order.iter().filter(|&&index| trace[index as usize].session_id.is_none()) {
            let request = &trace[index as usize];
            let full = request.full_blocks(block_tokens);
            let longest_first = request.hash_ids[..full].iter().enumerate().skip(shared).rev();
            for (block, id) in longest_first {
                let candidates = ends.get(id).into_iter().flatten().copied().filter(|&earlier| {
                    let earlier = &trace[earlier as usize];
                    earlier.full_blocks(block_tokens) == block + 1 && request.extends(earlier, block_tokens)
                });
                let candidates: Vec<u32> = candidates.collect();
                if candidates.is_empty() {
                    continue;
                }
                let free = |earlier: &&u32| self.next[**earlier as usize].is_none();
                let before = candidates.iter().rev().find(free).copied();
                self.ambiguous[index as usize] = candidates.len() > 1 || before.is_none();
                if let Some(before) = before {
                    self.join(before, index);
                }
                break;
            }
            if full > shared {
                let end = ends.entry(request.hash_ids[full - 1]).or_default();
                if end.len() == CANDIDATES_MAX {
                    end.pop_front();
                }
                end.push_back(index);
            }
        }
    }

    fn join(&mut self, before: u32, next: u32) {
        self.next[before as usize] = Some(next);
        self.previous[next as usize] = Some(before);
    }
}

/// Leading blocks with which every request of the trace begins.
fn shared_blocks(trace: &[TraceRequest]) -> usize {
    let Some((first, others)) = trace.split_first() else { return 0 };
    others.iter().fold(first.hash_ids.len(), |shared, other| {
        let pairs = first.hash_ids[..shared].iter().zip(&other.hash_ids);
        pairs.take_while(|(a, b)| a == b).count()
    })
}
