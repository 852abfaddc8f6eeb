//! Media of a prompt → `vllm.MediaItem`s. A payload is copied once, at this boundary, and never read.

use tito_types::{EngineError, Media, MediaFeatures, Modality, RawMedia};
use vllm_proto::media_item::Source;
use vllm_proto::{MediaItem, PreprocessedMediaFeatures};

pub(super) fn media_of(media: &Media, multimodal: bool) -> Result<Vec<MediaItem>, EngineError> {
    match media {
        Media::None => Ok(Vec::new()),
        Media::Features(_) if !multimodal => Err(refused("features")),
        Media::Raw(_) if !multimodal => Err(refused("content_parts")),
        Media::Features(items) => Ok(items.iter().map(features_of).collect()),
        Media::Raw(items) => Ok(items.iter().map(raw_of).collect()),
    }
}

fn refused(param: &str) -> EngineError {
    EngineError::Invalid { param: param.to_owned(), message: "the model takes no media".to_owned() }
}

fn features_of(features: &MediaFeatures) -> MediaItem {
    let MediaFeatures { modality, identifier, offset, length, is_embed, payload } = features;
    let features = PreprocessedMediaFeatures {
        kwargs: Some(payload.to_vec()),
        identifier: identifier.to_string(),
        offset: u64::from(*offset),
        length: u64::from(*length),
        mm_hash: None, // names an entry of the engine's processor cache, which is not used with payloads
        is_embed: is_embed.as_deref().unwrap_or_default().to_vec(),
    };
    item(*modality, Source::Features(features), "")
}

fn raw_of(raw: &RawMedia) -> MediaItem {
    let RawMedia { modality, url, identifier } = raw;
    let inline = url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
    let source = if inline { Source::DataUri(url.to_string()) } else { Source::Url(url.to_string()) };
    item(*modality, source, identifier.as_deref().unwrap_or_default())
}

fn item(modality: Modality, source: Source, uuid: &str) -> MediaItem {
    let modality = match modality {
        Modality::Image => vllm_proto::Modality::Image,
        Modality::Video => vllm_proto::Modality::Video,
        Modality::Audio => vllm_proto::Modality::Audio,
    };
    MediaItem {
        modality: modality.into(),
        source: Some(source),
        mime_type: String::new(), // the engine looks at the bytes
        uuid: uuid.to_owned(),
    }
}

#[cfg(test)]
mod tests;
