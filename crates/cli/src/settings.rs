//! From flags to the configuration of each component, with every mistake found before a socket opens.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tito_dataplane::AdmitConfig;
use tito_engine_vllm::{TlsConfig as EngineTls, VllmConfig, VllmConnector};
use tito_fleet::FleetConfig;
use tito_formats::SamplingDefaults;
use tito_frontend::{
    ControlConfig, Error as FrontendError, FrontendConfig, KeyConfig, Limits, Timeouts, TlsConfig,
};
use tito_kv_index::IndexConfig;
use tito_policy::{BoardConfig, SiblingRule, Stickiness};
use tito_router::RouteConfig;
use tito_runtime::{Chain, ShutdownConfig, telemetry};

use crate::args::{Affinity, GenerationConfig, ServeArgs, SiblingsRule};

mod stated;

use stated::Stated;
pub(crate) use stated::shown;

/// First pause before an engine that was not reached is tried again.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// Longest such pause: a restarted engine is found within this time.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Everything `tito serve` is built from.
pub(crate) struct Settings {
    pub(crate) frontend: FrontendConfig,
    pub(crate) engines: Vec<VllmConfig>,
    pub(crate) fleet: FleetConfig,
    pub(crate) index: IndexConfig,
    pub(crate) routing: RouteConfig,
    pub(crate) admission: AdmitConfig,
    pub(crate) shutdown: ShutdownConfig,
}

/// How often a lost or missing engine is tried.
pub(crate) fn fleet_config() -> FleetConfig {
    FleetConfig { retry_min: RETRY_MIN, retry_max: RETRY_MAX }
}

/// Converts the flags and reads the files that they name. Returns every mistake at once.
pub(crate) fn settings(args: &ServeArgs) -> Result<Settings, Vec<String>> {
    let mut problems = incomplete(args);
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
                problems.push(format!("--engine {}: named twice", shown(url)));
            }
            Ok(engine) => engines.push(engine),
            Err(problem) => problems.push(format!("--engine {}: {problem}", shown(url))),
        }
    }
    if args.engine.is_empty() {
        problems.push("--engine is missing: name at least one, vllm://HOST:GRPC_PORT".to_owned());
    }
    let frontend = frontend(args);
    let errors = frontend.check();
    problems.extend(errors.iter().map(|error| format!("--{}: {}", flag_of(error, args), Chain(error))));
    if let Err(error) = telemetry::check(&args.log_level) {
        problems.push(format!("--log-level: {}", Chain(&error)));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Settings {
        frontend,
        engines,
        fleet: fleet_config(),
        index: IndexConfig { bytes_max: args.index_limit },
        routing: routing(args),
        admission: AdmitConfig {
            in_flight_max: args.max_in_flight,
            queue_requests_max: args.max_queued as usize,
            queue_timeout: args.queue_timeout,
        },
        shutdown: ShutdownConfig { unready: args.unready_delay, drain: args.drain_timeout },
    })
}

fn routing(args: &ServeArgs) -> RouteConfig {
    // Each process draws its own numbers: what is random must not be the same in all of them.
    let seed = uuid::Uuid::new_v4().as_u64_pair().0;
    let defaults = RouteConfig::new(args.policy, seed);
    let board = BoardConfig {
        temperature: args.temperature,
        stickiness: match args.affinity {
            Affinity::Soft => Stickiness::Soft,
            Affinity::Hard => Stickiness::Hard,
            Affinity::Off => Stickiness::Off,
        },
        session_idle: args.session_idle,
        siblings: match args.siblings {
            SiblingsRule::Colocate => SiblingRule::Colocate { load_tokens_max: args.sibling_load },
            SiblingsRule::Spread => SiblingRule::Spread,
            SiblingsRule::Ignore => SiblingRule::Ignore,
        },
        ..defaults.board
    };
    RouteConfig {
        board,
        target_limit: args.target_limit,
        queue_requests_max: args.max_queued as usize,
        queue_timeout: args.queue_timeout,
    }
}

/// Settings that mean nothing without others, which are missing. Judged here, when every place has been read.
fn incomplete(args: &ServeArgs) -> Vec<String> {
    let (tls_cert, tls_key) = (args.tls_cert.is_some(), args.tls_key.is_some());
    let (cert, key) = (args.engine_cert.is_some(), args.engine_key.is_some());
    let (ca, control) = (args.engine_ca.is_some(), args.control_port.is_some());
    let needs = [
        ("tls-cert", tls_cert, "tls-key", tls_key),
        ("tls-key", tls_key, "tls-cert", tls_cert),
        ("tls-client-ca", args.tls_client_ca.is_some(), "tls-cert", tls_cert),
        ("control-key", !args.control_key.is_empty(), "control-port", control),
        ("control-key-file", args.control_key_file.is_some(), "control-port", control),
        ("engine-cert", cert, "engine-key", key),
        ("engine-key", key, "engine-cert", cert),
        ("engine-cert", cert, "engine-ca", ca),
        ("engine-key", key, "engine-ca", ca),
        ("engine-server-name", args.engine_server_name.is_some(), "engine-ca", ca),
    ];
    let lone = needs.into_iter().filter(|(_, given, _, other)| *given && !other);
    let mut problems: Vec<_> = lone.map(|(flag, _, other, _)| format!("--{flag} needs --{other}")).collect();
    problems.extend(open_control(args));
    problems.extend(shared_port(args));
    if ca && !args.engine.is_empty() && !args.engine.iter().any(|url| url.starts_with("vllms://")) {
        problems.push("--engine-ca: no --engine is vllms://, so no connection would be encrypted".to_owned());
    }
    problems
}

/// Orders without a key are for those who are on this machine, and only where clients need none either.
fn open_control(args: &ServeArgs) -> Option<String> {
    let closed = !args.control_key.is_empty() || args.control_key_file.is_some();
    if args.control_port.is_none() || closed {
        return None;
    }
    let needs = "--control-port needs --control-key or --control-key-file";
    if !args.control_host.is_loopback() {
        return Some(format!("{needs}: others than this machine can reach {}", args.control_host));
    }
    let clients_need_one = !args.api_key.is_empty() || args.api_key_file.is_some();
    clients_need_one.then(|| format!("{needs}: clients need a key as well"))
}

/// Two sockets cannot listen on one port, unless their addresses have nothing in common.
fn shared_port(args: &ServeArgs) -> Option<String> {
    let port = args.control_port.filter(|port| *port == args.port && *port != 0)?;
    let (host, control_host) = (args.host, args.control_host);
    // `::` takes IPv4 too.
    let covers = |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    let overlap = host == control_host || covers(host, control_host) || covers(control_host, host);
    overlap.then(|| format!("--control-port: {port} is taken by --port"))
}

/// The flag behind a mistake that the frontend found.
fn flag_of(error: &FrontendError, args: &ServeArgs) -> &'static str {
    match error {
        FrontendError::Control(error) => match **error {
            FrontendError::Key { .. } => "control-key",
            FrontendError::SharedKey { number } if number <= args.control_key.len() => "control-key",
            FrontendError::Keys { .. } | FrontendError::SharedKey { .. } => "control-key-file",
            FrontendError::Listen(..)
            | FrontendError::Control(_)
            | FrontendError::Tls { .. }
            | FrontendError::Path(_) => "control-port",
        },
        FrontendError::Key { .. } | FrontendError::SharedKey { .. } => "api-key",
        FrontendError::Keys { .. } => "api-key-file",
        FrontendError::Tls { path, .. } if args.tls_client_ca.as_ref() == Some(path) => "tls-client-ca",
        FrontendError::Tls { path, .. } if args.tls_key.as_ref() == Some(path) => "tls-key",
        FrontendError::Tls { .. } => "tls-cert",
        FrontendError::Listen(..) | FrontendError::Path(_) => "port",
    }
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
            keys: args.api_key.clone(),
            file: args.api_key_file.clone(),
            metrics_open: args.metrics_without_key,
        },
        control: args.control_port.map(|port| ControlConfig {
            listen: SocketAddr::new(args.control_host, port),
            keys: KeyConfig {
                keys: args.control_key.clone(),
                file: args.control_key_file.clone(),
                metrics_open: false,
            },
        }),
        limits: Limits {
            connections: args.connection_limit as usize,
            body_bytes: args.body_limit,
            media_cache_bytes: args.media_cache_limit,
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
    let identity_pem = identity
        .map(|(cert, key)| Ok::<_, String>((read("engine-cert", cert)?, read("engine-key", key)?)))
        .transpose()?;
    let ca_pem = read("engine-ca", ca)?;
    // Without any, the TLS library would only find at each handshake that it trusts nobody.
    if !ca_pem.contains("-----BEGIN CERTIFICATE-----") {
        return Err(format!("--engine-ca: {} holds no certificate", ca.display()));
    }
    Ok(Some(EngineTls { ca_pem, identity_pem, server_name: args.engine_server_name.clone() }))
}

fn read(flag: &str, path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("--{flag}: cannot read {}: {error}", path.display()))
}

fn engine(url: &str, args: &ServeArgs, tls: Option<&EngineTls>) -> Result<VllmConfig, String> {
    let (scheme, rest) = url.split_once("://").ok_or("write it as vllm://HOST:GRPC_PORT")?;
    let tls = match (scheme, tls) {
        ("vllm", _) => None,
        ("vllms", Some(tls)) => Some(tls.clone()),
        ("vllms", None) => return Err("vllms:// needs --engine-ca".to_owned()),
        _ => return Err(format!("unknown scheme `{scheme}`: use vllm:// or vllms://")),
    };
    let (rest, options) = rest.split_once('?').map_or((rest, None), |(rest, options)| (rest, Some(options)));
    if rest.contains('&') {
        return Err(
            "options begin with `?`: write it as vllm://HOST:GRPC_PORT?NAME=VALUE&NAME=VALUE".to_owned()
        );
    }
    let Stated { pixels, metrics } = options.map(Stated::read).transpose()?.unwrap_or_default();
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
    let config = VllmConfig {
        host: host.to_owned(),
        port,
        tls,
        channels: usize::from(args.engine_channels),
        connect_timeout: args.connect_timeout,
        stall_timeout: args.stall_timeout.0,
        response_bytes_max: args.engine_reply_limit,
        pixels,
        metrics,
    };
    // Connects nothing; the number only matters to connections.
    VllmConnector::try_new(config.clone(), 0).map_err(|error| Chain(&error).to_string())?;
    Ok(config)
}

#[cfg(test)]
mod tests;
