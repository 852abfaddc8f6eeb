use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tito_frontend::Secret;
use tito_policy::PolicyKind;
use tito_router::TargetLimit;

use crate::units::{self, Limit};

/// Every setting of `tito serve`. Each flag is also a key of the configuration file and `TITO_<FLAG>`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArgs {
    /// TOML file whose keys equal these flags
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// vllm://HOST:GRPC_PORT[?OPTION&…], vllms:// for TLS; repeat for several. Options: pixels=raw|normalized,
    /// metrics=http://HOST:PORT
    #[arg(long, value_name = "URL", value_delimiter = ',', help_heading = "Engines")]
    pub(crate) engine: Vec<String>,
    /// CA (PEM) of vllms:// engines
    #[arg(long, value_name = "FILE", help_heading = "Engines")]
    pub(crate) engine_ca: Option<PathBuf>,
    /// Our certificate (PEM), where engines ask for one
    #[arg(long, value_name = "FILE", help_heading = "Engines")]
    pub(crate) engine_cert: Option<PathBuf>,
    /// Key (PEM) of --engine-cert
    #[arg(long, value_name = "FILE", help_heading = "Engines")]
    pub(crate) engine_key: Option<PathBuf>,
    /// Name in the engine's certificate, if not its host
    #[arg(long, value_name = "NAME", help_heading = "Engines")]
    pub(crate) engine_server_name: Option<String>,
    /// HTTP/2 connections per engine
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(1..=256), hide_short_help = true, help_heading = "Engines")]
    pub(crate) engine_channels: u16,
    /// Largest reply message accepted from an engine
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = units::bytes, hide_short_help = true, help_heading = "Engines")]
    pub(crate) engine_reply_limit: usize,
    /// Limit for connecting to an engine
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::positive, help_heading = "Engines")]
    pub(crate) connect_timeout: Duration,
    /// Longest silence of a request, pauses aside; 0: no limit
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = units::limit, help_heading = "Engines")]
    pub(crate) stall_timeout: Limit,

    /// Address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", help_heading = "Clients")]
    pub(crate) host: IpAddr,
    /// Port to listen on; 0: a free one, printed
    #[arg(long, value_name = "PORT", default_value = "8000", help_heading = "Clients")]
    pub(crate) port: u16,
    /// Certificate chain (PEM); turns TLS on
    #[arg(long, value_name = "FILE", help_heading = "Clients")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Key (PEM) of --tls-cert
    #[arg(long, value_name = "FILE", help_heading = "Clients")]
    pub(crate) tls_key: Option<PathBuf>,
    /// CA (PEM) that clients' certificates must come from
    #[arg(long, value_name = "FILE", help_heading = "Clients")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Key that clients must present; repeat for several
    #[arg(
        long,
        value_name = "KEY",
        value_delimiter = ',',
        allow_hyphen_values = true,
        help_heading = "Clients"
    )]
    pub(crate) api_key: Vec<Secret>,
    /// File with one key per line; read again on SIGHUP
    #[arg(long, value_name = "FILE", help_heading = "Clients")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Let /metrics be read without a key
    #[arg(long, hide_short_help = true, help_heading = "Clients")]
    pub(crate) metrics_without_key: bool,
    /// Largest request body
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = units::bytes, help_heading = "Clients")]
    pub(crate) body_limit: usize,
    /// Open connections; one more waits
    #[arg(long, value_name = "N", default_value = "65536", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true, help_heading = "Clients")]
    pub(crate) connection_limit: u32,
    /// How long a client may leave a reply unread
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::positive, hide_short_help = true, help_heading = "Clients")]
    pub(crate) client_stall_timeout: Duration,
    /// Silence after which a stream gets a comment; 0: never
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::limit, help_heading = "Clients")]
    pub(crate) sse_keep_alive: Limit,
    /// Port for operators' orders (keys: --control-key-file); 0: a free one
    #[arg(long, value_name = "PORT", help_heading = "Clients")]
    pub(crate) control_port: Option<u16>,
    /// Address to take orders on
    #[arg(
        long,
        value_name = "IP",
        default_value = "127.0.0.1",
        hide_short_help = true,
        help_heading = "Clients"
    )]
    pub(crate) control_host: IpAddr,
    /// Key that orders must come with; repeat for several
    #[arg(
        long,
        value_name = "KEY",
        value_delimiter = ',',
        allow_hyphen_values = true,
        hide_short_help = true,
        help_heading = "Clients"
    )]
    pub(crate) control_key: Vec<Secret>,
    /// File with one such key per line; read again on SIGHUP
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = "Clients")]
    pub(crate) control_key_file: Option<PathBuf>,

    /// Whose sampling defaults: vllm (Python's) or engine
    #[arg(
        long,
        value_name = "WHOSE",
        default_value = "vllm",
        hide_possible_values = true,
        help_heading = "Requests"
    )]
    pub(crate) generation_config: GenerationConfig,
    /// Refuse unknown request fields instead of listing them
    #[arg(long, help_heading = "Requests")]
    pub(crate) strict: bool,
    /// Continuations in flight (a request counts n)
    #[arg(long, value_name = "N", default_value = "8192", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Requests")]
    pub(crate) max_in_flight: u32,
    /// Requests waiting for a place; one more gets 429
    #[arg(long, value_name = "N", default_value = "8192", help_heading = "Requests")]
    pub(crate) max_queued: u32,
    /// Longest wait for a place; then 429
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration, help_heading = "Requests")]
    pub(crate) queue_timeout: Duration,

    /// Media payloads remembered for requests that only refer to them; 0: none
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = units::bytes_or_none, hide_short_help = true, help_heading = "Requests")]
    pub(crate) media_cache_limit: usize,

    /// kv, round-robin, random, power-of-two, least-loaded or direct
    #[arg(long, value_name = "POLICY", default_value = "kv", value_parser = policy, help_heading = "Routing")]
    pub(crate) policy: PolicyKind,
    /// Randomness of kv; 0: always the cheapest target
    #[arg(long, value_name = "T", default_value = "0", value_parser = temperature, hide_short_help = true, help_heading = "Routing")]
    pub(crate) temperature: f64,
    /// How firmly a session stays on its target: soft, hard or off
    #[arg(
        long,
        value_name = "HOW",
        default_value = "soft",
        hide_possible_values = true,
        help_heading = "Routing"
    )]
    pub(crate) affinity: Affinity,
    /// Silence after which a session is forgotten
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = units::positive, hide_short_help = true, help_heading = "Routing")]
    pub(crate) session_idle: Duration,
    /// Requests with one prompt at one time: colocate, spread or ignore
    #[arg(
        long,
        value_name = "HOW",
        default_value = "colocate",
        hide_possible_values = true,
        help_heading = "Routing"
    )]
    pub(crate) siblings: SiblingsRule,
    /// Extra load up to which siblings stay together
    #[arg(
        long,
        value_name = "TOKENS",
        default_value = "4096",
        hide_short_help = true,
        help_heading = "Routing"
    )]
    pub(crate) sibling_load: u32,
    /// Continuations in flight per target: a number, auto (4 x what it runs) or off
    #[arg(long, value_name = "N", default_value = "auto", value_parser = target_limit, help_heading = "Routing")]
    pub(crate) target_limit: TargetLimit,
    /// Memory of the prefix index
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = index_limit, help_heading = "Routing")]
    pub(crate) index_limit: usize,

    /// Time to keep accepting after SIGTERM, unready
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration, help_heading = "Process")]
    pub(crate) unready_delay: Duration,
    /// Time that requests may go on after that
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration, help_heading = "Process")]
    pub(crate) drain_timeout: Duration,
    /// error, warn, info, debug, trace, or a tracing filter
    #[arg(long, value_name = "FILTER", default_value = "info", help_heading = "Process")]
    pub(crate) log_level: String,
    /// text or json
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true,
        help_heading = "Process"
    )]
    pub(crate) log_format: LogFormat,
}

/// How firmly a session stays on its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Affinity {
    /// While that costs no more than the prefill it saves
    Soft,
    /// Whenever the target can take it
    Hard,
    /// Not at all
    Off,
}

/// What becomes of requests that have one prompt and are in flight at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SiblingsRule {
    /// On one target, up to a bound
    Colocate,
    /// On as many as there are
    Spread,
    /// Like any others
    Ignore,
}

fn index_limit(text: &str) -> Result<usize, String> {
    let bytes = units::memory(text)?;
    if bytes < tito_kv_index::BYTES_MIN {
        return Err(format!("must be at least {}MiB", tito_kv_index::BYTES_MIN >> 20));
    }
    Ok(bytes)
}

fn policy(text: &str) -> Result<PolicyKind, String> {
    text.parse().map_err(|error: tito_policy::UnknownPolicy| error.to_string())
}

fn temperature(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "a number from 0 to 100".to_owned())?;
    if (0.0..=100.0).contains(&number) { Ok(number) } else { Err("a number from 0 to 100".to_owned()) }
}

fn target_limit(text: &str) -> Result<TargetLimit, String> {
    match text {
        "auto" => Ok(TargetLimit::Auto),
        "off" => Ok(TargetLimit::Off),
        _ => match text.parse() {
            Ok(0) | Err(_) => Err("a number from 1, auto or off".to_owned()),
            Ok(limit) => Ok(TargetLimit::Continuations(limit)),
        },
    }
}

/// Where absent sampling values come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GenerationConfig {
    /// vLLM's Python defaults, sent explicitly
    Vllm,
    /// Left to the engine
    Engine,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One object per line
    Json,
}

#[cfg(test)]
mod tests;
