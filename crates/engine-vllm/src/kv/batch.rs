//! One published batch, read into [`KvEvent`]s. Pure, for bytes nobody vouches for.
//!
//! A batch is an array (or a map) of a time stamp, events and a rank. vLLM 0.32 writes an event as a map, older
//! releases as a positional array with the tag first; short arrays, unknown fields and unknown kinds are fine. An event
//! that cannot be read is left out and counted; the others stand.
//!
//! **Groups.** A hybrid model publishes a block once per KV cache group, under one hash, and only groups of full
//! attention hold whole prefixes. The first of those that stores feeds the table and the others are left out, so that
//! what a second group drops is not taken from the first; vLLM stores groups in rising order, so it is the lowest.
//! A hit needs the other groups too, so a rank that has any is not a measure of what its engine reports.
//! Groups are allocated together; that one full group has a block and another has lost it is possible and not seen here.
//!
//! **Lower tiers.** A connector that only says "this hash is now on the CPU" (no tokens, block size 0) tells a copy of what
//! the engine has; one that publishes the content (`self_describing_kv_events`) is read like the GPU's.

use std::sync::Arc;

use tito_types::{EngineHash, KvEvent, StoredBlocks, Tier, TokenId};

use crate::kv::extras::{self, Extras};
use crate::kv::msgpack::{Kind, Malformed, Reader};

const UNTOLD: &str = "its events have no extra keys, so they tell neither salts nor media";
const UNREADABLE: &str = "it told of stored blocks in a way that could not be read";
const GROUPS: &str = "it has KV cache groups besides full attention, which a hit needs as well";

/// What one batch holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Batch {
    /// What changed, in order, with the group it changed in; [`Groups::admit`] chooses among them.
    pub events: Vec<(Option<u32>, KvEvent)>,
    /// Events that could not be read.
    pub unreadable: u64,
    /// Events left out on purpose.
    pub skipped: u64,
    /// An event that was not read may have taken blocks away: what was known before is no longer certain, and `events`
    /// begins after it.
    pub damaged: bool,
    /// Media of some block cannot be identified, and why.
    pub media_inexact: Option<&'static str>,
    /// More decides about hits on the engine than its events say, and why.
    pub not_compared: Option<&'static str>,
}

impl Batch {
    /// Reads a batch, or says that it is none.
    pub(crate) fn read(payload: &[u8]) -> Result<Self, Malformed> {
        let mut events = events_of(Reader::new(payload))?;
        let mut batch = Self::default();
        for _ in 0..events.array()? {
            let event = events.value()?;
            match batch.event(Reader::new(event)) {
                Ok(Some(event)) => batch.events.push(event),
                Ok(None) => batch.skipped += 1,
                Err(Malformed) => batch.unreadable += 1,
            }
        }
        Ok(batch)
    }

    /// Whether the table is empty at some point of it.
    pub(crate) fn cleared(&self) -> bool {
        self.events.iter().any(|(_, event)| *event == KvEvent::Cleared)
    }

    fn event(&mut self, mut event: Reader<'_>) -> Result<Option<(Option<u32>, KvEvent)>, Malformed> {
        let Ok(fields) = Fields::read(&mut event) else { return self.damaged() };
        match fields.tag {
            "BlockStored" => {
                let stored = self.stored(&fields);
                if stored.is_err() {
                    self.not_compared = self.not_compared.or(Some(UNREADABLE));
                }
                stored
            }
            "BlockRemoved" => removed(&fields).or_else(|Malformed| self.damaged()),
            "AllBlocksCleared" => Ok(Some((None, KvEvent::Cleared))),
            _ => Ok(None),
        }
    }

    fn damaged<T>(&mut self) -> Result<T, Malformed> {
        self.damaged = true;
        self.events.clear();
        Err(Malformed)
    }

    fn stored(&mut self, fields: &Fields<'_>) -> Result<Option<(Option<u32>, KvEvent)>, Malformed> {
        let (Some(tier), true) = (fields.tier()?, fields.local()?) else { return Ok(None) };
        let adapter = fields.text(Field::LoraName)?.filter(|name| !name.is_empty());
        let adapter_id = fields.reader(Field::LoraId).and_then(|mut id| u64::try_from(id.int().ok()?).ok());
        // Older releases told an adapter by its number only, which names no content.
        let unnamed = adapter.is_none() && fields.reader(Field::LoraId).is_some();
        let block_tokens = fields.required(Field::BlockSize)?.u32()?;
        if !fields.holds_prefixes()? {
            self.not_compared = self.not_compared.or(Some(GROUPS));
            return Ok(None);
        }
        if block_tokens == 0 && tier != Tier::Gpu {
            let hashes = hashes(fields.required(Field::BlockHashes)?)?;
            return Ok((!hashes.is_empty()).then_some((fields.group()?, KvEvent::Copied { hashes, tier })));
        }
        if unnamed || block_tokens == 0 {
            return Ok(None);
        }
        let hashes = hashes(fields.required(Field::BlockHashes)?)?;
        let tokens = tokens(fields.required(Field::TokenIds)?)?;
        if hashes.len().checked_mul(block_tokens as usize) != Some(tokens.len()) {
            return Err(Malformed);
        }
        let parent = fields.reader(Field::Parent).map(|mut parent| hash(&mut parent)).transpose()?;
        let keys = fields.reader(Field::ExtraKeys);
        let Extras { salt, blocks: extras, inexact } =
            extras::read(keys, hashes.len(), adapter, parent.is_none(), fields.positional.is_some())?;
        let group = fields.group()?;
        let untold = fields.untold(Field::ExtraKeys).then_some(UNTOLD);
        self.media_inexact = self.media_inexact.or(untold).or(inexact);
        self.not_compared = self.not_compared.or(untold);
        if hashes.is_empty() {
            return Ok(None);
        }
        let adapter = adapter.map(Arc::from);
        let blocks =
            StoredBlocks { parent, hashes, tokens, block_tokens, tier, adapter, adapter_id, salt, extras };
        Ok(Some((group, KvEvent::Stored(blocks))))
    }
}

fn removed(fields: &Fields<'_>) -> Result<Option<(Option<u32>, KvEvent)>, Malformed> {
    let (Some(tier), true) = (fields.tier()?, fields.local()?) else { return Ok(None) };
    let hashes = hashes(fields.required(Field::BlockHashes)?)?;
    let group = fields.group()?;
    Ok((!hashes.is_empty()).then_some((group, KvEvent::Removed { hashes, tier })))
}

/// Which group feeds a rank's table; learned from what it stores, as removals do not tell their kind. Starts over with
/// an empty table.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    feeding: Option<u32>,
}

impl Groups {
    /// The events that concern the table, and how many do not.
    pub(crate) fn admit(&mut self, events: Vec<(Option<u32>, KvEvent)>) -> (Vec<KvEvent>, u64) {
        let all = events.len();
        let mut admitted = Vec::with_capacity(all);
        for (group, event) in events {
            let feeds = match (&event, group) {
                (KvEvent::Cleared, _) | (KvEvent::Copied { .. } | KvEvent::Removed { .. }, None) => true,
                (KvEvent::Stored(_), group) => {
                    let group = group.unwrap_or(0);
                    *self.feeding.get_or_insert(group) == group
                }
                (KvEvent::Copied { .. } | KvEvent::Removed { .. }, Some(group)) => {
                    self.feeding.is_none_or(|feeding| feeding == group)
                }
            };
            if feeds {
                admitted.push(event);
            }
        }
        let left_out = (all - admitted.len()) as u64;
        (admitted, left_out)
    }
}

/// The events of a batch in either form.
fn events_of(mut batch: Reader<'_>) -> Result<Reader<'_>, Malformed> {
    if batch.kind() == Some(Kind::Map) {
        for _ in 0..batch.map()? {
            let (key, value) = (batch.str()?, batch.value()?);
            if key == "events" {
                return Ok(Reader::new(value));
            }
        }
        return Err(Malformed);
    }
    if batch.array()? < 2 {
        return Err(Malformed);
    }
    batch.value()?; // the time stamp
    Ok(batch)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Field {
    BlockHashes,
    Parent,
    TokenIds,
    BlockSize,
    LoraId,
    Medium,
    LoraName,
    ExtraKeys,
    GroupIdx,
    SpecKind,
    Locality,
}

const FIELDS: usize = Field::Locality as usize + 1;

/// Order of the positional forms; a stored block of the newest had a window after its kind.
const STORED: &[Field] = &[
    Field::BlockHashes,
    Field::Parent,
    Field::TokenIds,
    Field::BlockSize,
    Field::LoraId,
    Field::Medium,
    Field::LoraName,
    Field::ExtraKeys,
    Field::GroupIdx,
    Field::SpecKind,
];
const REMOVED: &[Field] = &[Field::BlockHashes, Field::Medium, Field::GroupIdx];

/// The fields of one event as they stand in the batch, whatever its form. A nil is as good as absent.
struct Fields<'a> {
    tag: &'a str,
    values: [Option<Reader<'a>>; FIELDS],
    /// How many fields the event has if it is an array.
    positional: Option<usize>,
}

impl<'a> Fields<'a> {
    fn read(event: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut fields = Self { tag: "", values: [None; FIELDS], positional: None };
        if event.kind() == Some(Kind::Array) {
            let length = event.array()?;
            if length == 0 {
                return Err(Malformed);
            }
            fields.tag = event.str()?;
            fields.positional = Some(length - 1);
            let order = if fields.tag == "BlockRemoved" { REMOVED } else { STORED };
            for field in order.iter().take(length - 1) {
                fields.set(*field, event.value()?);
            }
            return Ok(fields);
        }
        let mut tag = None;
        for _ in 0..event.map()? {
            let (key, value) = (event.str()?, event.value()?);
            if key == "type" {
                tag = Some(Reader::new(value).str()?);
            } else if let Some(field) = field_of(key) {
                fields.set(field, value);
            }
        }
        fields.tag = tag.ok_or(Malformed)?;
        Ok(fields)
    }

    fn set(&mut self, field: Field, value: &'a [u8]) {
        let value = Reader::new(value);
        self.values[field as usize] = (value.kind() != Some(Kind::Nil)).then_some(value);
    }

    fn reader(&self, field: Field) -> Option<Reader<'a>> {
        self.values[field as usize]
    }

    /// Whether the event of a stored block comes from a release that did not know the field. A map leaves out what is nil.
    fn untold(&self, field: Field) -> bool {
        let place = STORED.iter().position(|known| *known == field);
        self.positional.zip(place).is_some_and(|(fields, place)| fields <= place)
    }

    fn required(&self, field: Field) -> Result<Reader<'a>, Malformed> {
        self.reader(field).ok_or(Malformed)
    }

    fn text(&self, field: Field) -> Result<Option<&'a str>, Malformed> {
        self.reader(field).map(|mut value| value.str()).transpose()
    }

    fn group(&self) -> Result<Option<u32>, Malformed> {
        self.reader(Field::GroupIdx).map(|mut value| value.u32()).transpose()
    }

    /// The tier, or `None` for a medium we do not know. Releases that named none knew the GPU only.
    fn tier(&self) -> Result<Option<Tier>, Malformed> {
        let Some(medium) = self.text(Field::Medium)? else { return Ok(Some(Tier::Gpu)) };
        let tiers = [("gpu", Tier::Gpu), ("cpu", Tier::Cpu), ("storage", Tier::Storage)];
        Ok(tiers.into_iter().find(|(name, _)| medium.eq_ignore_ascii_case(name)).map(|(_, tier)| tier))
    }

    /// Blocks that lie elsewhere, or who knows where, are no residency of this rank.
    fn local(&self) -> Result<bool, Malformed> {
        Ok(self.text(Field::Locality)?.is_none_or(|locality| locality.eq_ignore_ascii_case("LOCAL")))
    }

    fn holds_prefixes(&self) -> Result<bool, Malformed> {
        let kind = self.text(Field::SpecKind)?;
        Ok(matches!(kind, None | Some("full_attention" | "mla_attention" | "sink_full_attention")))
    }
}

fn field_of(key: &str) -> Option<Field> {
    Some(match key {
        "block_hashes" => Field::BlockHashes,
        "parent_block_hash" => Field::Parent,
        "token_ids" => Field::TokenIds,
        "block_size" => Field::BlockSize,
        "lora_id" => Field::LoraId,
        "medium" => Field::Medium,
        "lora_name" => Field::LoraName,
        "extra_keys" => Field::ExtraKeys,
        "group_idx" => Field::GroupIdx,
        "kv_cache_spec_kind" => Field::SpecKind,
        "locality" => Field::Locality,
        _ => return None,
    })
}

fn hashes(mut list: Reader<'_>) -> Result<Vec<EngineHash>, Malformed> {
    (0..list.array()?).map(|_| hash(&mut list)).collect()
}

/// An integer of 64 bits, or a digest of which the last 8 bytes count.
fn hash(value: &mut Reader<'_>) -> Result<EngineHash, Malformed> {
    if value.kind() == Some(Kind::Bin) {
        let tail = value.bin()?.last_chunk().ok_or(Malformed)?;
        return Ok(EngineHash(u64::from_be_bytes(*tail)));
    }
    let int = value.int()?;
    let bits = u64::try_from(int).or_else(|_| i64::try_from(int).map(i64::cast_unsigned));
    bits.map(EngineHash).map_err(|_| Malformed)
}

fn tokens(mut list: Reader<'_>) -> Result<Vec<TokenId>, Malformed> {
    let count = list.array()?;
    let mut tokens = Vec::with_capacity(count);
    for _ in 0..count {
        tokens.push(list.u32()?);
    }
    Ok(tokens)
}

#[cfg(any(test, feature = "test-util"))]
pub(crate) mod pack;
#[cfg(test)]
mod tests;
