//! Asking a running server for one thing, and saying what to do when that fails.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Method, Request, StatusCode};
use tokio::time::timeout;

use super::reply::Failed;
use super::table;
use crate::client;
use crate::plain_http::{NotPlain, PlainUrl};

/// What is shown of a failure's words (characters).
const MESSAGE_CHARS_MAX: usize = 500;
/// Largest key file that is read, in bytes.
const KEY_FILE_BYTES_MAX: u64 = 1 << 20;

/// Where to ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Server {
    url: String,
    /// `HOST:PORT`.
    authority: String,
    /// What every path begins with.
    base: String,
}

/// What to ask for.
pub(super) struct Question<'a> {
    pub(super) method: Method,
    /// Begins with a slash.
    pub(super) path: &'a str,
    /// A server that takes longer is not well.
    pub(super) answer_within: Duration,
    /// Who answers there, for those who ask somebody else.
    pub(super) whom: &'static str,
}

impl Server {
    pub(super) fn parse(url: &str) -> anyhow::Result<Self> {
        let parsed = PlainUrl::parse(url).map_err(|why| match why {
            NotPlain::Tls => anyhow!(
                "--url {url}: this command speaks plain HTTP; ask a server with TLS by curl --cacert CA {url}/workers"
            ),
            why => anyhow!("--url {url}: {why}; write it as http://HOST:PORT"),
        });
        let PlainUrl { authority, path } = parsed?;
        let base = path.trim_end_matches('/').to_owned();
        Ok(Self { url: url.trim_end_matches('/').to_owned(), authority, base })
    }

    /// The server's answer, which is JSON; anything else is an error that says what to do.
    pub(super) async fn ask(
        &self,
        question: Question<'_>,
        key: Option<HeaderValue>,
    ) -> anyhow::Result<String> {
        let Question { method, path, answer_within, whom } = question;
        let url = &self.url;
        let with_key = key.is_some();
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.method_mut() = method;
        *request.uri_mut() = format!("{}{path}", self.base).parse()?;
        request.headers_mut().extend(key.map(|key| (AUTHORIZATION, key)));
        let sent = timeout(answer_within, client::send(&self.authority, request)).await;
        let sent = sent.map_err(|_| anyhow!("{url} did not answer within {answer_within:?}"))?;
        let (status, text) = sent.with_context(|| {
            format!("cannot ask {url}; does {whom} listen there, without TLS? --url names another")
        })?;
        match status {
            StatusCode::OK if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok() => Ok(text),
            StatusCode::OK => bail!("{url} is no tito serve: what it answers is not JSON"),
            StatusCode::UNAUTHORIZED if with_key => bail!("{url} does not know the key in --key-file"),
            StatusCode::UNAUTHORIZED => {
                bail!("{url} wants a key: name a file that holds one with --key-file")
            }
            StatusCode::NOT_FOUND => {
                let path = path.split('?').next().unwrap_or_default();
                bail!("{url} has no {}{path}: is it {whom}, and as new as this?", self.base)
            }
            _ => bail!("{url} answered {status}: {}", message_of(&text)),
        }
    }
}

/// The words of an error envelope, or the start of whatever it is.
fn message_of(text: &str) -> String {
    let message = serde_json::from_str::<Failed>(text).map(|failed| failed.error.message);
    let message = message.unwrap_or_else(|_| text.to_owned());
    table::plain(&message).chars().take(MESSAGE_CHARS_MAX).collect()
}

/// The first key of a file with one key per line, as the server reads it.
pub(super) fn key_of(path: &Path) -> anyhow::Result<HeaderValue> {
    let read = || {
        let bytes = std::fs::metadata(path)?.len();
        ensure!(bytes <= KEY_FILE_BYTES_MAX, "it is larger than {KEY_FILE_BYTES_MAX} bytes");
        let text = std::fs::read_to_string(path)?;
        let mut keys = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let key = keys.next().ok_or_else(|| anyhow!("it holds no key"))?;
        let mut value =
            HeaderValue::from_str(&format!("Bearer {key}")).context("its first key is no header value")?;
        value.set_sensitive(true);
        Ok(value)
    };
    read().with_context(|| format!("--key-file {}", path.display()))
}

#[cfg(test)]
mod tests;
