//! Endpoints of the settings: which are bound, which are connected to, and where.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::config::KvEventsConfig;

/// An endpoint that the mock cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("kv events: {endpoint} is no tcp endpoint of an address and a port; port 0 goes with * only")]
pub struct EndpointError {
    /// The endpoint as configured.
    pub endpoint: String,
}

/// What an engine does with an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Listens there.
    Bind(SocketAddr),
    /// Connects to whoever listens there.
    Connect(String),
}

/// Whether both endpoints can be served.
pub(crate) fn check(config: &KvEventsConfig) -> Result<(), EndpointError> {
    let any = IpAddr::V4(Ipv4Addr::LOCALHOST);
    publish(&config.endpoint, any)?;
    config.replay_endpoint.as_deref().map_or(Ok(()), |endpoint| replay(endpoint, any).map(|_| ()))
}

/// Where events are published: as in vLLM, only a wildcard is bound. `any` is the address that `*` stands for. Port 0, a
/// free one, can be bound and not be connected to.
pub(crate) fn publish(endpoint: &str, any: IpAddr) -> Result<Place, EndpointError> {
    let (host, port) = split(endpoint)?;
    if host.contains('*') || host.contains("::") {
        return Ok(Place::Bind(SocketAddr::new(any, port)));
    }
    if port == 0 {
        return Err(EndpointError { endpoint: endpoint.to_owned() });
    }
    Ok(Place::Connect(endpoint.to_owned()))
}

/// Where replay requests are answered: always bound.
pub(crate) fn replay(endpoint: &str, any: IpAddr) -> Result<SocketAddr, EndpointError> {
    let (host, port) = split(endpoint)?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = match bare {
        "*" | "::" => any,
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        literal => literal.parse().map_err(|_| EndpointError { endpoint: endpoint.to_owned() })?,
    };
    Ok(SocketAddr::new(address, port))
}

/// The endpoint with the port that was really bound.
pub(crate) fn with_port(endpoint: &str, port: u16) -> String {
    let host = endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host);
    format!("{host}:{port}")
}

fn split(endpoint: &str) -> Result<(&str, u16), EndpointError> {
    let parts = || {
        let (host, port) = endpoint.strip_prefix("tcp://")?.rsplit_once(':')?;
        let port = port.parse().ok()?;
        (!host.is_empty()).then_some((host, port))
    };
    parts().ok_or_else(|| EndpointError { endpoint: endpoint.to_owned() })
}
