//! From the simulation's events to those of an engine: blocks get their digests.

use std::collections::BTreeMap;
use std::sync::Arc;

use tito_engine_sim::{BlockHash, KvEvent, RequestId, StoredBlocks};

use super::digest::{Digest, Digester};
use super::origin::Origin;

/// One event, ready to be encoded.
#[derive(Debug)]
pub(crate) enum Event {
    Stored(Stored),
    Removed(Digest),
    Cleared,
}

/// Blocks of one request that can be found from now on.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) parent: Option<Digest>,
    pub(crate) blocks: Vec<Digest>,
    /// Position of the first token.
    pub(crate) start: u32,
    pub(crate) token_ids: Vec<u32>,
    pub(crate) origin: Arc<Origin>,
}

/// The digests of all cached blocks, with the number of their copies: as many as the pool has blocks at most.
#[derive(Debug)]
pub(crate) struct Names {
    digester: Digester,
    block_tokens: u32,
    by_hash: BTreeMap<BlockHash, (Digest, u32)>,
}

impl Names {
    pub(crate) fn new(digester: Digester, block_tokens: u32) -> Self {
        Self { digester, block_tokens, by_hash: BTreeMap::new() }
    }

    /// Takes the events of a step. `origin` knows every request that is alive.
    pub(crate) fn take(
        &mut self,
        events: &mut Vec<KvEvent>,
        origin: impl Fn(RequestId) -> Arc<Origin>,
    ) -> Vec<Event> {
        let mut named = Vec::with_capacity(events.len());
        for event in events.drain(..) {
            match event {
                KvEvent::Cleared => {
                    self.by_hash.clear();
                    named.push(Event::Cleared);
                }
                // vLLM tells every removal by itself.
                KvEvent::Removed(blocks) => {
                    named.extend(
                        blocks.into_iter().filter_map(|block| self.removed(block)).map(Event::Removed),
                    );
                }
                KvEvent::Stored(stored) => {
                    let origin = origin(stored.request);
                    named.push(Event::Stored(self.stored(stored, origin)));
                }
            }
        }
        named
    }

    /// One copy less of a block.
    fn removed(&mut self, block: BlockHash) -> Option<Digest> {
        let (digest, copies) = self.by_hash.get_mut(&block)?;
        let digest = *digest;
        *copies -= 1;
        if *copies == 0 {
            self.by_hash.remove(&block);
        }
        Some(digest)
    }

    fn stored(&mut self, stored: StoredBlocks, origin: Arc<Origin>) -> Stored {
        let StoredBlocks { request: _, parent, blocks, offset_tokens, token_ids } = stored;
        let parent = parent.map(|parent| self.by_hash[&parent].0);
        let mut last = parent.unwrap_or(self.digester.none());
        let mut digests = Vec::with_capacity(blocks.len());
        let mut start = offset_tokens;
        for (block, ids) in blocks.into_iter().zip(token_ids.chunks(self.block_tokens as usize)) {
            last = self.digester.block(&last, ids, &origin.keys(start, self.block_tokens));
            start += self.block_tokens;
            self.by_hash.entry(block).or_insert((last, 0)).1 += 1;
            digests.push(last);
        }
        Stored { parent, blocks: digests, start: offset_tokens, token_ids, origin }
    }
}

/// The names of the full blocks of a prompt, cached or not.
pub(crate) fn names(mut digester: Digester, block_tokens: u32, prompt: &[u32], origin: &Origin) -> Vec<u64> {
    let mut last = digester.none();
    let starts = (0..).step_by(block_tokens as usize);
    let blocks = starts.zip(prompt.chunks_exact(block_tokens as usize)).map(|(start, ids)| {
        last = digester.block(&last, ids, &origin.keys(start, block_tokens));
        last.name()
    });
    blocks.collect()
}
