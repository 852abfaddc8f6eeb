//! What tells the blocks of one request apart besides their ids.

use std::sync::Arc;

use super::digest::Key;

/// An adapter as a request uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lora {
    pub(crate) id: i64,
    pub(crate) name: Arc<str>,
    pub(crate) path: Arc<str>,
}

/// A media item in the prompt as the engine sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MediaSpan {
    pub(crate) identifier: Arc<str>,
    /// First placeholder position, in tokens.
    pub(crate) offset: u32,
    /// Placeholder tokens.
    pub(crate) length: u32,
}

/// Where the blocks of one request come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) lora: Option<Lora>,
    pub(crate) salt: Option<Arc<str>>,
    pub(crate) session_id: Option<Arc<str>>,
    /// In order of offset.
    pub(crate) media: Vec<MediaSpan>,
}

impl Origin {
    /// The keys of the block of `length` tokens that begins at position `start`.
    pub(crate) fn keys(&self, start: u32, length: u32) -> Vec<Key<'_>> {
        let end = i64::from(start) + i64::from(length);
        let lora = self.lora.iter().map(|lora| Key::Lora { name: &lora.name, path: &lora.path });
        let overlaps = |span: &&MediaSpan| {
            i64::from(span.offset) < end && i64::from(span.offset) + i64::from(span.length) > i64::from(start)
        };
        let media = self.media.iter().filter(overlaps).map(|span| Key::Media {
            identifier: &span.identifier,
            offset: i64::from(span.offset) - i64::from(start),
        });
        let salt = self.salt.iter().filter(|_| start == 0).map(|salt| Key::Salt(salt));
        lora.chain(media).chain(salt).collect()
    }
}
