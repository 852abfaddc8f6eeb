use tito_types::{Modality, RawMedia};

use super::{ITEMS_MAX, MODALITIES, NAME_BYTES_MAX, raw_identifier};
use crate::Refusal;
use crate::fields::generate::PART;
use crate::object::{Member, Object, few};

/// Longest address that the engine fetches, in bytes. What a `data:` URL holds is bounded by the body.
const ADDRESS_BYTES_MAX: usize = 8192;
/// What a URL may begin with.
const SCHEMES: [&str; 3] = ["http://", "https://", DATA];
const DATA: &str = "data:";

/// `content_parts`: what the engine decodes itself, in the order of the prompt's placeholders.
pub(super) fn read(member: Member<'_, '_>) -> Result<Vec<RawMedia>, Refusal> {
    let parts = few(member.raw(), ITEMS_MAX, || member.path())?;
    let part = |(at, json)| part(&Object::closed(format!("{}[{at}]", member.path()), json, PART)?);
    parts.into_iter().enumerate().map(part).collect()
}

fn part(part: &Object<'_>) -> Result<RawMedia, Refusal> {
    let modality = modality(part.required("type")?)?;
    let url = url(part.required("url")?)?;
    let uuid = part.read("uuid", uuid)?;
    let identifier = uuid.map(|uuid| raw_identifier(modality, &url, &uuid).into());
    Ok(RawMedia { modality, url: url.into(), identifier })
}

fn modality(member: Member<'_, '_>) -> Result<Modality, Refusal> {
    let text = member.text()?;
    let word = text.strip_suffix("_url");
    let known = MODALITIES.into_iter().find(|modality| Some(modality.word()) == word);
    known.ok_or_else(|| member.refuse("must be image_url, video_url or audio_url"))
}

fn url(member: Member<'_, '_>) -> Result<String, Refusal> {
    let url = member.text()?;
    if !SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        return Err(member.refuse("must begin with http://, https:// or data:"));
    }
    if url.contains(|character: char| character.is_ascii_control() || character == ' ') {
        return Err(member.refuse("must not hold spaces or control characters"));
    }
    if url.len() > ADDRESS_BYTES_MAX && !url.starts_with(DATA) {
        return Err(member.refuse(format!("must be at most {ADDRESS_BYTES_MAX} bytes unless it is data:")));
    }
    Ok(url)
}

fn uuid(member: Member<'_, '_>) -> Result<String, Refusal> {
    let uuid = member.text()?;
    if !(1..=NAME_BYTES_MAX).contains(&uuid.len()) {
        return Err(member.refuse(format!("must be 1 to {NAME_BYTES_MAX} bytes, got {}", uuid.len())));
    }
    Ok(uuid)
}

#[cfg(test)]
mod tests;
