//! Images, video and audio of a prompt: as tensors ([`features`]) or for the engine to decode ([`parts`]).
//!
//! Payloads are opaque: decoded from base64 once and never changed, and looked into only where the client repeats parts
//! of one beside it. What an engine is told to tell two items apart by is derived from what they are
//! ([`media_identifier`], [`raw_identifier`]), whatever the client calls them.

mod cache;
mod features;
mod metadata;
mod parts;
mod payload;

pub use cache::{MEDIA_CACHE_BYTES_MAX, MediaCache, Scope};

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tito_types::{Media, Modality, RawMedia};

use crate::object::Object;
use crate::{BindContext, Refusal};

use features::Features;

/// Most media items of one prompt.
const ITEMS_MAX: usize = 64;
/// Longest name a client gives an item, in bytes.
const NAME_BYTES_MAX: usize = 512;

const MODALITIES: [Modality; 3] = [Modality::Image, Modality::Video, Modality::Audio];

/// What a body says about media, each item valid by itself.
pub(crate) enum Given {
    /// Text only.
    None,
    /// `features`, with at least one item.
    Features(Features),
    /// `content_parts`, at least one.
    Parts(Vec<RawMedia>),
}

impl Given {
    /// Reads `features` and `content_parts` of a body whose prompt has so many tokens.
    pub(crate) fn read(body: &Object<'_>, prompt_tokens: usize) -> Result<Self, Refusal> {
        let features = body.read("features", |member| features::read(member, prompt_tokens))?.flatten();
        let parts = body.read("content_parts", parts::read)?.filter(|parts| !parts.is_empty());
        match (features, parts) {
            (None, None) => Ok(Self::None),
            (Some(features), None) => Ok(Self::Features(features)),
            (None, Some(parts)) => Ok(Self::Parts(parts)),
            (Some(_), Some(_)) => Err(Refusal::invalid("content_parts", "cannot go together with features")),
        }
    }

    /// Whether the engine decodes the media and expands their placeholders, so that the prompt's length is unknown.
    pub(crate) fn raw(&self) -> bool {
        matches!(self, Self::Parts(_))
    }

    /// Where the client said that its items are, as `mm_placeholders` of a reply.
    pub(crate) fn placeholders(&self) -> Option<Vec<u8>> {
        match self {
            Self::Features(features) => Some(features.placeholders()),
            Self::None | Self::Parts(_) => None,
        }
    }

    /// Fills in the payloads that were left out, and remembers the others. Done last, when nothing else can be refused:
    /// it is what a request leaves here.
    pub(crate) fn settle(self, context: &BindContext<'_>) -> Result<Media, Refusal> {
        match self {
            Self::None => Ok(Media::None),
            Self::Features(features) => features.settle(context).map(Media::Features),
            Self::Parts(parts) => Ok(Media::Raw(parts.into())),
        }
    }
}

/// What the parts of an identifier are hashed with, so that no other digest of ours equals one.
const IDENTIFIER_DOMAIN: &[u8] = b"tito media item, version 1";
const RAW_IDENTIFIER_DOMAIN: &[u8] = b"tito raw media item, version 1";
/// How every identifier begins; engines and their events show it.
const IDENTIFIER_PREFIX: &str = "tito-mm:";
const RAW_IDENTIFIER_PREFIX: &str = "tito-raw:";

/// The identity of a media item: equal for equal modality and payload, and for nothing else.
///
/// It is `tito-mm:` and the SHA-256, in hexadecimal, of three strings of bytes, each after its length as 8 bytes,
/// most significant first: a constant, the modality's word and the payload. A client cannot choose it, so nobody can
/// make an engine answer with somebody else's image.
pub(crate) fn media_identifier(modality: Modality, payload: &[u8]) -> String {
    identifier(IDENTIFIER_PREFIX, &[IDENTIFIER_DOMAIN, modality.word().as_bytes(), payload])
}

/// The identity of a raw media item that the client named: equal for equal modality, URL and name, and for nothing else.
///
/// It is made as [`media_identifier`] is, from `tito-raw:` and four strings: a constant, the modality's word, the URL and
/// the client's name. The URL is in it because engines believe an identifier without looking at the content: one name
/// for two things would make an engine answer with the first of them.
fn raw_identifier(modality: Modality, url: &str, uuid: &str) -> String {
    let parts = [RAW_IDENTIFIER_DOMAIN, modality.word().as_bytes(), url.as_bytes(), uuid.as_bytes()];
    identifier(RAW_IDENTIFIER_PREFIX, &parts)
}

/// `prefix` and the SHA-256, in hexadecimal, of `parts`, each after its length as 8 bytes, most significant first.
fn identifier(prefix: &str, parts: &[&[u8]]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let mut identifier = String::with_capacity(prefix.len() + 64);
    identifier.push_str(prefix);
    for byte in digest.finalize() {
        for digit in [byte >> 4, byte & 15] {
            identifier.extend(char::from_digit(digit.into(), 16));
        }
    }
    identifier
}

/// A payload with its identity.
#[derive(Clone)]
struct Known {
    payload: Arc<[u8]>,
    identifier: Arc<str>,
}

impl Known {
    fn new(modality: Modality, payload: Arc<[u8]>) -> Self {
        let identifier = media_identifier(modality, &payload).into();
        Self { payload, identifier }
    }
}

#[cfg(test)]
mod tests;
