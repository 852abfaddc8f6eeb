//! From flags to the configuration of each component, with every mistake found before a socket opens.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tito_dataplane::AdmitConfig;
use tito_engine_vllm::{TlsConfig as EngineTls, VllmConfig};
use tito_fleet::FleetConfig;
use tito_formats::SamplingDefaults;
use tito_frontend::{FrontendConfig, KeyConfig, Limits, Secret, Timeouts, TlsConfig};
use tito_runtime::ShutdownConfig;

use crate::args::{GenerationConfig, ServeArgs};

/// First pause before an engine that was not reached is tried again.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// Longest such pause: a restarted engine is found within this time.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Everything `tito serve` is built from.
pub(crate) struct Settings {
    pub(crate) frontend: FrontendConfig,
    pub(crate) engines: Vec<VllmConfig>,
    pub(crate) fleet: FleetConfig,
    pub(crate) admission: AdmitConfig,
    pub(crate) shutdown: ShutdownConfig,
}

/// How often a lost or missing engine is tried.
pub(crate) fn fleet_config() -> FleetConfig {
    FleetConfig { retry_min: RETRY_MIN, retry_max: RETRY_MAX }
}

/// Converts the flags; reads the files that engines need. Returns every mistake at once.
pub(crate) fn settings(args: &ServeArgs) -> Result<Settings, Vec<String>> {
    let mut problems = Vec::new();
    let engine_tls = engine_tls(args).unwrap_or_else(|problem| {
        problems.push(problem);
        None
    });
    let mut engines = Vec::new();
    for url in &args.engine {
        match engine(url, args, engine_tls.as_ref()) {
            Ok(engine)
                if engines.iter().any(|known: &VllmConfig| known.authority() == engine.authority()) =>
            {
                problems.push(format!("--engine {url}: named twice"));
            }
            Ok(engine) => engines.push(engine),
            Err(problem) => problems.push(format!("--engine {url}: {problem}")),
        }
    }
    if args.engine.is_empty() {
        problems.push("--engine is missing: name at least one, vllm://HOST:GRPC_PORT".to_owned());
    }
    let files = [&args.tls_cert, &args.tls_key, &args.tls_client_ca, &args.api_key_file];
    for path in files.into_iter().flatten() {
        if let Err(error) = std::fs::File::open(path) {
            problems.push(format!("cannot read {}: {error}", path.display()));
        }
    }
    if args.api_key.iter().any(|key| key.trim().is_empty()) {
        problems.push("--api-key: a key is empty".to_owned());
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Settings {
        frontend: frontend(args),
        engines,
        fleet: fleet_config(),
        admission: AdmitConfig {
            in_flight_max: args.max_in_flight,
            queue_requests_max: args.max_queued as usize,
            queue_timeout: args.queue_timeout,
        },
        shutdown: ShutdownConfig { unready: args.unready_delay, drain: args.drain_timeout },
    })
}

fn frontend(args: &ServeArgs) -> FrontendConfig {
    let listen = SocketAddr::new(args.host, args.port);
    let defaults = FrontendConfig::new(listen);
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    FrontendConfig {
        listen,
        tls: tls.map(|(certificate, key)| TlsConfig {
            certificate,
            key,
            client_ca: args.tls_client_ca.clone(),
        }),
        keys: KeyConfig {
            keys: args.api_key.iter().cloned().map(Secret::new).collect(),
            file: args.api_key_file.clone(),
            metrics_open: args.metrics_without_key,
        },
        limits: Limits {
            connections: args.connection_limit as usize,
            body_bytes: args.body_limit,
            ..defaults.limits
        },
        timeouts: Timeouts { client_stall: args.client_stall_timeout, ..defaults.timeouts },
        sampling_defaults: match args.generation_config {
            GenerationConfig::Vllm => SamplingDefaults::Vllm,
            GenerationConfig::Engine => SamplingDefaults::Engine,
        },
        strict: args.strict,
        stream_ping: args.sse_keep_alive.0,
    }
}

fn engine_tls(args: &ServeArgs) -> Result<Option<EngineTls>, String> {
    let Some(ca) = &args.engine_ca else { return Ok(None) };
    let identity = args.engine_cert.as_deref().zip(args.engine_key.as_deref());
    let identity_pem = identity.map(|(cert, key)| Ok::<_, String>((read(cert)?, read(key)?))).transpose()?;
    Ok(Some(EngineTls { ca_pem: read(ca)?, identity_pem, server_name: args.engine_server_name.clone() }))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn engine(url: &str, args: &ServeArgs, tls: Option<&EngineTls>) -> Result<VllmConfig, String> {
    let (scheme, rest) = url.split_once("://").ok_or("write it as vllm://HOST:GRPC_PORT")?;
    let tls = match (scheme, tls) {
        ("vllm", _) => None,
        ("vllms", Some(tls)) => Some(tls.clone()),
        ("vllms", None) => return Err("vllms:// needs --engine-ca".to_owned()),
        _ => return Err(format!("unknown scheme `{scheme}`: use vllm:// or vllms://")),
    };
    let (host, port) = rest.rsplit_once(':').ok_or("the gRPC port is missing")?;
    let port: u16 = port.parse().map_err(|_| format!("`{port}` is not a port"))?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    if host.is_empty() || port == 0 {
        return Err("write it as vllm://HOST:GRPC_PORT".to_owned());
    }
    if host.contains(':') && bare.is_none() {
        return Err("write an IPv6 address in brackets: vllm://[IPV6]:GRPC_PORT".to_owned());
    }
    Ok(VllmConfig {
        host: host.to_owned(),
        port,
        tls,
        channels: usize::from(args.engine_channels),
        connect_timeout: args.connect_timeout,
        stall_timeout: args.stall_timeout.0,
        response_bytes_max: args.engine_reply_limit,
    })
}

#[cfg(test)]
mod tests;
