//! What of a prompt each target holds. Knows nothing of loads or choices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tito_fleet::Blocks;
use tito_kv_index::{Hasher, Prompt, TierOverlap};
use tito_policy::{Group, Overlap, Prefix, Slot};
use tito_types::{GenerateRequest, Media, Tier};

use crate::view::{Place, View};

/// Tokens that one raw media item is taken for: the engine alone knows its real length.
const RAW_MEDIA_TOKENS: u32 = 576;

/// A prompt against the block tables of the targets that may serve it.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// One entry per target that holds something, by slot.
    pub(crate) overlaps: Vec<Overlap>,
    /// The prompt as it was asked, at the finest block size among those targets: what siblings are known by.
    pub(crate) prefix: Option<Prefix>,
    /// The adapter's generation in that prefix; absent for models of their own.
    pub(crate) prefix_generation: Option<u64>,
    /// Whether the request has media that not every target can be matched on, so that what a target holds is not all that it
    /// may find in its cache, or more than it will.
    pub(crate) token_only: bool,
}

/// Block size and generation: all that tells two chains of one prompt apart.
type Namespace = (u32, Option<u64>);

/// A prompt's chains. Kept while its request waits, so that it is hashed once and not each time it is called.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    /// To look up.
    held: BTreeMap<Namespace, Arc<[u64]>>,
    /// As it was asked; only for prompts where that is another chain, and only of the last namespace it was needed in.
    asked: Option<(Namespace, Arc<[u64]>)>,
}

impl Chains {
    fn held(&mut self, namespace: Namespace, prompt: &Prompt<'_>, hasher: &Hasher) -> Arc<[u64]> {
        Arc::clone(self.held.entry(namespace).or_insert_with(|| prompt.chain(hasher)))
    }

    /// The chain as it was asked, of a prompt whose chain to look up is `held`.
    fn asked(
        &mut self,
        namespace: Namespace,
        prompt: &Prompt<'_>,
        hasher: &Hasher,
        held: Arc<[u64]>,
    ) -> Arc<[u64]> {
        if !matches!(prompt.media, Media::Raw(_)) {
            return held;
        }
        let known = self.asked.take().filter(|(known, _)| *known == namespace);
        let known = known.unwrap_or_else(|| (namespace, prompt.asked_chain(hasher)));
        Arc::clone(&self.asked.insert(known).1)
    }
}

/// Tokens of the prompt, as far as they can be known before an engine expanded its media.
pub(crate) fn prompt_tokens(request: &GenerateRequest) -> u32 {
    let tokens = u32::try_from(request.prompt.len()).unwrap_or(u32::MAX);
    match &request.media {
        Media::None | Media::Features(_) => tokens,
        Media::Raw(items) => {
            let items = u32::try_from(items.len()).unwrap_or(u32::MAX);
            tokens.saturating_add(items.saturating_mul(RAW_MEDIA_TOKENS))
        }
    }
}

/// Looks a prompt up, once per block size among the targets and, where its model is an adapter that they loaded unequally
/// often, per generation.
pub(crate) fn held(
    blocks: &Blocks,
    view: &View,
    groups: &[Group],
    request: &GenerateRequest,
    chains: &mut Chains,
) -> Held {
    let mut held = Held::default();
    let shapes = || groups.iter().filter_map(|group| view.shape(*group));
    held.token_only = matches!(request.media, Media::Raw(_))
        || (request.media != Media::None && shapes().any(|shape| shape.media_inexact));
    let model = request.model.as_str();
    let adapting = view.adapting(model);
    let namespaces = view.namespaces(groups, model);
    chains.held.retain(|known, _| namespaces.contains(known));
    for (block_tokens, generation) in namespaces {
        let prompt = Prompt {
            tokens: &request.prompt,
            media: &request.media,
            adapter: generation.map(|generation| (model, generation)),
            salt: request.kv.cache_salt.as_deref(),
            block_tokens,
        };
        let exact = prompt.exact_blocks();
        let chain = chains.held((block_tokens, generation), &prompt, blocks.hasher());
        let matches = |place: &Place| {
            place.target.block_tokens() == block_tokens
                && groups.contains(&place.group)
                && place.generation(adapting, model) == generation
        };
        // Those that hold the first block somewhere and may go on in another tier: only they are asked for it.
        let mut tiered = BTreeSet::new();
        blocks.find(&chain, |id, tier, leading| {
            let Some(place) = view.places.get(&id).filter(|place| matches(place)) else { return };
            if place.target.lower_tiers() {
                tiered.insert(id);
            }
            if tier == Tier::Gpu {
                let leading = leading as usize;
                let leading = if place.target.media_exact() { leading } else { leading.min(exact) };
                held.overlaps.push(overlap(place.slot, block_tokens, [leading, 0, 0]));
            }
        });
        let lower = tiered.into_iter().filter_map(|id| view.places.get(&id)).filter_map(|place| {
            let chain = if place.target.media_exact() { &chain[..] } else { &chain[..exact] };
            let TierOverlap { gpu, cpu, storage } = place.target.try_overlap(blocks, chain)?;
            Some((place.slot, overlap(place.slot, block_tokens, [gpu, cpu, storage])))
        });
        let lower: BTreeMap<Slot, Overlap> = lower.collect();
        if !lower.is_empty() {
            held.overlaps.retain(|known| !lower.contains_key(&known.slot));
            held.overlaps.extend(lower.into_values());
        }
        if held.prefix.is_none() && !chain.is_empty() {
            let chain = chains.asked((block_tokens, generation), &prompt, blocks.hasher(), chain);
            held.prefix = Some(Prefix { block_tokens, chain });
            held.prefix_generation = generation;
        }
    }
    held
}

/// Leading blocks by tier, in tokens.
fn overlap(slot: Slot, block_tokens: u32, blocks: [usize; 3]) -> Overlap {
    let [gpu_tokens, cpu_tokens, storage_tokens] =
        blocks.map(|count| u32::try_from(count).unwrap_or(u32::MAX).saturating_mul(block_tokens));
    Overlap { slot, gpu_tokens, cpu_tokens, storage_tokens }
}
