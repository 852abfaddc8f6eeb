use tito_types::{BlockExtras, Media, MediaFeatures, MediaInBlock, TokenId};

use super::Hasher;

/// A prompt as the prefix cache of one group of targets sees it: everything that decides its blocks' identity.
#[derive(Debug, Clone, Copy)]
pub struct Prompt<'a> {
    /// Token ids, media placeholders expanded.
    pub tokens: &'a [TokenId],
    /// Items sorted by offset, disjoint.
    pub media: &'a Media,
    /// Adapter name and its load generation on the targets ([`crate::Generations::of`]).
    pub adapter: Option<(&'a str, u64)>,
    /// Cache salt; empty is none.
    pub salt: Option<&'a str>,
    /// Tokens per block on the targets.
    pub block_tokens: u32,
}

impl<'a> Prompt<'a> {
    /// The chain hash of every full block, which is the most that can match.
    ///
    /// A prompt with raw media has no blocks here: the engine expands each placeholder to a length only it knows, and
    /// without the placeholder's token id not even the first position is known, so no leading block is certain to be text
    /// only. Such a prompt matches nothing, which costs a prefill and never claims a false hit.
    pub fn chain(&self, hasher: &Hasher) -> Vec<u64> {
        let (blocks, size) = (self.full_blocks(), self.block_tokens());
        let mut state = hasher.root(self.block_tokens, self.adapter, self.salt);
        let mut chain = Vec::with_capacity(blocks);
        while chain.len() < blocks {
            let next = chain.len();
            let plain = self.plain_until(next).min(blocks);
            if plain > next {
                state = hasher.extend(state, &self.tokens[next * size..plain * size], size, &mut chain);
            } else {
                state = self.hash_block(hasher, state, next);
                chain.push(state);
            }
        }
        chain
    }

    /// Leading blocks wholly before the first media position: all that may match on a target whose events do not identify
    /// media.
    pub fn exact_blocks(&self) -> usize {
        let first = self.features().first().map(|item| item.offset as usize / self.block_tokens().max(1));
        first.map_or(self.full_blocks(), |blocks| blocks.min(self.full_blocks()))
    }

    fn full_blocks(&self) -> usize {
        match self.media {
            Media::None | Media::Features(_) => {
                self.tokens.len().checked_div(self.block_tokens()).unwrap_or(0)
            }
            Media::Raw(_) => 0,
        }
    }

    fn block_tokens(&self) -> usize {
        self.block_tokens as usize
    }

    fn features(&self) -> &'a [MediaFeatures] {
        match self.media {
            Media::Features(items) => items,
            Media::None | Media::Raw(_) => &[],
        }
    }

    /// The first block from `next` on that media overlaps.
    fn plain_until(&self, next: usize) -> usize {
        let start = next * self.block_tokens();
        let item = self.features().iter().find(|item| end(item) > start);
        item.map_or(usize::MAX, |item| (item.offset as usize / self.block_tokens()).max(next))
    }

    fn hash_block(&self, hasher: &Hasher, parent: u64, index: usize) -> u64 {
        let (start, size) = (index * self.block_tokens(), self.block_tokens());
        let overlapping = |item: &&MediaFeatures| end(item) > start && (item.offset as usize) < start + size;
        let seen = |item: &MediaFeatures| MediaInBlock {
            identifier: item.identifier.clone(),
            offset: i64::from(item.offset) - start as i64,
        };
        let media = self.features().iter().filter(overlapping).map(seen).collect();
        let extras = BlockExtras { media, opaque: Vec::new() };
        hasher.block(parent, &self.tokens[start..start + size], &extras)
    }
}

/// One past the item's last position; saturating, so that a wrong length cannot wrap.
fn end(item: &MediaFeatures) -> usize {
    (item.offset as usize).saturating_add(item.length as usize)
}

/// The cached tokens vLLM 0.32 reports for a prompt of which `overlap_blocks` leading blocks are resident: whole blocks, and
/// never the whole prompt, since the last token is computed again to sample from it.
pub fn cached_tokens_max(prompt_tokens: usize, block_tokens: usize, overlap_blocks: usize) -> usize {
    let usable = prompt_tokens.saturating_sub(1).checked_div(block_tokens).unwrap_or(0);
    overlap_blocks.min(usable) * block_tokens
}
