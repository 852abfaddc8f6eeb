//! Where requests go: the parsed URL, and the request head that never changes.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, uri::Scheme};
use http_body_util::Full;

use crate::config::{Api, ConfigError, Header, Target};

/// The network address inside a target's URL, and the path its routes hang under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Host name or address, without the brackets of an IPv6 literal.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// `https://`.
    pub(crate) tls: bool,
    /// `Host` header: as written in the URL.
    authority: String,
    /// Without a trailing slash; may be empty.
    base: String,
}

impl Endpoint {
    pub(crate) fn parse(url: &str) -> Result<Self, ConfigError> {
        let fail = |reason| ConfigError::Url { url: url.to_owned(), reason };
        let uri: Uri = url.parse().map_err(|_| fail("not a URL"))?;
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(fail("must begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| fail("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(fail("user names are not supported"));
        }
        if uri.query().is_some() {
            return Err(fail("a query is not supported"));
        }
        // What stands after the host is empty, `:` alone, or a port, which may be out of range.
        let after_host = &authority.as_str()[authority.host().len()..];
        if after_host.len() > 1 && authority.port_u16().is_none() {
            return Err(fail("the port must be a number from 0 to 65535"));
        }
        Ok(Self {
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            tls,
            authority: authority.as_str().to_owned(),
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// The path of a route under this endpoint.
    pub(crate) fn path(&self, route: &str) -> String {
        format!("{}{route}", self.base)
    }
}

impl Api {
    fn path(self) -> &'static str {
        match self {
            Self::Generate => "/inference/v1/generate",
            Self::Completions => "/v1/completions",
        }
    }
}

/// A request without its body; one clone per request sent.
#[derive(Debug, Clone)]
pub(crate) struct RequestHead(http::request::Parts);

impl RequestHead {
    pub(crate) fn new(target: &Target, stream: bool) -> Result<Self, ConfigError> {
        let accept = if stream { "text/event-stream" } else { "application/json" };
        let mut head = head(target, target.api.path(), accept)?;
        head.method = Method::POST;
        let json = HeaderValue::from_static("application/json");
        head.headers.entry(CONTENT_TYPE).or_insert(json);
        Ok(Self(head))
    }

    /// A request without a body for another route of the target.
    pub(crate) fn get(target: &Target, route: &str) -> Result<Request<Full<Bytes>>, ConfigError> {
        Ok(Request::from_parts(head(target, route, "application/json")?, Full::default()))
    }

    pub(crate) fn with(&self, body: Bytes) -> Request<Full<Bytes>> {
        Request::from_parts(self.0.clone(), Full::new(body))
    }
}

fn head(target: &Target, route: &str, accept: &'static str) -> Result<http::request::Parts, ConfigError> {
    let endpoint = Endpoint::parse(&target.url)?;
    let mut head = Request::new(()).into_parts().0;
    head.uri = endpoint
        .path(route)
        .parse()
        .map_err(|_| ConfigError::Url { url: target.url.clone(), reason: "its path cannot be extended" })?;
    head.headers = headers(&endpoint, target, accept)?;
    Ok(head)
}

fn headers(endpoint: &Endpoint, target: &Target, accept: &'static str) -> Result<HeaderMap, ConfigError> {
    let mut headers = HeaderMap::new();
    let host =
        HeaderValue::from_str(&endpoint.authority).expect("an authority that parsed is a header value");
    headers.insert(HOST, host);
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tito-bench/", env!("CARGO_PKG_VERSION"))));
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    if let Some(key) = &target.api_key {
        let bearer = format!("Bearer {}", key.expose());
        let mut value = HeaderValue::from_str(&bearer).map_err(|_| ConfigError::ApiKey)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    for header in &target.headers {
        headers.remove(&header.name);
    }
    for Header { name, value } in &target.headers {
        headers.append(name, value.clone());
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
