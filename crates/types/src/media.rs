use std::sync::Arc;

/// What kind of media an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Modality {
    /// Still picture.
    Image,
    /// Moving pictures.
    Video,
    /// Sound.
    Audio,
}

impl Modality {
    /// The word clients and engines use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Video => "video",
            Self::Audio => "audio",
        }
    }
}

/// The media of one prompt. An engine takes one of the two forms per request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Media {
    /// Text only.
    #[default]
    None,
    /// Tensors an engine can use as they are; the prompt holds the expanded placeholders. Sorted by offset.
    Features(Arc<[MediaFeatures]>),
    /// Media the engine decodes itself; the prompt holds one unexpanded placeholder per item, in order.
    Raw(Arc<[RawMedia]>),
}

/// One preprocessed item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaFeatures {
    /// What it is.
    pub modality: Modality,
    /// Cache identity, derived from modality and payload: never the client's word.
    pub identifier: Arc<str>,
    /// First placeholder position in the prompt, in tokens.
    pub offset: u32,
    /// Placeholder tokens; at least 1, `offset + length` within the prompt.
    pub length: u32,
    /// Which placeholder positions carry embeddings; absent is all. As long as `length`.
    pub is_embed: Option<Arc<[bool]>>,
    /// The tensors as the engine encoded them (vLLM 0.32: MessagePack of one item); never touched.
    pub payload: Arc<[u8]>,
}

/// One item the engine fetches or decodes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawMedia {
    /// What it is.
    pub modality: Modality,
    /// `http:`, `https:` or `data:` URL.
    pub url: Arc<str>,
    /// Cache identity, derived from modality, URL and the client's name for the item: never the client's word. Absent where
    /// the client gave no name, so that the engine derives one from what it decodes.
    pub identifier: Option<Arc<str>>,
}

/// What an engine expects inside preprocessed features; nothing on the wire tells, so the operator says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pixels {
    /// 0 to 255: the engine normalizes.
    Raw,
    /// Normalized already.
    Normalized,
}

impl Pixels {
    /// The word in configuration and lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Normalized => "normalized",
        }
    }
}
