//! A ZeroMQ endpoint as an engine names it, turned into what we do to reach it.

use std::path::PathBuf;

use crate::address;

/// Where a socket of the engine is, and who opens the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The engine listens.
    Tcp { host: String, port: u16 },
    /// The engine listens on this host.
    Ipc(PathBuf),
    /// The engine connects to a subscriber that listens here: an address that is not ours can only be one that the
    /// engine bound after all, as vLLM reports for `tcp://*:0`.
    Listen { host: String, port: u16 },
}

/// Why an endpoint cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// A transport that no other process can reach, or that we do not speak.
    Unsupported(String),
    /// No endpoint at all.
    Malformed,
}

impl Endpoint {
    /// Where an engine publishes. vLLM 0.32 binds an address that is a wildcard or has `::` in it, and connects to any
    /// other; `host` is where we reach the engine and stands in for a wildcard.
    pub(crate) fn published(text: &str, host: &str) -> Result<Self, Unusable> {
        Ok(match Self::bound(text, host)? {
            Self::Tcp { host, port } if !text.contains("::") && !is_wildcard(text) => {
                Self::Listen { host, port }
            }
            endpoint => endpoint,
        })
    }

    /// A socket that the engine binds whatever its address says.
    pub(crate) fn bound(text: &str, host: &str) -> Result<Self, Unusable> {
        let (scheme, rest) = text.split_once("://").ok_or(Unusable::Malformed)?;
        match scheme {
            "tcp" => {
                let (named, port) =
                    address::split(rest).filter(|(_, port)| *port != 0).ok_or(Unusable::Malformed)?;
                let reached = if is_wildcard_host(named) { host } else { named };
                Ok(Self::Tcp { host: reached.trim_matches(['[', ']']).to_owned(), port })
            }
            "ipc" if !rest.is_empty() => Ok(Self::Ipc(PathBuf::from(rest))),
            "ipc" => Err(Unusable::Malformed),
            other => Err(Unusable::Unsupported(format!("{other} endpoints"))),
        }
    }
}

fn is_wildcard_host(host: &str) -> bool {
    matches!(host, "*" | "0.0.0.0" | "::")
}

fn is_wildcard(text: &str) -> bool {
    let authority = text.split_once("://").map_or(text, |(_, rest)| rest);
    address::split(authority).is_some_and(|(host, _)| is_wildcard_host(host))
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { host, port } | Self::Listen { host, port } => {
                f.write_str(&address::authority(host, *port))
            }
            Self::Ipc(path) => write!(f, "{}", path.display()),
        }
    }
}
