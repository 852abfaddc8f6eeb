//! Look-up without a lock: from run to run along the chain hashes of a prompt.
//!
//! A chain hash stands for the whole prefix, so each run is checked for itself. What a run says is copied, checked to
//! be one state, and only then used. A run is left either into a further run or because there is none; in the second
//! case the run must still be what it was, since its rest may just have become part of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::cover::{Part, bits};
use super::heads::Probe;
use super::line::{Parts, Set, Snapshot};
use super::state::{Shared, State};

/// Attempts disturbed by the writer before a look-up takes the writer's lock.
const TRIES_MAX: usize = 64;
/// Parts that are copied without an allocation.
const PARTS_INLINE: usize = 16;
/// Steps in which a mismatch is searched at once: independent reads overlap.
const FAN: usize = 8;
/// Blocks that are compared one by one.
const SCAN: usize = 16;

/// One run, copied and checked.
struct Hop {
    run: u32,
    seq: u64,
    len: usize,
    /// Blocks of the run that the prompt has, at least 1.
    matched: usize,
}

/// Where the walk is.
enum Step {
    Run(Hop),
    /// No run begins with this block.
    Absent,
    /// The writer interfered: ask again.
    Disturbed,
}

/// Buffers of one look-up.
struct Copy<'a> {
    /// Holders of all blocks of the run.
    hold: &'a mut [u64],
    parts: [u64; PARTS_INLINE],
    more: Vec<u64>,
    count: usize,
}

impl Copy<'_> {
    fn part(&self, at: usize) -> Part {
        Part::unpack(if self.count <= PARTS_INLINE { self.parts[at] } else { self.more[at] })
    }
}

impl Shared {
    /// For every holder of the first block: how many blocks from the first on it has.
    pub(super) fn find(&self, state: &Mutex<State>, chain: &[u64], report: impl FnMut(u32, u32)) {
        match self.words.load(Ordering::Acquire) {
            0 => {}
            1 => self.walk(state, chain, &mut [0; 1], &mut [0; 1], report),
            words @ 2..=16 => {
                self.walk(state, chain, &mut [0; 16][..words], &mut [0; 16][..words], report);
            }
            words => self.walk(state, chain, &mut vec![0; words], &mut vec![0; words], report),
        }
    }

    #[inline]
    fn walk(
        &self,
        state: &Mutex<State>,
        chain: &[u64],
        alive: &mut [u64],
        hold: &mut [u64],
        mut report: impl FnMut(u32, u32),
    ) {
        let mut copy = Copy { hold, parts: [0; PARTS_INLINE], more: Vec::new(), count: 0 };
        let mut retry = Retry { state, guard: None, tries: 0 };
        let mut pos = 0;
        let mut first = true;
        let mut last: Option<(u32, u64)> = None;
        while pos < chain.len() {
            let hop = match self.step(&chain[pos..], &mut copy) {
                Step::Run(hop) => hop,
                Step::Absent if last.is_none_or(|(run, seq)| self.is_unchanged(run, seq)) => break,
                // What follows may have become part of a run already passed: walk again for those still in.
                Step::Absent if retry.again() => {
                    (pos, last) = (0, None);
                    continue;
                }
                Step::Disturbed if retry.again() => continue,
                Step::Absent | Step::Disturbed => break,
            };
            for at in 0..copy.count {
                let part = copy.part(at);
                let (word, bit) = (part.holder as usize / 64, 1 << (part.holder % 64));
                let Some(alive) = alive.get_mut(word) else { continue };
                if part.from > 0 || (!first && *alive & bit == 0) {
                    continue;
                }
                if part.to >= hop.matched {
                    copy.hold[word] |= bit;
                } else {
                    *alive &= !bit;
                    report(part.holder, (pos + part.to) as u32);
                }
            }
            let mut left = 0;
            for (word, (alive, &mut hold)) in alive.iter_mut().zip(&mut *copy.hold).enumerate() {
                if first {
                    *alive = hold;
                }
                for bit in bits(*alive & !hold) {
                    report(word as u32 * 64 + bit, pos as u32);
                }
                *alive &= hold;
                left |= *alive;
            }
            if left == 0 {
                return;
            }
            first = false;
            pos += hop.matched;
            last = Some((hop.run, hop.seq));
        }
        for (word, &alive) in alive.iter().enumerate() {
            for bit in bits(alive) {
                report(word as u32 * 64 + bit, pos as u32);
            }
        }
    }

    fn is_unchanged(&self, run: u32, seq: u64) -> bool {
        self.lines.get(run as usize).is_some_and(|line| line.unchanged(seq))
    }

    /// The run that begins with `chain[0]`, copied.
    #[inline]
    fn step(&self, chain: &[u64], copy: &mut Copy<'_>) -> Step {
        let mut disturbed = false;
        let found = self.heads.probe(chain[0], |run| {
            let line = self.lines.get(run as usize)?;
            match line.read() {
                Some(snapshot) if snapshot.shape.head == chain[0] && snapshot.shape.len > 0 => {
                    Some((run, line, snapshot))
                }
                Some(_) => None,
                None => {
                    disturbed = true;
                    None
                }
            }
        });
        let (run, line, snapshot) = match found {
            Probe::Hit(hit) => hit,
            Probe::Absent if !disturbed => return Step::Absent,
            Probe::Absent | Probe::Moved => return Step::Disturbed,
        };
        let matched = self.matched(&snapshot, chain);
        let copied = self.copy_cover(&snapshot, copy);
        if !copied || !line.unchanged(snapshot.seq) {
            return Step::Disturbed;
        }
        if !snapshot.touched && self.pressed.load(Ordering::Relaxed) {
            line.touch();
        }
        Step::Run(Hop { run, seq: snapshot.seq, len: snapshot.shape.len, matched })
    }

    /// How many blocks of a run, whose first block is `chain[0]`, the chain has.
    #[inline]
    fn matched(&self, snapshot: &Snapshot, chain: &[u64]) -> usize {
        let shape = snapshot.shape;
        let both = shape.len.min(chain.len());
        if both == shape.len && shape.tail == chain[both - 1] {
            return both;
        }
        let Some(blocks) = self.chain.slice(shape.base, both) else { return 1 };
        if both < shape.len && blocks[both - 1].load(Ordering::Relaxed) == chain[both - 1] {
            return both;
        }
        search(blocks, chain)
    }

    /// Copies who holds the run. False if that is no state of the run at all.
    #[inline]
    fn copy_cover(&self, snapshot: &Snapshot, copy: &mut Copy<'_>) -> bool {
        match snapshot.set() {
            Set::Inline(words) => {
                copy.hold.fill(0);
                for (word, set) in words {
                    if let Some(hold) = copy.hold.get_mut(word) {
                        *hold |= set;
                    }
                }
            }
            Set::Outside { list, words } => {
                let Some(words) = self.extras.slice(list.at, words) else { return false };
                copy.hold.fill(0);
                for (hold, word) in copy.hold.iter_mut().zip(words) {
                    *hold = word.load(Ordering::Relaxed);
                }
            }
        }
        copy.count = 0;
        let Some(Parts { list, count }) = snapshot.parts() else { return true };
        let Some(parts) = self.extras.slice(list.at, count) else { return false };
        copy.count = count;
        let parts = parts.iter().map(|part| part.load(Ordering::Relaxed));
        if count <= PARTS_INLINE {
            copy.parts.iter_mut().zip(parts).for_each(|(copy, part)| *copy = part);
        } else {
            copy.more.clear();
            copy.more.extend(parts);
        }
        true
    }

    /// How many blocks from `chain[from]` on, one after the other, `holder` has.
    pub(super) fn run_from(&self, state: &Mutex<State>, holder: u32, chain: &[u64], from: usize) -> usize {
        let words = self.words.load(Ordering::Acquire);
        let mut hold = vec![0; words];
        let mut copy = Copy { hold: &mut hold, parts: [0; PARTS_INLINE], more: Vec::new(), count: 0 };
        let mut retry = Retry { state, guard: None, tries: 0 };
        let (mut pos, mut end) = (0, from);
        let mut last: Option<(u32, u64)> = None;
        while pos < chain.len() {
            match self.step(&chain[pos..], &mut copy) {
                Step::Run(hop) => {
                    if pos + hop.matched > end {
                        let (start, stop) = copy.range(holder, hop.len);
                        if pos + start > end {
                            break;
                        }
                        end = end.max(pos + stop.min(hop.matched));
                        if end < pos + hop.matched {
                            break;
                        }
                    }
                    pos += hop.matched;
                    last = Some((hop.run, hop.seq));
                }
                Step::Absent if last.is_some_and(|(run, seq)| !self.is_unchanged(run, seq)) => {
                    if !retry.again() {
                        break;
                    }
                    (pos, last) = (0, None);
                }
                // Blocks that nobody has any more may lie before `from`: look where the next run begins.
                Step::Absent if pos < from => (pos, last) = (pos + 1, None),
                Step::Disturbed if retry.again() => {}
                Step::Absent | Step::Disturbed => break,
            }
        }
        end - from
    }
}

impl Copy<'_> {
    /// The stretch of a run of `len` blocks that `holder` has.
    fn range(&self, holder: u32, len: usize) -> (usize, usize) {
        if self.hold.get(holder as usize / 64).is_some_and(|word| word >> (holder % 64) & 1 == 1) {
            return (0, len);
        }
        (0..self.count)
            .map(|at| self.part(at))
            .find(|part| part.holder == holder)
            .map_or((0, 0), |part| (part.from, part.to))
    }
}

/// Counts disturbances, and takes the writer's lock when there are too many: then nothing disturbs any more. If
/// something does, a writer has panicked in the middle of a change, and what is known so far is the answer.
struct Retry<'a> {
    state: &'a Mutex<State>,
    guard: Option<MutexGuard<'a, State>>,
    tries: usize,
}

impl Retry<'_> {
    #[cold]
    fn again(&mut self) -> bool {
        self.tries += 1;
        if self.tries >= TRIES_MAX && self.guard.is_none() {
            self.guard = Some(self.state.lock().unwrap_or_else(PoisonError::into_inner));
        }
        std::hint::spin_loop();
        self.tries < 2 * TRIES_MAX
    }
}

/// How many of `blocks` are the first of `chain`, when the first is and the last is not.
fn search(blocks: &[AtomicU64], chain: &[u64]) -> usize {
    let equal = |at: usize| blocks[at].load(Ordering::Relaxed) == chain[at];
    let (mut low, mut high) = (1, blocks.len());
    while high - low > SCAN {
        let probe = |nth: usize| low + (high - low) * nth / FAN;
        let mut below = 0;
        for nth in 1..FAN {
            below += usize::from(equal(probe(nth) - 1));
        }
        let next = if below + 1 < FAN { probe(below + 1) - 1 } else { high };
        (low, high) = (probe(below), next.max(probe(below) + 1).min(high));
    }
    while low < high && equal(low) {
        low += 1;
    }
    low
}
