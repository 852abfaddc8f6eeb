use std::sync::Arc;

use tito_types::{BlockExtras, Media, MediaFeatures, MediaInBlock, RawMedia, TokenId};

use super::{Hasher, put_bytes};

/// A prompt as the prefix cache of one group of targets sees it: everything that decides its blocks' identity.
#[derive(Debug, Clone, Copy)]
pub struct Prompt<'a> {
    /// Token ids; the placeholders of features are expanded, those of raw media are not.
    pub tokens: &'a [TokenId],
    /// Features sorted by offset, disjoint; or raw items in the order of their placeholders.
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
    /// Raw media are left out, so that the blocks before the first placeholder match what targets hold of the same text.
    /// The others match nothing that an engine made of such a prompt: it expands each placeholder and tells of the media in
    /// it. They do match a text whose own tokens are such placeholders, so a match of a prompt with raw media is good for
    /// choosing a target and not for saying what that will find in its cache.
    pub fn chain(&self, hasher: &Hasher) -> Arc<[u64]> {
        self.chain_from(hasher, self.root(hasher))
    }

    /// The chain of the prompt as it was asked, for comparing prompts with each other: [`Prompt::chain`], but with raw media
    /// in the identity of every block, as nobody knows where they begin. No event shows the blocks of such a chain.
    pub fn asked_chain(&self, hasher: &Hasher) -> Arc<[u64]> {
        match self.media {
            Media::None | Media::Features(_) => self.chain(hasher),
            // Items may be long; a prompt without blocks is not worth reading them.
            Media::Raw(_) if self.full_blocks() == 0 => Arc::default(),
            Media::Raw(items) => self.chain_from(hasher, raw_root(hasher, self.root(hasher), items)),
        }
    }

    fn root(&self, hasher: &Hasher) -> u64 {
        hasher.root(self.block_tokens, self.adapter, self.salt)
    }

    fn chain_from(&self, hasher: &Hasher, root: u64) -> Arc<[u64]> {
        let (blocks, size) = (self.full_blocks(), self.block_tokens());
        if self.features().is_empty() {
            return hasher.chain(root, self.tokens, size);
        }
        let mut state = root;
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
        chain.into()
    }

    /// Leading blocks wholly before the first media position: all that may match on a target whose events do not identify
    /// media; all blocks of a prompt with raw media, whose chain is that of its text.
    pub fn exact_blocks(&self) -> usize {
        let first = self.features().first().map(|item| item.offset as usize / self.block_tokens().max(1));
        first.map_or(self.full_blocks(), |blocks| blocks.min(self.full_blocks()))
    }

    fn full_blocks(&self) -> usize {
        self.tokens.len().checked_div(self.block_tokens()).unwrap_or(0)
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

/// Where the chains of prompts with these raw items start, in the namespace of a root.
fn raw_root(hasher: &Hasher, root: u64, items: &[RawMedia]) -> u64 {
    let mut bytes = root.to_le_bytes().to_vec();
    for RawMedia { modality, url, identifier } in items {
        put_bytes(&mut bytes, modality.word().as_bytes());
        // Its digest alone: what a `data:` URL holds is long.
        bytes.extend(hasher.payload(url.as_bytes()).to_le_bytes());
        put_bytes(&mut bytes, identifier.as_deref().unwrap_or_default().as_bytes());
    }
    hasher.payload(&bytes)
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
