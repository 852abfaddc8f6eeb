//! URLs of servers that are spoken to in plain HTTP.

use std::fmt;

use hyper::Uri;

/// Such a URL, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlainUrl {
    /// `HOST:PORT`.
    pub(crate) authority: String,
    /// At least `/`.
    pub(crate) path: String,
}

/// Why a text is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotPlain {
    Url,
    Tls,
    Scheme,
    Host,
    Port,
    Query,
}

impl PlainUrl {
    pub(crate) fn parse(url: &str) -> Result<Self, NotPlain> {
        let uri: Uri = url.parse().map_err(|_| NotPlain::Url)?;
        if url.contains('#') {
            return Err(NotPlain::Query);
        }
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(NotPlain::Tls),
            _ => return Err(NotPlain::Scheme),
        }
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.filter(|authority| !authority.host().is_empty()).ok_or(NotPlain::Host)?;
        let port = match authority.as_str()[authority.host().len()..].strip_prefix(':') {
            None => 80,
            // The parser of numbers would take a sign.
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().unwrap_or(0),
            Some(_) => 0,
        };
        if port == 0u16 {
            return Err(NotPlain::Port);
        }
        if uri.query().is_some() {
            return Err(NotPlain::Query);
        }
        Ok(Self { authority: format!("{}:{port}", authority.host()), path: uri.path().to_owned() })
    }
}

impl fmt::Display for NotPlain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Url => "is no URL",
            Self::Tls => "is spoken to in plain HTTP, not TLS",
            Self::Scheme => "must begin with http://",
            Self::Host => "names no host, or a user",
            Self::Port => "has no such port",
            Self::Query => "must have no query and no fragment",
        })
    }
}

#[cfg(test)]
mod tests;
