//! Everything that makes a configuration impossible, found before a socket opens.

use std::collections::BTreeSet;

use super::{MockConfig, Multimodal};
use crate::control::ADAPTERS_MAX;
use crate::faults::FAULTS_MAX;
use crate::kv::{self, EndpointError};

/// Most KV blocks of all ranks together; each costs memory from the start.
const BLOCKS_MAX: u64 = 1 << 24;
/// Most ranks of a deployment; each that is owned is a simulation of its own, and discovery lists every one.
const RANKS_MAX: u32 = 1024;

/// Why a configuration makes no engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A size that must be positive is zero.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// The vocabulary contradicts itself.
    #[error("vocabulary: {0}")]
    Vocabulary(&'static str),
    /// vLLM refuses to start as well: the longest sequence must fit the block pool.
    #[error(
        "{blocks} blocks of {block_size} tokens, one of them reserved, cannot hold one sequence of \
         {max_model_len} tokens"
    )]
    PoolTooSmall {
        /// Blocks per rank.
        blocks: u32,
        /// Tokens per block.
        block_size: u32,
        /// Longest sequence in tokens.
        max_model_len: u32,
    },
    /// The ranks of this mock have more blocks than it makes.
    #[error(
        "{ranks} ranks of {blocks} blocks: all ranks of a mock together have at most {BLOCKS_MAX} blocks"
    )]
    TooManyBlocks {
        /// Ranks that are owned.
        ranks: u32,
        /// Blocks per rank.
        blocks: u32,
    },
    /// More ranks than a deployment may have.
    #[error("data-parallel-size is {0}, at most {RANKS_MAX} ranks can be simulated")]
    TooManyRanks(u32),
    /// No rank is owned.
    #[error("start rank {start} is outside the {size} ranks of the deployment")]
    NoRank {
        /// First owned rank.
        start: u32,
        /// Ranks of the deployment.
        size: u32,
    },
    /// A probability is none.
    #[error("eos probability must lie in [0, 1]")]
    Probability,
    /// A speed that is negative or not a number.
    #[error("speed must be a finite number of at least 0")]
    Speed,
    /// More faults from the start than may be set at once.
    #[error("{0} faults are configured, at most {FAULTS_MAX} may be set")]
    TooManyFaults(usize),
    /// An endpoint of KV events cannot be served.
    #[error(transparent)]
    KvEndpoint(#[from] EndpointError),
    /// Adapters are to be loaded into an engine that takes none, or more than it takes.
    #[error("{0} adapters are to be loaded, at most {1} can be")]
    TooManyAdapters(usize, usize),
    /// Placeholders of media are no ids of the vocabulary, the same for two modalities, or none at all.
    #[error("multimodal: placeholders are different ids of the vocabulary, and an item has at least one")]
    Placeholder,
    /// A served name appears twice.
    #[error("model name {0} is served twice")]
    DuplicateName(String),
}

impl MockConfig {
    /// Every mistake, in the order of the fields.
    pub fn check(&self) -> Result<(), Vec<ConfigError>> {
        let mut errors = Vec::new();
        self.check_sizes(&mut errors);
        self.check_vocabulary(&mut errors);
        if self.owned_ranks().is_empty() {
            let (start, size) = (self.data_parallel_start_rank, self.data_parallel_size);
            errors.push(ConfigError::NoRank { start, size });
        }
        if !(0.0..=1.0).contains(&self.eos_probability) {
            errors.push(ConfigError::Probability);
        }
        if !(self.timing.speed.is_finite() && self.timing.speed >= 0.0) {
            errors.push(ConfigError::Speed);
        }
        if self.faults.len() > FAULTS_MAX {
            errors.push(ConfigError::TooManyFaults(self.faults.len()));
        }
        if let Some(kv_events) = self.kv_events.as_ref().filter(|events| events.is_published()) {
            errors.extend(kv::check_endpoints(kv_events).err().map(ConfigError::KvEndpoint));
        }
        if let Some(multimodal) = &self.multimodal {
            let Multimodal { image_token, video_token, audio_token, item_tokens } = *multimodal;
            let tokens = [image_token, video_token, audio_token];
            let distinct: BTreeSet<u32> = tokens.into_iter().collect();
            if item_tokens == 0
                || distinct.len() < tokens.len()
                || tokens.iter().any(|token| *token >= self.vocabulary.rows)
            {
                errors.push(ConfigError::Placeholder);
            }
        }
        self.check_names(&mut errors);
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Models and adapters have names of their own.
    fn check_names(&self, errors: &mut Vec<ConfigError>) {
        let adapters_max = if self.enable_lora { ADAPTERS_MAX } else { 0 };
        if self.lora_modules.len() > adapters_max {
            errors.push(ConfigError::TooManyAdapters(self.lora_modules.len(), adapters_max));
        }
        let adapters = self.lora_modules.iter().map(|(name, _)| name);
        let mut seen = BTreeSet::new();
        let twice = self.served_model_names.iter().chain(adapters).filter(|name| !seen.insert(*name));
        errors.extend(twice.map(|name| ConfigError::DuplicateName(name.clone())));
    }

    fn check_sizes(&self, errors: &mut Vec<ConfigError>) {
        let sizes = [
            ("max-model-len", self.max_model_len),
            ("block-size", self.block_size),
            ("num-gpu-blocks-override", self.num_gpu_blocks),
            ("max-num-seqs", self.max_num_seqs),
            ("max-num-batched-tokens", self.max_num_batched_tokens),
            ("data-parallel-size", self.data_parallel_size),
            ("max-live-requests", self.max_live_requests),
        ];
        errors.extend(sizes.iter().filter(|(_, size)| *size == 0).map(|(name, _)| ConfigError::Zero(name)));
        let capacity = u64::from(self.num_gpu_blocks.saturating_sub(1)) * u64::from(self.block_size);
        if capacity < u64::from(self.max_model_len) {
            errors.push(ConfigError::PoolTooSmall {
                blocks: self.num_gpu_blocks,
                block_size: self.block_size,
                max_model_len: self.max_model_len,
            });
        }
        let ranks = self.owned_ranks().len() as u32;
        if self.data_parallel_size > RANKS_MAX {
            errors.push(ConfigError::TooManyRanks(self.data_parallel_size));
        } else if u64::from(ranks) * u64::from(self.num_gpu_blocks) > BLOCKS_MAX {
            errors.push(ConfigError::TooManyBlocks { ranks, blocks: self.num_gpu_blocks });
        }
    }

    fn check_vocabulary(&self, errors: &mut Vec<ConfigError>) {
        let vocabulary = &self.vocabulary;
        let rules = [
            (vocabulary.special_from > 0, "there must be ordinary ids"),
            (vocabulary.special_from <= vocabulary.tokenizer_ids, "special ids lie outside the tokenizer"),
            (vocabulary.tokenizer_ids <= vocabulary.rows, "the tokenizer has more ids than the embedding"),
            (vocabulary.eos_id < vocabulary.rows, "the eos id lies outside the embedding"),
        ];
        let broken = rules.iter().filter(|(holds, _)| !holds);
        errors.extend(broken.map(|(_, rule)| ConfigError::Vocabulary(rule)));
    }
}
