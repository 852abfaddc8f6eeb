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

/// The chain hashes of a prompt's full blocks, computed as far as somebody asks.
///
/// A prompt with raw media has no blocks here: the engine expands each placeholder to a length only it knows, and
/// without the placeholder's token id not even the first position is known, so no leading block is certain to be text
/// only. Such a prompt matches nothing, which costs a prefill and never claims a false hit.
#[derive(Debug)]
pub struct PromptChain<'a> {
    hasher: &'a Hasher,
    prompt: Prompt<'a>,
    root: u64,
    hashes: Vec<u64>,
}

impl<'a> PromptChain<'a> {
    /// Nothing is hashed but the root.
    pub fn new(hasher: &'a Hasher, prompt: Prompt<'a>) -> Self {
        let root = hasher.root(prompt.block_tokens, prompt.adapter, prompt.salt);
        Self { hasher, prompt, root, hashes: Vec::new() }
    }

    /// Takes over the hashes of an earlier prompt that the caller knows to be a prefix of this one in the same
    /// namespace (a conversation's last turn). The last of them is hashed again from the one before; if that disagrees, as
    /// after an edited history or in another namespace, all are dropped and the prompt is hashed afresh.
    #[must_use]
    pub fn resume(mut self, mut hashes: Vec<u64>) -> Self {
        hashes.truncate(self.full_blocks());
        if let Some((&last, before)) = hashes.split_last() {
            let parent = before.last().copied().unwrap_or(self.root);
            if self.hash_block(parent, before.len()) == last {
                self.hashes = hashes;
            }
        }
        self
    }

    /// Full blocks of the prompt: the most that can match.
    pub fn full_blocks(&self) -> usize {
        match self.prompt.media {
            Media::None | Media::Features(_) => {
                self.prompt.tokens.len().checked_div(self.block_tokens()).unwrap_or(0)
            }
            Media::Raw(_) => 0,
        }
    }

    /// Leading blocks wholly before the first media position: all that may match on a target whose events do not identify
    /// media.
    pub fn exact_blocks(&self) -> usize {
        let first = self.features().first().map(|item| item.offset as usize / self.block_tokens().max(1));
        first.map_or(self.full_blocks(), |blocks| blocks.min(self.full_blocks()))
    }

    /// The first `blocks` chain hashes, or all when there are fewer. A cold prompt asks for one first.
    pub fn first(&mut self, blocks: usize) -> &[u64] {
        let blocks = blocks.min(self.full_blocks());
        self.hashes.reserve(blocks.saturating_sub(self.hashes.len()));
        while self.hashes.len() < blocks {
            let next = self.hashes.len();
            let state = self.hashes.last().copied().unwrap_or(self.root);
            let plain = self.plain_until(next).min(blocks);
            if plain > next {
                let size = self.block_tokens();
                let tokens = &self.prompt.tokens[next * size..plain * size];
                self.hasher.extend(state, tokens, size, &mut self.hashes);
            } else {
                let hash = self.hash_block(state, next);
                self.hashes.push(hash);
            }
        }
        &self.hashes[..blocks]
    }

    /// Every chain hash.
    pub fn all(&mut self) -> &[u64] {
        self.first(usize::MAX)
    }

    /// What was hashed so far, to [`PromptChain::resume`] from in the conversation's next turn.
    pub fn into_hashes(self) -> Vec<u64> {
        self.hashes
    }

    fn block_tokens(&self) -> usize {
        self.prompt.block_tokens as usize
    }

    fn features(&self) -> &'a [MediaFeatures] {
        match self.prompt.media {
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

    fn hash_block(&self, parent: u64, index: usize) -> u64 {
        let (start, size) = (index * self.block_tokens(), self.block_tokens());
        let overlapping = |item: &&MediaFeatures| end(item) > start && (item.offset as usize) < start + size;
        let seen = |item: &MediaFeatures| MediaInBlock {
            identifier: item.identifier.clone(),
            offset: i64::from(item.offset) - start as i64,
        };
        let media = self.features().iter().filter(overlapping).map(seen).collect();
        let extras = BlockExtras { media, opaque: Vec::new() };
        self.hasher.block(parent, &self.prompt.tokens[start..start + size], &extras)
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
