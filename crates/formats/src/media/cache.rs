use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tito_types::Modality;

use super::Known;

/// Bytes of payloads that are remembered, unless told otherwise: a few thousand images of usual size.
pub const MEDIA_CACHE_BYTES_MAX: usize = 256 << 20;
/// What an entry costs besides its payload and its name (bytes, generously).
const ENTRY_BYTES: usize = 512;

/// Whose payloads a client may name: those that came with the same key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Scope(Option<[u8; 32]>);

impl Scope {
    /// Everyone, where nobody needs a key.
    pub const SHARED: Self = Self(None);

    /// Those who present the key with this digest.
    pub fn of_key(digest: [u8; 32]) -> Self {
        Self(Some(digest))
    }
}

/// Payloads that clients sent, by their own names for them, so that they need not send them again.
///
/// What was not used for longest is forgotten when the bound is reached. Only the same scope, modality and name find a
/// payload; other bytes under that name take its place.
pub struct MediaCache {
    bytes_max: usize,
    entries: Mutex<Entries>,
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MediaCacheStats {
    /// Payloads.
    pub(crate) entries: usize,
    /// Payloads, names and what each entry costs besides (bytes).
    pub(crate) bytes: usize,
}

type Key = (Scope, Modality, Arc<str>);

struct Entries {
    by_key: BTreeMap<Key, Entry>,
    /// Keys by their last use.
    by_use: BTreeMap<u64, Key>,
    /// Uses so far.
    uses: u64,
    bytes: usize,
}

struct Entry {
    known: Known,
    used: u64,
}

impl MediaCache {
    /// An empty cache that never holds more than `bytes_max` bytes; with 0 it remembers nothing.
    pub const fn new(bytes_max: usize) -> Self {
        let entries = Entries { by_key: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0, bytes: 0 };
        Self { bytes_max, entries: Mutex::new(entries) }
    }

    /// What it holds now.
    pub(crate) fn stats(&self) -> MediaCacheStats {
        self.with(|entries| MediaCacheStats { entries: entries.by_key.len(), bytes: entries.bytes })
    }

    /// The payload of that name, which counts as a use of it.
    pub(super) fn get(&self, scope: Scope, modality: Modality, name: &Arc<str>) -> Option<Known> {
        self.with(|entries| entries.touch(&(scope, modality, Arc::clone(name))))
    }

    /// The same, and it does not count as a use.
    pub(super) fn peek(&self, scope: Scope, modality: Modality, name: &Arc<str>) -> Option<Known> {
        let key = (scope, modality, Arc::clone(name));
        self.with(|entries| entries.by_key.get(&key).map(|entry| entry.known.clone()))
    }

    /// Remembers a payload, unless it is larger than everything that may be held.
    pub(super) fn put(&self, scope: Scope, modality: Modality, name: &Arc<str>, known: Known) {
        let key = (scope, modality, Arc::clone(name));
        let room = self.bytes_max.checked_sub(cost(&key, &known));
        // What goes is given back after the lock is.
        let _gone = self.with(|entries| {
            let mut gone = Vec::from_iter(entries.remove(&key));
            let Some(room) = room else { return gone };
            while entries.bytes > room
                && let Some(oldest) = entries.by_use.first_entry().map(|entry| entry.get().clone())
            {
                gone.extend(entries.remove(&oldest));
            }
            entries.insert(key, known);
            gone
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut Entries) -> T) -> T {
        // Nothing panics while it holds the lock, so nothing is half done.
        act(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Entries {
    fn touch(&mut self, key: &Key) -> Option<Known> {
        let entry = self.by_key.get_mut(key)?;
        self.uses += 1;
        let key = self.by_use.remove(&entry.used)?;
        entry.used = self.uses;
        self.by_use.insert(self.uses, key);
        Some(entry.known.clone())
    }

    fn insert(&mut self, key: Key, known: Known) {
        self.uses += 1;
        self.bytes += cost(&key, &known);
        self.by_use.insert(self.uses, key.clone());
        self.by_key.insert(key, Entry { known, used: self.uses });
    }

    fn remove(&mut self, key: &Key) -> Option<Known> {
        let Entry { known, used } = self.by_key.remove(key)?;
        self.by_use.remove(&used);
        self.bytes -= cost(key, &known);
        Some(known)
    }
}

/// Bytes that an entry is counted with.
fn cost((_, _, name): &Key, known: &Known) -> usize {
    known.payload.len() + name.len() + ENTRY_BYTES
}

/// A digest of a weak key gives the key away, so it is not shown.
impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Scope(key)" } else { "Scope(shared)" })
    }
}

impl fmt::Debug for MediaCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MediaCacheStats { entries, bytes } = self.stats();
        let mut shown = f.debug_struct("MediaCache");
        shown.field("entries", &entries).field("bytes", &bytes).field("bytes_max", &self.bytes_max).finish()
    }
}

#[cfg(test)]
mod tests;
