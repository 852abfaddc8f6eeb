//! A server to measure: where it is, how it is reached, and how it wants to be asked.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use http::{HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::{Map, Value};

use super::parse::{ParseError, wrong};
use crate::target::Endpoint;

/// A server to measure, and how it wants to be asked.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name in tables.
    pub name: String,
    /// `http://HOST[:PORT][/BASE]` or `https://…`; the route of [`Target::api`] is appended.
    pub url: String,
    /// Which route is driven.
    pub api: Api,
    /// `model` of the body; left out when absent.
    pub model: Option<String>,
    /// Sent as `Authorization: Bearer KEY`.
    pub api_key: Option<ApiKey>,
    /// Sent with every request; one of a name that the generator sends too replaces the generator's.
    pub headers: Vec<Header>,
    /// Whose certificates are accepted where the URL is `https://`.
    pub trust: Trust,
    /// Merged into each body, objects key by key; fields the generator itself decides are refused.
    pub extra_body: Map<String, Value>,
    /// Processes of this target on this machine whose CPU and memory are read before and after.
    pub pids: Vec<u32>,
}

impl Target {
    /// Whether the certificate of the server is checked; absent where the URL is not `https://`.
    pub(crate) fn certificates_checked(&self) -> Option<bool> {
        let tls = Endpoint::parse(&self.url).is_ok_and(|endpoint| endpoint.tls);
        tls.then_some(self.trust != Trust::Anyone)
    }
}

/// The route a request goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// `POST /inference/v1/generate`: `token_ids` and `sampling_params`.
    Generate,
    /// `POST /v1/completions` with a list of ids as `prompt`.
    Completions,
}

/// Whose certificates are accepted from a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Those signed by an authority of Mozilla's list, which is compiled in.
    PublicRoots,
    /// Those signed by an authority in this PEM file, and no others.
    File(PathBuf),
    /// Any: whoever answers is measured.
    Anyone,
}

/// A secret that `Debug` does not print.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a key as given.
    pub fn new(key: String) -> Self {
        Self(key)
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for ApiKey {
    fn from(key: String) -> Self {
        Self::new(key)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(***)")
    }
}

/// A header, written `NAME: VALUE`. `Debug` does not print the value, which may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    pub(crate) name: HeaderName,
    pub(crate) value: HeaderValue,
}

impl FromStr for Header {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let form = "a header NAME: VALUE";
        // What is wrong may be a secret, so it is not repeated.
        let Some((name, value)) = text.split_once(':') else { return wrong("…", form) };
        match (name.trim().parse(), HeaderValue::from_str(value.trim())) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                Ok(Self { name, value })
            }
            _ => wrong(&format!("{name}: …"), form),
        }
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Header({}: ***)", self.name)
    }
}
