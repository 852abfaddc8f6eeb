//! What a mock that takes media does with it.

/// Placeholder ids and sizes of media. The default is like the recorded vision-language model, with a third
/// modality besides its images and videos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multimodal {
    /// The id that stands for an image in a prompt.
    pub image_token: u32,
    /// The id that stands for a video.
    pub video_token: u32,
    /// The id that stands for a sound.
    pub audio_token: u32,
    /// Placeholder tokens that one raw item becomes; at least 1.
    pub item_tokens: u32,
}

impl Default for Multimodal {
    fn default() -> Self {
        Self { image_token: 1006, video_token: 1007, audio_token: 1008, item_tokens: 4 }
    }
}
