//! Media of a request: preprocessed features, or raw items that the frontend puts into the prompt.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use tonic::Status;
use vllm_proto::media_item::Source;
use vllm_proto::{MediaItem, Modality, PreprocessedMediaFeatures};

use super::{Checked, invalid};
use crate::config::Multimodal;
use crate::kv::MediaSpan;

mod kwargs;
mod msgpack;
#[cfg(test)]
mod tests;

/// Most bytes of the preprocessed features of one request that vLLM 0.32 takes.
const FEATURES_BYTES_MAX: usize = 16 << 20;

/// Media items of one request; more than any engine takes.
const ITEMS_MAX: usize = 1024;

/// Values of the wire's modality.
const MODALITIES: usize = 4;

/// How files of the formats that vLLM's frontend decodes begin.
const SIGNATURES: [&[u8]; 9] = [
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"GIF8",
    b"BM",
    b"RIFF",
    b"ID3",
    b"OggS",
    b"fLaC",
    b"\x1aE\xdf\xa3",
];

/// What a request says about its prompt besides the ids.
pub(super) struct Asked<'a> {
    pub(super) media: &'a [MediaItem],
    /// Whether the prompt came as ids.
    pub(super) by_ids: bool,
    /// Whether the prompt is to be cut.
    pub(super) truncated: bool,
    /// Context length in tokens; no prompt grows beyond it.
    pub(super) max_model_len: u32,
}

/// Checks the media and returns the prompt with all placeholders, and where they are.
pub(super) fn check(
    asked: &Asked<'_>,
    prompt: Vec<u32>,
    multimodal: Option<&Multimodal>,
) -> Checked<(Vec<u32>, Vec<MediaSpan>)> {
    let Asked { media, by_ids, truncated, max_model_len } = *asked;
    if media.is_empty() {
        return Ok((prompt, Vec::new()));
    }
    check_size(media)?;
    let Some(multimodal) = multimodal else { return Err(invalid("this model takes no media")) };
    if !by_ids {
        return Err(invalid("a prompt with media must be given as token_ids"));
    }
    if truncated {
        return Err(invalid("a prompt with media is not truncated"));
    }
    if media.len() > ITEMS_MAX {
        return Err(invalid(format!("{} media items, at most {ITEMS_MAX} are taken", media.len())));
    }
    let items = media.iter().enumerate().map(|(index, item)| item_of(index, item));
    let items = items.collect::<Checked<Vec<Item<'_>>>>()?;
    let features = items.iter().filter(|item| matches!(item, Item::Features(..))).count();
    if features == items.len() {
        let spans = spans_of(&items, prompt.len())?;
        return Ok((prompt, spans));
    }
    if features > 0 {
        return Err(invalid("a request has raw media or preprocessed features, not both"));
    }
    let grown = prompt.len() + items.len() * (multimodal.item_tokens.max(1) as usize - 1);
    if grown >= max_model_len as usize {
        return Err(invalid(format!("the prompt grows to {grown} tokens, the context has {max_model_len}")));
    }
    expand(&prompt, &items, multimodal)
}

/// What is too large is refused before anything else, as vLLM 0.32 does.
fn check_size(media: &[MediaItem]) -> Checked<()> {
    let bytes = |item: &MediaItem| match &item.source {
        Some(Source::Features(features)) => features.kwargs.as_ref().map_or(0, Vec::len),
        Some(Source::RawBytes(_) | Source::DataUri(_) | Source::Url(_)) | None => 0,
    };
    let bytes: usize = media.iter().map(bytes).sum();
    if bytes > FEATURES_BYTES_MAX {
        let message =
            format!("media features of {bytes} bytes exceed the {FEATURES_BYTES_MAX} that are taken");
        return Err(Status::resource_exhausted(message));
    }
    Ok(())
}

/// An item whose form is right.
enum Item<'a> {
    Features(usize, &'a PreprocessedMediaFeatures),
    /// Modality, content, and the client's name for it.
    Raw(Modality, Content<'a>, &'a str),
}

enum Content<'a> {
    /// Fetched by nobody: the address stands for what is there.
    Url(&'a str),
    DataUri(&'a str),
    Bytes(&'a [u8]),
}

fn item_of(index: usize, item: &MediaItem) -> Checked<Item<'_>> {
    let MediaItem { modality, mime_type: _, uuid, source } = item;
    let modality = match Modality::try_from(*modality) {
        Ok(modality @ (Modality::Image | Modality::Video | Modality::Audio)) => modality,
        Ok(Modality::Unspecified) | Err(_) => {
            return Err(invalid(format!("media[{index}]: a modality is required")));
        }
    };
    match source {
        None => Err(invalid(format!("media[{index}]: a source is required"))),
        Some(Source::Features(features)) => Ok(Item::Features(index, features)),
        Some(Source::Url(url)) if has_scheme(url, &["http", "https"]) => {
            Ok(Item::Raw(modality, Content::Url(url), uuid))
        }
        Some(Source::Url(_)) => Err(invalid(format!("media[{index}]: a url is http or https"))),
        Some(Source::DataUri(uri)) if has_scheme(uri, &["data"]) => {
            Ok(Item::Raw(modality, Content::DataUri(uri), uuid))
        }
        Some(Source::DataUri(_)) => Err(invalid(format!("media[{index}]: a data_uri begins with data:"))),
        Some(Source::RawBytes(bytes)) => Ok(Item::Raw(modality, Content::Bytes(bytes), uuid)),
    }
}

fn has_scheme(url: &str, schemes: &[&str]) -> bool {
    url.split_once(':')
        .is_some_and(|(scheme, _)| schemes.iter().any(|known| scheme.eq_ignore_ascii_case(known)))
}

/// The placeholders of features, in order. Whether the ids there are placeholders, nobody looks.
fn spans_of(items: &[Item<'_>], prompt_tokens: usize) -> Checked<Vec<MediaSpan>> {
    let mut spans = Vec::with_capacity(items.len());
    for item in items {
        let Item::Features(index, features) = item else { continue };
        spans.push(span_of(*index, features, prompt_tokens)?);
    }
    spans.sort_by_key(|span| span.offset);
    Ok(spans)
}

fn span_of(index: usize, features: &PreprocessedMediaFeatures, prompt_tokens: usize) -> Checked<MediaSpan> {
    let PreprocessedMediaFeatures { kwargs, identifier, offset, length, mm_hash: _, is_embed } = features;
    let at = |message: &str| invalid(format!("media[{index}]: {message}"));
    let Some(kwargs) = kwargs else { return Err(at("features need their kwargs")) };
    kwargs::check(kwargs).map_err(|error| at(&error.to_string()))?;
    if identifier.is_empty() {
        return Err(at("features need an identifier"));
    }
    if *length == 0 {
        return Err(at("a range of placeholders has at least one"));
    }
    if !is_embed.is_empty() && is_embed.len() as u64 != *length {
        return Err(at("is_embed has one entry per placeholder"));
    }
    let end = offset.checked_add(*length).filter(|end| *end <= prompt_tokens as u64);
    if end.is_none() {
        return Err(at("the range of placeholders lies outside the prompt"));
    }
    Ok(MediaSpan { identifier: identifier.as_str().into(), offset: *offset as u32, length: *length as u32 })
}

/// Makes every item's one placeholder as many as the item takes.
fn expand(
    prompt: &[u32],
    items: &[Item<'_>],
    multimodal: &Multimodal,
) -> Checked<(Vec<u32>, Vec<MediaSpan>)> {
    let mut found: Vec<(usize, Arc<str>)> = Vec::with_capacity(items.len());
    // Where the next placeholder of each modality is looked for.
    let mut next_of: [usize; MODALITIES] = [0; MODALITIES];
    for item in items {
        let Item::Raw(modality, content, uuid) = item else { continue };
        let identifier = identifier_of(*modality, content, uuid)?;
        let token = token_of(*modality, multimodal);
        let from = &mut next_of[*modality as usize];
        let Some(position) = prompt[*from..].iter().position(|id| *id == token) else {
            return Err(unusable(&format!("placeholder token {token} was not found for every item")));
        };
        let position = *from + position;
        *from = position + 1;
        found.push((position, identifier));
    }
    found.sort_unstable_by_key(|(position, _)| *position);
    let mut expanded = Vec::with_capacity(prompt.len() + found.len() * multimodal.item_tokens as usize);
    let (mut spans, mut next) = (Vec::with_capacity(found.len()), 0);
    for (position, identifier) in found {
        expanded.extend_from_slice(&prompt[next..position]);
        let (offset, length) = (expanded.len() as u32, multimodal.item_tokens);
        expanded.extend(std::iter::repeat_n(prompt[position], length as usize));
        spans.push(MediaSpan { identifier, offset, length });
        next = position + 1;
    }
    expanded.extend_from_slice(&prompt[next..]);
    Ok((expanded, spans))
}

fn token_of(modality: Modality, multimodal: &Multimodal) -> u32 {
    match modality {
        Modality::Video => multimodal.video_token,
        Modality::Audio => multimodal.audio_token,
        Modality::Image | Modality::Unspecified => multimodal.image_token,
    }
}

/// The client's name for the item, or a hash of its content.
fn identifier_of(modality: Modality, content: &Content<'_>, uuid: &str) -> Checked<Arc<str>> {
    let bytes = match content {
        Content::Url(url) => url.as_bytes().to_vec(),
        Content::DataUri(uri) => decoded(uri)?,
        Content::Bytes(bytes) => bytes.to_vec(),
    };
    let known = SIGNATURES.iter().any(|signature| bytes.starts_with(signature));
    let boxed = bytes.get(4..8) == Some(b"ftyp");
    if !(known || boxed || matches!(content, Content::Url(_))) {
        return Err(unusable(&format!("{} decode error: the format is not known", name_of(modality))));
    }
    if !uuid.is_empty() {
        return Ok(uuid.into());
    }
    let mut hash = Sha256::new();
    hash.update(modality.as_str_name());
    hash.update([0]);
    hash.update(&bytes);
    let digits = hash.finalize().into_iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    let hex: String = digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect();
    Ok(hex.into())
}

fn decoded(uri: &str) -> Checked<Vec<u8>> {
    let payload = uri.split_once(";base64,").map(|(_, payload)| payload);
    let payload = payload.ok_or_else(|| unusable("data URL parse error: no payload in base64"))?;
    STANDARD.decode(payload).map_err(|error| unusable(&format!("base64 decode error: {error}")))
}

/// What is wrong with raw media is found after the checks of the request, and is no INVALID_ARGUMENT.
fn unusable(words: &str) -> Status {
    Status::internal(format!("multimodal preprocessing error: {words}"))
}

fn name_of(modality: Modality) -> &'static str {
    match modality {
        Modality::Video => "video",
        Modality::Audio => "audio",
        Modality::Image | Modality::Unspecified => "image",
    }
}
