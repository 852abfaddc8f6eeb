//! Who may ask: the keys in force, how a presented one is judged, and how the key file is read again.
//!
//! It must not know routes or replies, and keeps digests only.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use tito_formats::Scope;
use tito_runtime::{Reload, Tasks};

use crate::config::KeyConfig;
use crate::error::{Error, KeyError};
use crate::metrics::ReloadMetrics;
use crate::reloadable::Reloadable;

/// Keys compared per request (keys).
const KEYS_MAX: usize = 1_024;
/// Longest key (characters).
const KEY_CHARS_MAX: usize = 1_024;
/// Largest key file (bytes).
const FILE_BYTES_MAX: u64 = 1 << 20;

type Hash = [u8; 32];

/// The keys in force. Holds hashes only.
#[derive(Debug)]
pub(crate) struct KeyRing(Vec<Hash>);

/// What a presented key is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The request may go on, in the scope of its key.
    Granted(Scope),
    /// No key was presented.
    Missing,
    /// The key is not ours.
    Wrong,
}

/// Where keys come from: those that are fixed, as digests, and the file that may change.
#[derive(Debug, Clone)]
struct Sources {
    fixed: Vec<Hash>,
    file: Option<PathBuf>,
}

impl Sources {
    fn try_new(config: &KeyConfig) -> Result<Self, Error> {
        let fixed = config.keys.iter().enumerate().map(|(index, key)| {
            let wrong = |source| Error::Key { number: index + 1, source };
            // `--api-key $KEY --strict` without a KEY would make the flag the key.
            if key.expose().starts_with("--") {
                return Err(wrong(KeyError::Flag));
            }
            hash_of(key.expose()).ok_or(wrong(KeyError::Malformed { max: KEY_CHARS_MAX }))
        });
        Ok(Self { fixed: fixed.collect::<Result<_, _>>()?, file: config.file.clone() })
    }

    /// A ring without keys lets everyone in, so it only comes from a configuration without any.
    fn read(&self) -> Result<KeyRing, Error> {
        let mut hashes = self.fixed.clone();
        if let Some(path) = &self.file {
            let from_file = read_file(path);
            hashes.extend(from_file.map_err(|source| Error::Keys { path: path.clone(), source })?);
        }
        if hashes.len() > KEYS_MAX {
            return Err(Error::Key { number: KEYS_MAX + 1, source: KeyError::TooMany(KEYS_MAX) });
        }
        Ok(KeyRing(hashes))
    }
}

/// What is wrong with the keys, and with the file, which is read.
pub(crate) fn check(config: &KeyConfig) -> Vec<Error> {
    let fixed = Sources::try_new(config);
    let readable = fixed
        .as_ref()
        .map_or_else(|_| Sources { fixed: Vec::new(), file: config.file.clone() }.read(), Sources::read);
    fixed.err().into_iter().chain(readable.err()).collect()
}

/// The first key of operators that is a client's too: who may send requests may not steer the fleet. Lists that cannot
/// be read have none; [`check`] tells of them.
pub(crate) fn check_apart(clients: &KeyConfig, operators: &KeyConfig) -> Option<Error> {
    let read = |config| Sources::try_new(config).and_then(|sources| sources.read()).ok();
    let (KeyRing(clients), KeyRing(operators)) = (read(clients)?, read(operators)?);
    let first = operators.iter().position(|key| clients.contains(key))?;
    Some(Error::SharedKey { number: first + 1 })
}

impl KeyRing {
    /// Judges the headers of a request. Takes the same time whichever key matches, or none.
    pub(crate) fn judge(&self, headers: &HeaderMap) -> Verdict {
        if self.0.is_empty() {
            return Verdict::Granted(Scope::SHARED);
        }
        let presented = [bearer(headers), headers.get("x-api-key").map(HeaderValue::as_bytes)];
        let mut verdict = Verdict::Missing;
        for key in presented.into_iter().flatten() {
            let hash: Hash = Sha256::digest(key).into();
            let known = self.0.iter().fold(Choice::from(0), |known, ours| known | ours.ct_eq(&hash));
            if bool::from(known) {
                return Verdict::Granted(Scope::of_key(hash));
            }
            verdict = Verdict::Wrong;
        }
        verdict
    }
}

/// The token of `Authorization: Bearer TOKEN`; the scheme's case does not matter.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(b"bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii_start())
}

fn read_file(path: &Path) -> Result<Vec<Hash>, KeyError> {
    let mut text = String::new();
    let file = File::open(path).map_err(KeyError::Read)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(KeyError::Read)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(KeyError::TooLarge(FILE_BYTES_MAX));
    }
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let malformed = |line| KeyError::MalformedLine { line, max: KEY_CHARS_MAX };
    let hashes =
        keys.map(|(line, key)| hash_of(key).ok_or(malformed(line))).collect::<Result<Vec<_>, _>>()?;
    match hashes.len() {
        0 => Err(KeyError::Empty),
        count if count > KEYS_MAX => Err(KeyError::TooMany(KEYS_MAX)),
        _ => Ok(hashes),
    }
}

/// `None` for a text that no header could carry.
fn hash_of(key: &str) -> Option<Hash> {
    let valid = (1..=KEY_CHARS_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    valid.then(|| Sha256::digest(key).into())
}

/// The ring that is in force now, replaced as a whole when the key file is read again.
#[derive(Debug, Clone)]
pub(crate) struct KeyStore(Reloadable<KeyRing>);

impl KeyStore {
    /// Reads the keys, and starts to listen for reloads where there is a file.
    pub(crate) fn build(
        config: &KeyConfig,
        reload: Reload,
        tasks: &Tasks,
        metrics: ReloadMetrics,
    ) -> Result<Self, Error> {
        let sources = Sources::try_new(config)?;
        Ok(Self(if config.file.is_some() {
            Reloadable::try_new("keys", move || sources.read(), reload, tasks, metrics)?
        } else {
            Reloadable::fixed(sources.read()?)
        }))
    }

    /// Judges a request by the keys in force.
    pub(crate) fn judge(&self, headers: &HeaderMap) -> Verdict {
        self.0.current().judge(headers)
    }
}

#[cfg(test)]
mod tests;
