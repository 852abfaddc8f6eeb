//! `tito workers`: what a running server knows of its workers.

mod reply;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use tokio::time::timeout;

use crate::args::WorkersArgs;
use crate::workers::reply::{Failed, Listed};
use crate::{client, process};

/// A server that takes longer for this is not well.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What is shown of a failure's words (characters).
const MESSAGE_CHARS_MAX: usize = 500;
/// Largest key file that is read, in bytes.
const KEY_FILE_BYTES_MAX: u64 = 1 << 20;

pub(crate) fn run(args: &WorkersArgs) -> ExitCode {
    let asked = Server::parse(&args.url)
        .and_then(|server| Ok((server, args.key_file.as_deref().map(key_of).transpose()?)));
    let (server, key) = match asked {
        Ok(asked) => asked,
        Err(error) => return process::usage(&[format!("{error:#}")]),
    };
    process::block_on(async {
        let text = server.ask(key).await?;
        if args.json {
            process::print(&format!("{text}\n"))?;
        } else {
            let listed: Listed = serde_json::from_str(&text).with_context(|| {
                format!("{} lists its workers in a way this release cannot read", args.url)
            })?;
            process::print(&table::render(&listed.workers))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Where to ask.
#[derive(Debug, PartialEq, Eq)]
struct Server {
    url: String,
    /// `HOST:PORT`.
    authority: String,
    path: String,
}

impl Server {
    fn parse(url: &str) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().map_err(|_| anyhow!("--url {url}: write it as http://HOST:PORT"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => bail!(
                "--url {url}: this command speaks plain HTTP; ask a server with TLS by curl --cacert CA {url}/workers"
            ),
            _ => bail!("--url {url}: must begin with http://"),
        }
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
        let authority = authority.ok_or_else(|| anyhow!("--url {url}: names no host, or a user"))?;
        ensure!(uri.query().is_none(), "--url {url}: must have no query");
        let port = authority.port_u16().unwrap_or(80);
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            authority: format!("{}:{port}", authority.host()),
            path: format!("{}/workers", uri.path().trim_end_matches('/')),
        })
    }

    /// The server's answer, which is JSON; anything else is an error that says what to do.
    async fn ask(&self, key: Option<HeaderValue>) -> anyhow::Result<String> {
        let url = &self.url;
        let with_key = key.is_some();
        let mut request = Request::get(&self.path).body(Full::new(Bytes::new()))?;
        request.headers_mut().extend(key.map(|key| (AUTHORIZATION, key)));
        let sent = timeout(TIMEOUT, client::send(&self.authority, request)).await;
        let sent = sent.map_err(|_| anyhow!("{url} did not answer within {TIMEOUT:?}"))?;
        let (status, text) = sent.with_context(|| {
            format!("cannot ask {url}; does tito serve listen there, without TLS? --url names another")
        })?;
        match status {
            StatusCode::OK if serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok() => Ok(text),
            StatusCode::OK => bail!("{url} is no tito serve: what it answers is not JSON"),
            StatusCode::UNAUTHORIZED if with_key => bail!("{url} does not know the key in --key-file"),
            StatusCode::UNAUTHORIZED => {
                bail!("{url} wants a key: name a file that holds one with --key-file")
            }
            StatusCode::NOT_FOUND => {
                bail!("{url} has no {}: is it tito serve, and as new as this?", self.path)
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
fn key_of(path: &Path) -> anyhow::Result<HeaderValue> {
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
