mod map;

use std::sync::Arc;

use tito_types::MediaFeatures;

use self::map::{Map, Spot};
use super::payload::{self, Budget};
use super::{ITEMS_MAX, Known, MODALITIES, NAME_BYTES_MAX, metadata};
use crate::fields::generate as fields;
use crate::object::{Member, Object, string};
use crate::{BindContext, Refusal, RefusalKind, json};

const NAMES: &str = "mm_hashes";
const PLACES: &str = "mm_placeholders";
const PAYLOADS: &str = "kwargs_data";
const METADATA: &str = "mm_metadata";

/// Items whose ranges lie in the prompt, apart from each other; at least one.
pub(crate) struct Features {
    /// Modality by modality, in the client's order.
    items: Vec<Item>,
}

struct Item {
    spot: Spot,
    /// What the client calls its payload.
    name: Arc<str>,
    offset: u32,
    length: u32,
    is_embed: Option<Arc<[bool]>>,
    /// Absent when the client believes that it is remembered here.
    payload: Option<Arc<[u8]>>,
    metadata: Option<Arc<[u8]>>,
}

/// `features` over a prompt of so many tokens; `None` when there are no items in it.
pub(super) fn read(member: Member<'_, '_>, prompt_tokens: usize) -> Result<Option<Features>, Refusal> {
    let maps = Object::closed(member.path(), member.raw(), fields::FEATURES)?;
    let names = Map::read(&maps, NAMES)?;
    let places = Map::read(&maps, PLACES)?;
    let payloads = Map::read(&maps, PAYLOADS)?;
    let metadata = Map::read(&maps, METADATA)?;
    places.check_shape(&names)?;
    for optional in [&payloads, &metadata].into_iter().filter(|map| map.given()) {
        optional.check_shape(&names)?;
    }
    if names.len() > ITEMS_MAX {
        return Err(member.refuse(format!("must hold at most {ITEMS_MAX} items, got {}", names.len())));
    }
    let (mut payload_bytes, mut metadata_bytes) = (Budget::new(PAYLOADS), Budget::new(METADATA));
    let mut items = Vec::with_capacity(names.len());
    for (spot, name) in names.entries() {
        let place = places.get(spot).expect("there is a placeholder for every name");
        let (offset, length, is_embed) = range(spot.path(PLACES), place, prompt_tokens)?;
        items.push(Item {
            spot,
            name: name_of(name, spot)?,
            offset,
            length,
            is_embed,
            payload: bytes_of(&payloads, spot, &mut payload_bytes)?,
            metadata: bytes_of(&metadata, spot, &mut metadata_bytes)?,
        });
    }
    check_apart(&items)?;
    Ok((!items.is_empty()).then_some(Features { items }))
}

fn name_of(json: &str, spot: Spot) -> Result<Arc<str>, Refusal> {
    let name = string(json, || spot.path(NAMES))?;
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        let message = format!("must be 1 to {NAME_BYTES_MAX} bytes, got {}", name.len());
        return Err(Refusal::invalid(spot.path(NAMES), message));
    }
    Ok(name.into())
}

/// What a map holds for an item, decoded; null is the same as nothing.
fn bytes_of(map: &Map<'_>, spot: Spot, budget: &mut Budget) -> Result<Option<Arc<[u8]>>, Refusal> {
    let json = map.get(spot).filter(|json| *json != "null");
    json.map(|json| payload::read(json, budget, || spot.path(map.name))).transpose()
}

type Range = (u32, u32, Option<Arc<[bool]>>);

/// Offset, length and mask of one placeholder.
fn range(path: String, json: &str, prompt_tokens: usize) -> Result<Range, Refusal> {
    let place = Object::closed(path, json, fields::PLACEHOLDER)?;
    let (offset, length) = (place.required("offset")?, place.required("length")?);
    let (at, count) = (offset.count(0)?, length.count(1)?);
    if at as usize >= prompt_tokens {
        return Err(offset.refuse(format!("must be below the prompt length, {prompt_tokens}; got {at}")));
    }
    let rest = prompt_tokens - at as usize;
    if count as usize > rest {
        let message = format!("must be at most what the prompt has from there, {rest}; got {count}");
        return Err(length.refuse(message));
    }
    Ok((at, count, place.read("is_embed", |member| mask(member, count as usize))?))
}

fn mask(member: Member<'_, '_>, length: usize) -> Result<Arc<[bool]>, Refusal> {
    let flags: Vec<bool> =
        serde_json::from_str(member.raw()).map_err(|_| member.refuse("must be a list of true and false"))?;
    if flags.len() != length {
        return Err(member.refuse(format!("must be as long as length, {length}; got {}", flags.len())));
    }
    if !flags.contains(&true) {
        return Err(member.refuse("must hold true at least once"));
    }
    Ok(flags.into())
}

fn check_apart(items: &[Item]) -> Result<(), Refusal> {
    let mut order: Vec<&Item> = items.iter().collect();
    order.sort_by_key(|item| item.offset);
    let overlap = order.windows(2).find(|pair| pair[1].offset - pair[0].offset < pair[0].length);
    overlap.map_or(Ok(()), |pair| {
        let message = format!("must not lie inside {}", pair[0].spot.path(PLACES));
        Err(Refusal::invalid(format!("{}.offset", pair[1].spot.path(PLACES)), message))
    })
}

impl Features {
    /// `{"image":[{"offset":5,"length":4}]}`, as the client gave it.
    pub(super) fn placeholders(&self) -> Vec<u8> {
        let mut out = b"{".to_vec();
        for (kind, modality) in MODALITIES.into_iter().enumerate() {
            let mut first = true;
            for item in self.items.iter().filter(|item| item.spot.kind == kind) {
                if first {
                    out.extend_from_slice(if out.len() > 1 { b"," } else { b"" });
                    json::value(&mut out, modality.word());
                    out.extend_from_slice(b":[");
                } else {
                    out.push(b',');
                }
                first = false;
                out.extend_from_slice(b"{\"offset\":");
                json::value(&mut out, &item.offset);
                out.extend_from_slice(b",\"length\":");
                json::value(&mut out, &item.length);
                out.push(b'}');
            }
            out.extend_from_slice(if first { b"" } else { b"]" });
        }
        out.push(b'}');
        out
    }

    /// Finds the payloads that did not come, sorts by offset, and then remembers those that came: what is refused
    /// leaves nothing behind.
    pub(super) fn settle(self, context: &BindContext<'_>) -> Result<Arc<[MediaFeatures]>, Refusal> {
        let came: Vec<Option<Known>> = self.items.iter().map(Item::came).collect();
        let mut budget = Budget::new(PAYLOADS);
        let mut settled = Vec::with_capacity(self.items.len());
        for (item, own) in self.items.iter().zip(&came) {
            let found = own.clone().or_else(|| self.twin(&came, item)).or_else(|| remembered(item, context));
            let Known { payload, identifier } = found.ok_or_else(|| not_cached(item))?;
            budget.take(payload.len())?;
            check_metadata(item, &payload)?;
            let Item { spot, offset, length, ref is_embed, .. } = *item;
            let (modality, is_embed) = (spot.modality(), is_embed.clone());
            settled.push(MediaFeatures { modality, identifier, offset, length, is_embed, payload });
        }
        settled.sort_by_key(|item| item.offset);
        if context.remember {
            for (Item { spot, name, .. }, came) in self.items.iter().zip(came) {
                let Some(came) = came else { continue };
                context.media.put(context.scope, spot.modality(), name, came);
            }
        }
        Ok(settled.into())
    }

    /// What came under an item's name with another one: an image that stands twice in a prompt may be sent once. Of
    /// several it is the last, as it would be for a later request.
    fn twin(&self, came: &[Option<Known>], item: &Item) -> Option<Known> {
        let named_alike =
            |other: &Item| other.spot.modality() == item.spot.modality() && other.name == item.name;
        let mut alike = self.items.iter().zip(came).rev().filter(|(other, _)| named_alike(other));
        alike.find_map(|(_, came)| came.clone())
    }
}

impl Item {
    fn came(&self) -> Option<Known> {
        self.payload.as_ref().map(|payload| Known::new(self.spot.modality(), Arc::clone(payload)))
    }
}

/// What came under an item's name with an earlier request.
fn remembered(item: &Item, context: &BindContext<'_>) -> Option<Known> {
    let &BindContext { media, scope, remember, .. } = context;
    let modality = item.spot.modality();
    if remember { media.get(scope, modality, &item.name) } else { media.peek(scope, modality, &item.name) }
}

fn not_cached(item: &Item) -> Refusal {
    let message = "is not remembered here under its mm_hashes entry; send the request again with the data";
    Refusal::new(RefusalKind::MediaNotCached, item.spot.path(PAYLOADS), message)
}

/// Engines have no place for metadata; nothing is lost where the payload says the same.
fn check_metadata(item: &Item, payload: &[u8]) -> Result<(), Refusal> {
    let said = |metadata: &Arc<[u8]>| metadata::repeats(metadata, payload);
    if item.metadata.as_ref().is_none_or(said) {
        return Ok(());
    }
    let message = "is not supported: it must be null, or repeat fields of the payload as they are there";
    Err(Refusal::new(RefusalKind::NotExpressible, item.spot.path(METADATA), message))
}

#[cfg(test)]
mod tests;
