use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use tito_formats::{SESSION_CHARS_MAX, parse_session};
use tito_types::WorkerId;

use crate::status::Door;

/// Names of the session header; the first one present is used, and the others must be usable as well.
const SESSION: [&str; 3] = ["x-session-id", "x-dynamo-session-id", "x-smg-routing-key"];
const RANK: &str = "x-data-parallel-rank";
const WORKER: &str = "x-tito-worker";
/// Longest name of a pinned worker (characters).
const WORKER_CHARS_MAX: usize = 256;

/// What headers say about where a request should go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Routing {
    pub(super) session: Option<String>,
    pub(super) rank: Option<u32>,
    pub(super) worker: Option<WorkerId>,
}

impl Routing {
    pub(super) fn read(headers: &HeaderMap) -> Result<Self, Door> {
        let mut session = None;
        for name in SESSION {
            let value = the_one(headers, name)?.map(|value| session_of(name, value)).transpose()?;
            session = session.or(value);
        }
        let rank = the_one(headers, RANK)?.map(parse_rank).transpose()?;
        let worker = the_one(headers, WORKER)?.map(parse_worker).transpose()?;
        Ok(Self { session: session.map(str::to_owned), rank, worker })
    }
}

/// The value of a header that may be repeated, but not with another value: nobody could tell which is meant.
fn the_one<'h>(headers: &'h HeaderMap, name: &'static str) -> Result<Option<&'h [u8]>, Door> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.any(|value| Some(value) != first) {
        return Err(Door::Header { name, message: "must not be repeated with another value".to_owned() });
    }
    Ok(first.map(http::HeaderValue::as_bytes))
}

fn session_of<'h>(name: &'static str, value: &'h [u8]) -> Result<&'h str, Door> {
    parse_session(value).ok_or_else(|| Door::Header {
        name,
        message: format!("must be 1 to {SESSION_CHARS_MAX} visible ASCII characters"),
    })
}

fn parse_rank(value: &[u8]) -> Result<u32, Door> {
    let digits = str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| Door::Header {
        name: RANK,
        message: format!("must be a whole number from 0 to {}", u32::MAX),
    })
}

fn parse_worker(value: &[u8]) -> Result<WorkerId, Door> {
    let valid = (1..=WORKER_CHARS_MAX).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic);
    str::from_utf8(value).ok().filter(|_| valid).map(WorkerId::new).ok_or_else(|| Door::Header {
        name: WORKER,
        message: format!("must be 1 to {WORKER_CHARS_MAX} visible ASCII characters"),
    })
}

/// Accepts JSON by any of its names, with parameters, and bodies that do not say what they are.
pub(crate) fn check_content(headers: &HeaderMap) -> Result<(), Door> {
    if headers.get(CONTENT_ENCODING).is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(Door::Encoding);
    }
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let json = essence.eq_ignore_ascii_case(b"application/json") || ends_with_json(essence);
    if json { Ok(()) } else { Err(Door::MediaType) }
}

/// `application/anything+json`.
fn ends_with_json(essence: &[u8]) -> bool {
    let suffix = essence.last_chunk::<5>().is_some_and(|suffix| suffix.eq_ignore_ascii_case(b"+json"));
    let prefix = essence.get(..12).is_some_and(|prefix| prefix.eq_ignore_ascii_case(b"application/"));
    prefix && suffix
}

#[cfg(test)]
mod tests;
