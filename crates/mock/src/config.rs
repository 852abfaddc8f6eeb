//! What a mock is told: vLLM's own flags where they mean the same, and what a simulation needs besides.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tito_engine_sim::{ModelConfig, SchedulingPolicy, SimConfig, Timing};

use crate::faults::FaultSpec;

mod check;
mod kv_events;
mod kv_style;
mod multimodal;
#[cfg(test)]
mod tests;

pub use check::ConfigError;
pub use kv_events::KvEventsConfig;
pub use kv_style::{EventEncoding, HashAlgorithm, KvStyle, ReplayLayout};
pub use multimodal::Multimodal;

/// Where the ids of a vocabulary lie. Ids below 256 are bytes, ids from `special_from` up are special.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    /// Rows of the embedding. Most checks of ids are against this number, as in vLLM 0.32.
    pub rows: u32,
    /// Ids that the tokenizer knows; `allowed_token_ids` is checked against this number.
    pub tokenizer_ids: u32,
    /// First special id. Special ids have no text unless asked for.
    pub special_from: u32,
    /// The primary end-of-sequence id.
    pub eos_id: u32,
    /// Further ids that end a sequence, reported as stop ids.
    pub secondary_eos_ids: Vec<u32>,
}

/// Sampling defaults of the model's `generation_config`. Absent means neutral.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GenerationConfig {
    /// Most probable ids to draw from.
    pub top_k: Option<u32>,
    /// Probability mass to draw from, in (0, 1].
    pub top_p: Option<f32>,
    /// Least probability relative to the best id.
    pub min_p: Option<f32>,
    /// Most tokens to generate when a request does not say.
    pub max_new_tokens: Option<u32>,
}

/// Files of a TLS server, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// If set, clients must present a certificate that this authority signed.
    pub client_authority: Option<PathBuf>,
}

/// Configuration of one mock engine. [`MockConfig::new`] is an engine like the recorded dense one.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "one switch per engine flag, as the flags are")]
pub struct MockConfig {
    /// Where gRPC listens; port 0 takes a free one. Flag `--grpc-port`.
    pub grpc_listen: SocketAddr,
    /// Where HTTP listens; port 0 takes a free one. Flag `--port`.
    pub http_listen: SocketAddr,
    /// TLS for gRPC. HTTP carries the control route and stays plain.
    pub tls: Option<TlsFiles>,
    /// Model id or path.
    pub model: String,
    /// Names clients may use: the primary one, then aliases. Empty means the model id.
    pub served_model_names: Vec<String>,
    /// Name of the reasoning parser that the engine reports; empty means none.
    pub reasoning_parser: String,
    /// Name of the tool call parser that the engine reports; empty means none.
    pub tool_call_parser: String,
    /// The ids.
    pub vocabulary: Vocabulary,
    /// Sampling defaults.
    pub generation: GenerationConfig,
    /// Context length, prompt and output together, in tokens.
    pub max_model_len: u32,
    /// Tokens per KV block.
    pub block_size: u32,
    /// KV blocks per rank, one of which holds nothing, as in vLLM. Flag `--num-gpu-blocks-override`.
    pub num_gpu_blocks: u32,
    /// Most sequences that run at once, per rank.
    pub max_num_seqs: u32,
    /// Most tokens computed in one step, per rank.
    pub max_num_batched_tokens: u32,
    /// Who starts first and who is preempted. Flag `--scheduling-policy`.
    pub scheduling_policy: SchedulingPolicy,
    /// Most candidates per position that a request may ask for; -1 lifts the cap.
    pub max_logprobs: i32,
    /// Ranks of the whole deployment.
    pub data_parallel_size: u32,
    /// First global rank that this mock owns.
    pub data_parallel_start_rank: u32,
    /// Ranks that this mock owns; `None` means all from the start rank up.
    pub data_parallel_size_local: Option<u32>,
    /// KV events as configured: published, and reported by discovery. `*` in an endpoint is the address of
    /// [`MockConfig::grpc_listen`], and port 0 a free one.
    pub kv_events: Option<KvEventsConfig>,
    /// How KV events are spelled.
    pub kv_style: KvStyle,
    /// How media are taken; `None` is a model for text only.
    pub multimodal: Option<Multimodal>,
    /// Whether adapters can be loaded.
    pub enable_lora: bool,
    /// Adapters in one batch, as reported.
    pub max_loras: u32,
    /// Adapters loaded from the start, by name and path, which is not looked at. Flag `--lora-modules`.
    pub lora_modules: Vec<(String, String)>,
    /// Adapters on disk must lie below one of these. vLLM's `VLLM_RUNTIME_LORA_ALLOWED_PATH_PREFIXES`.
    pub lora_path_prefixes: Vec<PathBuf>,
    /// Backend of weight transfer, such as `nccl`; `None` means off.
    pub weight_transfer_backend: Option<String>,
    /// Whether weights of a draft model can be updated.
    pub draft_weight_updates: bool,
    /// Whether the engine can sleep.
    pub enable_sleep_mode: bool,
    /// Whether finished requests carry the ids that sampling could have chosen.
    pub return_sampling_mask: bool,
    /// Whether a KV connector is configured, so that `kv_transfer_params` mean something.
    pub kv_connector: bool,
    /// Two mocks with one seed continue a sequence identically.
    pub seed: u64,
    /// Probability per token that the model ends by itself.
    pub eos_probability: f64,
    /// How long steps take. Its speed is the speed factor; 0 is as fast as possible.
    pub timing: Timing,
    /// How long calls may go on after a shutdown was asked for.
    pub shutdown_timeout: Duration,
    /// Whether `Control.Shutdown` is accepted: the frontend owns its engine.
    pub owns_engine: bool,
    /// Whether `kv_transfer_params.script` of a request steers its output.
    pub scripts: bool,
    /// Faults from the start.
    pub faults: Vec<FaultSpec>,
    /// Calls alive at once; further ones wait at the door.
    pub max_live_requests: u32,
    /// Requests that the journal keeps.
    pub journal_requests: usize,
    /// Instance id to report; `None` means a random one.
    pub instance_id: Option<String>,
}

impl MockConfig {
    /// An engine like the recorded dense one (vLLM 0.32 on CPU), instant, on free loopback ports.
    pub fn new() -> Self {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            grpc_listen: loopback,
            http_listen: loopback,
            tls: None,
            model: "mock".to_owned(),
            served_model_names: Vec::new(),
            reasoning_parser: String::new(),
            tool_call_parser: String::new(),
            vocabulary: Vocabulary {
                rows: 1024,
                tokenizer_ids: 1010,
                special_from: 1000,
                eos_id: 1002,
                secondary_eos_ids: vec![1000],
            },
            generation: GenerationConfig::default(),
            max_model_len: 2048,
            block_size: 32,
            num_gpu_blocks: 32_768,
            max_num_seqs: 128,
            max_num_batched_tokens: 2048,
            scheduling_policy: SchedulingPolicy::Fcfs,
            max_logprobs: 20,
            data_parallel_size: 1,
            data_parallel_start_rank: 0,
            data_parallel_size_local: None,
            kv_events: None,
            kv_style: KvStyle::default(),
            multimodal: None,
            enable_lora: false,
            max_loras: 1,
            lora_modules: Vec::new(),
            lora_path_prefixes: Vec::new(),
            weight_transfer_backend: None,
            draft_weight_updates: false,
            enable_sleep_mode: false,
            return_sampling_mask: false,
            kv_connector: false,
            seed: 0,
            eos_probability: 0.0,
            timing: Timing::INSTANT,
            shutdown_timeout: Duration::ZERO,
            owns_engine: true,
            scripts: false,
            faults: Vec::new(),
            max_live_requests: 65_536,
            journal_requests: 256,
            instance_id: None,
        }
    }

    /// The name that the engine reports and that an empty `model` stands for.
    pub fn primary_name(&self) -> &str {
        self.served_model_names.first().map_or(&self.model, |name| name)
    }

    /// The global ranks that this mock owns.
    pub fn owned_ranks(&self) -> std::ops::Range<u32> {
        let rest = self.data_parallel_size.saturating_sub(self.data_parallel_start_rank);
        let local = self.data_parallel_size_local.unwrap_or(rest).min(rest);
        self.data_parallel_start_rank..self.data_parallel_start_rank + local
    }

    pub(crate) fn model_config(&self) -> ModelConfig {
        ModelConfig {
            seed: self.seed,
            vocabulary_rows: self.vocabulary.rows,
            ordinary_ids: self.vocabulary.special_from,
            eos_id: self.vocabulary.eos_id,
            eos_probability: self.eos_probability,
        }
    }

    pub(crate) fn sim_config(&self) -> SimConfig {
        SimConfig {
            block_tokens: self.block_size,
            // vLLM keeps one for itself.
            blocks: self.num_gpu_blocks.saturating_sub(1),
            max_sequence_tokens: self.max_model_len,
            max_running: self.max_num_seqs,
            max_step_tokens: self.max_num_batched_tokens,
            max_waiting: self.max_live_requests,
            policy: self.scheduling_policy,
            kv_events: self.kv_events.as_ref().is_some_and(KvEventsConfig::is_published),
            timing: self.timing,
        }
    }
}

impl Default for MockConfig {
    fn default() -> Self {
        Self::new()
    }
}
