//! A batch of events in MessagePack: `[time, events, rank]`.

use super::batch::{Event, Stored};
use super::digest::{Digest, Key};
use super::msgpack::Writer;
use crate::config::{EventEncoding, KvStyle};

/// Where the eight bytes of the time stand, big-endian.
const TIME_AT: usize = 2;
/// Where the blocks live. The mock has no other tier.
const MEDIUM: &str = "GPU";
/// The one group of KV caches and its kind.
const GROUP: u64 = 0;
const KIND: &str = "full_attention";

/// Encodes a batch with a time of zero.
pub(crate) fn batch(events: &[Event], rank: u32, block_tokens: u32, style: &KvStyle) -> Vec<u8> {
    let mut encoder = Encoder { out: Writer::default(), block_tokens, style };
    encoder.out.array(3);
    encoder.out.float(0.0);
    encoder.out.array(events.len());
    for event in events {
        match (event, style.encoding) {
            (Event::Stored(stored), EventEncoding::Map) => encoder.stored_map(stored),
            (Event::Stored(stored), EventEncoding::Array) => encoder.stored_array(stored),
            (Event::Removed(digest), encoding) => encoder.removed(digest, encoding),
            (Event::Cleared, EventEncoding::Map) => {
                encoder.out.map(1);
                encoder.kind("AllBlocksCleared");
            }
            (Event::Cleared, EventEncoding::Array) => {
                encoder.out.array(1);
                encoder.out.text("AllBlocksCleared");
            }
        }
    }
    encoder.out.unsigned(u64::from(rank));
    encoder.out.bytes
}

/// Writes the time (seconds since the Unix epoch) into an encoded batch.
pub(crate) fn set_time(batch: &mut [u8], seconds: f64) {
    batch[TIME_AT..TIME_AT + 8].copy_from_slice(&seconds.to_be_bytes());
}

struct Encoder<'a> {
    out: Writer,
    block_tokens: u32,
    style: &'a KvStyle,
}

impl Encoder<'_> {
    fn kind(&mut self, kind: &str) {
        self.out.text("type");
        self.out.text(kind);
    }

    fn stored_map(&mut self, stored: &Stored) {
        let session_id = stored.origin.session_id.as_deref();
        self.out.map(11 + usize::from(session_id.is_some()));
        self.kind("BlockStored");
        self.out.text("block_hashes");
        self.names(&stored.blocks);
        self.out.text("parent_block_hash");
        self.parent(stored);
        self.out.text("token_ids");
        self.token_ids(stored);
        self.out.text("block_size");
        self.out.unsigned(u64::from(self.block_tokens));
        self.out.text("lora_id");
        self.lora_id(stored);
        self.out.text("medium");
        self.out.text(MEDIUM);
        self.out.text("lora_name");
        self.lora_name(stored);
        self.out.text("extra_keys");
        self.extra_keys(stored);
        self.out.text("group_idx");
        self.out.unsigned(GROUP);
        self.out.text("kv_cache_spec_kind");
        self.out.text(KIND);
        if let Some(session_id) = session_id {
            self.out.text("session_id");
            self.out.text(session_id);
        }
    }

    fn stored_array(&mut self, stored: &Stored) {
        self.out.array(12);
        self.out.text("BlockStored");
        self.names(&stored.blocks);
        self.parent(stored);
        self.token_ids(stored);
        self.out.unsigned(u64::from(self.block_tokens));
        self.lora_id(stored);
        self.out.text(MEDIUM);
        self.lora_name(stored);
        self.extra_keys(stored);
        self.out.unsigned(GROUP);
        self.out.text(KIND);
        // No sliding window.
        self.out.nil();
    }

    fn removed(&mut self, digest: &Digest, encoding: EventEncoding) {
        match encoding {
            EventEncoding::Map => {
                self.out.map(4);
                self.kind("BlockRemoved");
                self.out.text("block_hashes");
                self.names(&[*digest]);
                self.out.text("medium");
                self.out.text(MEDIUM);
                self.out.text("group_idx");
                self.out.unsigned(GROUP);
            }
            EventEncoding::Array => {
                self.out.array(4);
                self.out.text("BlockRemoved");
                self.names(&[*digest]);
                self.out.text(MEDIUM);
                self.out.unsigned(GROUP);
            }
        }
    }

    fn name(&mut self, digest: &Digest) {
        if self.style.whole_digests {
            self.out.binary(&digest.0);
        } else {
            self.out.unsigned(digest.name());
        }
    }

    fn names(&mut self, digests: &[Digest]) {
        self.out.array(digests.len());
        for digest in digests {
            self.name(digest);
        }
    }

    fn parent(&mut self, stored: &Stored) {
        match &stored.parent {
            Some(parent) => self.name(parent),
            None => self.out.nil(),
        }
    }

    fn token_ids(&mut self, stored: &Stored) {
        self.out.array(stored.token_ids.len());
        for &id in &stored.token_ids {
            self.out.unsigned(u64::from(id));
        }
    }

    fn lora_id(&mut self, stored: &Stored) {
        match &stored.origin.lora {
            Some(lora) => self.out.integer(lora.id),
            None => self.out.nil(),
        }
    }

    fn lora_name(&mut self, stored: &Stored) {
        match &stored.origin.lora {
            Some(lora) => self.out.text(&lora.name),
            None => self.out.nil(),
        }
    }

    /// One list per block, or nil. Unlike what is hashed, the keys carry no tags, and an adapter no path.
    fn extra_keys(&mut self, stored: &Stored) {
        self.out.array(stored.blocks.len());
        for index in 0..stored.blocks.len() as u32 {
            let keys = stored.origin.keys(stored.start + index * self.block_tokens, self.block_tokens);
            if keys.is_empty() {
                self.out.nil();
                continue;
            }
            self.out.array(keys.len());
            for key in keys {
                match key {
                    Key::Lora { name, path: _ } => self.out.text(name),
                    Key::Media { identifier, offset } => {
                        self.out.array(2);
                        self.out.text(identifier);
                        self.out.integer(offset);
                    }
                    Key::Salt(salt) => self.out.text(salt),
                }
            }
        }
    }
}
