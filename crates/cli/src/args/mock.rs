use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tito_mock::{
    EventEncoding, FaultSpec, HashAlgorithm, KvEventsConfig, KvStyle, MockConfig, Multimodal, ReplayLayout,
    SchedulingPolicy, TlsFiles,
};

use crate::units;

/// A simulated vLLM engine. Flags that vllm-rs has mean here what they mean there.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is one flag of the command line")]
pub(crate) struct MockArgs {
    /// Model id or path to report; stands first
    #[arg(default_value = "mock-model")]
    model: String,
    /// Names clients may use: the primary one, then aliases
    #[arg(long, value_name = "NAME", num_args = 1.., help_heading = "As vllm-rs")]
    served_model_name: Vec<String>,
    /// Address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", help_heading = "As vllm-rs")]
    host: IpAddr,
    /// HTTP port; 0 takes a free one and prints it
    #[arg(long, value_name = "PORT", default_value = "0", help_heading = "As vllm-rs")]
    port: u16,
    /// gRPC port; 0 takes a free one and prints it
    #[arg(long, value_name = "PORT", default_value = "0", help_heading = "As vllm-rs")]
    grpc_port: u16,
    /// Context length in tokens
    #[arg(long, value_name = "TOKENS", default_value = "2048", help_heading = "As vllm-rs")]
    max_model_len: u32,
    /// Tokens per KV block
    #[arg(long, value_name = "TOKENS", default_value = "32", help_heading = "As vllm-rs")]
    block_size: u32,
    /// KV blocks per rank
    #[arg(long, value_name = "BLOCKS", default_value = "32768", help_heading = "As vllm-rs")]
    num_gpu_blocks_override: u32,
    /// Sequences that run at once, per rank
    #[arg(long, value_name = "N", default_value = "128", help_heading = "As vllm-rs")]
    max_num_seqs: u32,
    /// Tokens computed in one step, per rank
    #[arg(long, value_name = "TOKENS", default_value = "2048", help_heading = "As vllm-rs")]
    max_num_batched_tokens: u32,
    /// Who starts first and who is preempted: fcfs (priorities have no effect) or priority
    #[arg(long, value_name = "POLICY", default_value = "fcfs", value_parser = scheduling_policy, hide_short_help = true, help_heading = "As vllm-rs")]
    scheduling_policy: SchedulingPolicy,
    /// Candidates a request may ask for; -1 lifts the cap
    #[arg(
        long,
        value_name = "N",
        default_value = "20",
        allow_negative_numbers = true,
        help_heading = "As vllm-rs"
    )]
    max_logprobs: i32,
    /// Data-parallel ranks
    #[arg(long, value_name = "N", default_value = "1", hide_short_help = true, help_heading = "As vllm-rs")]
    data_parallel_size: u32,
    /// First global rank behind this address
    #[arg(
        long,
        value_name = "RANK",
        default_value = "0",
        hide_short_help = true,
        help_heading = "As vllm-rs"
    )]
    data_parallel_start_rank: u32,
    /// Ranks behind this address; all from the first one on when absent
    #[arg(long, value_name = "N", hide_short_help = true, help_heading = "As vllm-rs")]
    data_parallel_size_local: Option<u32>,
    /// KV events to publish, as vLLM's flag; tcp://*:0: a free port
    #[arg(long, value_name = "JSON", value_parser = kv_events, help_heading = "As vllm-rs")]
    kv_events_config: Option<KvEventsConfig>,
    /// How blocks are named: sha256 or sha256_cbor
    #[arg(long, value_name = "ALGO", default_value = "sha256", value_parser = hash_algorithm, hide_short_help = true, help_heading = "As vllm-rs")]
    prefix_caching_hash_algo: HashAlgorithm,
    /// Adapters loaded from the start, NAME=PATH; the path only enters block names
    #[arg(long, value_name = "NAME=PATH", num_args = 1.., value_parser = lora_module, hide_short_help = true, help_heading = "As vllm-rs")]
    lora_modules: Vec<(String, String)>,
    /// Let adapters be loaded
    #[arg(long, help_heading = "As vllm-rs")]
    enable_lora: bool,
    /// Let the engine sleep
    #[arg(long, hide_short_help = true, help_heading = "As vllm-rs")]
    enable_sleep_mode: bool,
    /// Report which tokens sampling could have chosen
    #[arg(long, hide_short_help = true, help_heading = "As vllm-rs")]
    return_sampling_mask: bool,
    /// Seed of the model: mocks with one seed continue a sequence identically
    #[arg(long, value_name = "N", default_value = "0", help_heading = "As vllm-rs")]
    seed: u64,
    /// How long running requests may go on after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration, help_heading = "As vllm-rs")]
    shutdown_timeout: Duration,
    /// Certificate chain (PEM); turns TLS on for gRPC
    #[arg(
        long,
        value_name = "FILE",
        requires = "ssl_keyfile",
        hide_short_help = true,
        help_heading = "As vllm-rs"
    )]
    ssl_certfile: Option<PathBuf>,
    /// Key (PEM) of --ssl-certfile
    #[arg(
        long,
        value_name = "FILE",
        requires = "ssl_certfile",
        hide_short_help = true,
        help_heading = "As vllm-rs"
    )]
    ssl_keyfile: Option<PathBuf>,
    /// CA (PEM) that must have signed a client's certificate
    #[arg(
        long,
        value_name = "FILE",
        requires = "ssl_certfile",
        hide_short_help = true,
        help_heading = "As vllm-rs"
    )]
    ssl_ca_certs: Option<PathBuf>,

    /// Weight transfer backend to report, such as nccl
    #[arg(long, value_name = "NAME", hide_short_help = true, help_heading = "Simulation")]
    weight_transfer_backend: Option<String>,
    /// Pretend that a KV connector is configured
    #[arg(long, hide_short_help = true, help_heading = "Simulation")]
    kv_connector: bool,
    /// Take images, video and audio
    #[arg(long, help_heading = "Simulation")]
    multimodal: bool,
    /// Placeholder tokens that one raw media item becomes
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..=65_536), hide_short_help = true, help_heading = "Simulation")]
    media_tokens: u32,
    /// Shape of KV events: map (vLLM 0.32) or array (up to 0.23)
    #[arg(long, value_name = "SHAPE", default_value = "map", value_parser = encoding, hide_short_help = true, help_heading = "Simulation")]
    kv_events_encoding: EventEncoding,
    /// Frames of a replay: topic (vLLM 0.32) or no-topic (older)
    #[arg(long, value_name = "FRAMES", default_value = "topic", value_parser = replay, hide_short_help = true, help_heading = "Simulation")]
    kv_replay_layout: ReplayLayout,
    /// Seed of block names, as PYTHONHASHSEED; mocks with different seeds name every block differently
    #[arg(long, value_name = "TEXT", hide_short_help = true, help_heading = "Simulation")]
    hash_seed: Option<String>,
    /// Name blocks by whole digests instead of 64-bit numbers
    #[arg(long, hide_short_help = true, help_heading = "Simulation")]
    kv_whole_digests: bool,
    /// Speed factor: 1 is real time, 0 as fast as possible
    #[arg(long, value_name = "FACTOR", default_value = "0", help_heading = "Simulation")]
    speed: f64,
    /// Time of every step
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = units::duration, help_heading = "Simulation")]
    step_time: Duration,
    /// Added per 1000 prompt tokens computed in a step
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = units::duration, help_heading = "Simulation")]
    prefill_time: Duration,
    /// Added per million pairs of a prompt token computed in a step and a token before it, cached or not
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration, hide_short_help = true, help_heading = "Simulation")]
    prefill_attention_time: Duration,
    /// Added per sequence that decodes in a step
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration, hide_short_help = true, help_heading = "Simulation")]
    decode_time: Duration,
    /// Added per 1000 tokens of context of the sequences that decode in a step
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::duration, hide_short_help = true, help_heading = "Simulation")]
    decode_context_time: Duration,
    /// Probability per token that a sequence ends by itself
    #[arg(long, value_name = "P", default_value = "0", help_heading = "Simulation")]
    eos_probability: f64,
    /// A fault from the start, as /mock/faults takes it; repeat for several
    #[arg(long, value_name = "JSON", value_parser = fault, help_heading = "Simulation")]
    fault: Vec<FaultSpec>,
}

fn hash_algorithm(text: &str) -> Result<HashAlgorithm, String> {
    match text {
        "sha256" => Ok(HashAlgorithm::Sha256),
        "sha256_cbor" => Ok(HashAlgorithm::Sha256Cbor),
        _ => Err("use sha256 or sha256_cbor".to_owned()),
    }
}

fn lora_module(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty());
    parts
        .map(|(name, path)| (name.to_owned(), path.to_owned()))
        .ok_or_else(|| "write it as NAME=PATH".to_owned())
}

fn scheduling_policy(text: &str) -> Result<SchedulingPolicy, String> {
    match text {
        "fcfs" => Ok(SchedulingPolicy::Fcfs),
        "priority" => Ok(SchedulingPolicy::Priority),
        _ => Err("use fcfs or priority".to_owned()),
    }
}

fn encoding(text: &str) -> Result<EventEncoding, String> {
    match text {
        "map" => Ok(EventEncoding::Map),
        "array" => Ok(EventEncoding::Array),
        _ => Err("use map or array".to_owned()),
    }
}

fn replay(text: &str) -> Result<ReplayLayout, String> {
    match text {
        "topic" => Ok(ReplayLayout::Topic),
        "no-topic" => Ok(ReplayLayout::NoTopic),
        _ => Err("use topic or no-topic".to_owned()),
    }
}

fn kv_events(json: &str) -> Result<KvEventsConfig, String> {
    KvEventsConfig::parse(json).map_err(|error| error.to_string())
}

fn fault(json: &str) -> Result<FaultSpec, String> {
    FaultSpec::parse(json).map_err(|error| error.to_string())
}

impl MockArgs {
    pub(crate) fn into_config(self) -> MockConfig {
        let tls = self.ssl_certfile.zip(self.ssl_keyfile).map(|(certificate, key)| TlsFiles {
            certificate,
            key,
            client_authority: self.ssl_ca_certs,
        });
        let timing = tito_mock::Timing {
            step: self.step_time,
            prefill_token: self.prefill_time / 1000,
            prefill_attention: self.prefill_attention_time,
            decode_sequence: self.decode_time,
            decode_context: self.decode_context_time,
            speed: self.speed,
        };
        MockConfig {
            grpc_listen: SocketAddr::new(self.host, self.grpc_port),
            http_listen: SocketAddr::new(self.host, self.port),
            tls,
            model: self.model,
            served_model_names: self.served_model_name,
            max_model_len: self.max_model_len,
            block_size: self.block_size,
            num_gpu_blocks: self.num_gpu_blocks_override,
            max_num_seqs: self.max_num_seqs,
            max_num_batched_tokens: self.max_num_batched_tokens,
            scheduling_policy: self.scheduling_policy,
            max_logprobs: self.max_logprobs,
            data_parallel_size: self.data_parallel_size,
            data_parallel_start_rank: self.data_parallel_start_rank,
            data_parallel_size_local: self.data_parallel_size_local,
            kv_events: self.kv_events_config,
            kv_style: KvStyle {
                encoding: self.kv_events_encoding,
                replay: self.kv_replay_layout,
                hash_algorithm: self.prefix_caching_hash_algo,
                hash_seed: self.hash_seed,
                whole_digests: self.kv_whole_digests,
            },
            multimodal: self
                .multimodal
                .then(|| Multimodal { item_tokens: self.media_tokens, ..Multimodal::default() }),
            enable_lora: self.enable_lora || !self.lora_modules.is_empty(),
            lora_modules: self.lora_modules,
            weight_transfer_backend: self.weight_transfer_backend,
            enable_sleep_mode: self.enable_sleep_mode,
            return_sampling_mask: self.return_sampling_mask,
            kv_connector: self.kv_connector,
            seed: self.seed,
            eos_probability: self.eos_probability,
            timing,
            shutdown_timeout: self.shutdown_timeout,
            faults: self.fault,
            ..MockConfig::new()
        }
    }
}
