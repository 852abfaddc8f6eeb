//! Which slot a session is on. Bounded, and forgotten when idle.

use std::time::Duration;

use crate::Slot;
use crate::fast_map::FastMap;

/// How firmly a session stays on its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stickiness {
    /// Sessions are not looked at.
    Off,
    /// It stays unless `cost(its slot) − cost(cheapest slot)` exceeds the price of the prefill it saves there: of the
    /// prompt tokens its slot holds or should hold; where the slot's block table is not known, of as many as the
    /// session's last prompt had.
    Soft,
    /// It stays as long as its slot can take it.
    Hard,
}

/// Sessions looked at by one call to see whether they are idle.
const EXPIRED_PER_CALL_MAX: usize = 8;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Session {
    key: u64,
    slot: Slot,
    prompt_tokens: u32,
    used: Duration,
    newer: u32,
    older: u32,
}

/// Sessions in the order of their last use.
#[derive(Debug)]
pub(crate) struct Affinity {
    sessions: Vec<Session>,
    by_key: FastMap<u32>,
    newest: u32,
    oldest: u32,
    free: Vec<u32>,
    sessions_max: usize,
    idle: Duration,
}

impl Affinity {
    pub(crate) fn new(sessions_max: usize, idle: Duration) -> Self {
        Self {
            sessions: Vec::new(),
            by_key: FastMap::default(),
            newest: NONE,
            oldest: NONE,
            free: Vec::new(),
            sessions_max: sessions_max.min(NONE as usize - 1),
            idle,
        }
    }

    /// The session's slot and the tokens of its last prompt.
    pub(crate) fn get(&self, key: u64, now: Duration) -> Option<(Slot, u32)> {
        let session = &self.sessions[*self.by_key.get(&key)? as usize];
        (session.used + self.idle > now).then_some((session.slot, session.prompt_tokens))
    }

    /// The session was sent to a slot. The one idle the longest makes room.
    pub(crate) fn put(&mut self, key: u64, slot: Slot, prompt_tokens: u32, now: Duration) {
        for _ in 0..EXPIRED_PER_CALL_MAX {
            match self.sessions.get(self.oldest as usize) {
                Some(oldest) if oldest.used + self.idle <= now => self.drop_oldest(),
                _ => break,
            }
        }
        if self.sessions_max == 0 {
            return;
        }
        let index = if let Some(&index) = self.by_key.get(&key) {
            self.unlink(index);
            index
        } else {
            if self.by_key.len() >= self.sessions_max {
                self.drop_oldest();
            }
            let empty = Session { key, slot, prompt_tokens, used: now, newer: NONE, older: NONE };
            let index = self.free.pop().unwrap_or_else(|| {
                self.sessions.push(empty);
                self.sessions.len() as u32 - 1
            });
            self.by_key.insert(key, index);
            index
        };
        let older = std::mem::replace(&mut self.newest, index);
        self.sessions[index as usize] = Session { key, slot, prompt_tokens, used: now, newer: NONE, older };
        match older {
            NONE => self.oldest = index,
            older => self.sessions[older as usize].newer = index,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    fn drop_oldest(&mut self) {
        let index = self.oldest;
        if index != NONE {
            self.unlink(index);
            self.by_key.remove(&self.sessions[index as usize].key);
            self.free.push(index);
        }
    }

    fn unlink(&mut self, index: u32) {
        let Session { newer, older, .. } = self.sessions[index as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.sessions[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.sessions[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests;
