//! Who holds a run: holders of all its blocks as a bit set, holders of one stretch of it as a list.

/// A holder of the blocks `from..to` of a run, and of no other of its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) holder: u32,
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Part {
    #[inline]
    pub(super) fn pack(self) -> u64 {
        u64::from(self.holder) << 32 | (self.from as u64) << 16 | self.to as u64
    }

    #[inline]
    pub(super) fn unpack(word: u64) -> Self {
        Self {
            holder: (word >> 32) as u32,
            from: (word >> 16 & 0xFFFF) as usize,
            to: (word & 0xFFFF) as usize,
        }
    }
}

/// The writer's working copy of a run's holders.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Cover {
    /// Holders of every block, 64 per word; the last word is not zero.
    pub(super) whole: Vec<u64>,
    pub(super) parts: Vec<Part>,
}

/// The bits of `word`, as numbers.
pub(super) fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(bit)
    })
}

impl Cover {
    pub(super) fn clear(&mut self) {
        self.whole.clear();
        self.parts.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.parts.is_empty()
    }

    /// The stretch `holder` has of a run of `len` blocks; `(0, 0)` for none.
    pub(super) fn range(&self, holder: u32, len: usize) -> (usize, usize) {
        if self.whole.get(holder as usize / 64).is_some_and(|word| word >> (holder % 64) & 1 == 1) {
            return (0, len);
        }
        self.parts.iter().find(|part| part.holder == holder).map_or((0, 0), |part| (part.from, part.to))
    }

    /// Gives `holder` exactly `from..to` of a run of `len` blocks.
    pub(super) fn set(&mut self, holder: u32, from: usize, to: usize, len: usize) {
        let word = holder as usize / 64;
        let bit = 1 << (holder % 64);
        if from == 0 && to == len && to > 0 {
            if self.whole.len() <= word {
                self.whole.resize(word + 1, 0);
            }
            self.whole[word] |= bit;
        } else if let Some(word) = self.whole.get_mut(word) {
            *word &= !bit;
            while self.whole.last() == Some(&0) {
                self.whole.pop();
            }
        }
        let at = self.parts.iter().position(|part| part.holder == holder);
        let part = (from < to && !(from == 0 && to == len)).then_some(Part { holder, from, to });
        match (at, part) {
            (Some(at), Some(part)) => self.parts[at] = part,
            (Some(at), None) => {
                self.parts.swap_remove(at);
            }
            (None, Some(part)) => self.parts.push(part),
            (None, None) => {}
        }
    }

    /// Every holder with its stretch, for a run of `len` blocks.
    pub(super) fn each(&self, len: usize) -> impl Iterator<Item = Part> {
        let whole = self.whole.iter().enumerate().flat_map(move |(word, &set)| {
            bits(set).map(move |bit| Part { holder: word as u32 * 64 + bit, from: 0, to: len })
        });
        whole.chain(self.parts.iter().copied())
    }

    /// The part of this cover, of a run of `len` blocks, that lies in `from..to`, seen from `from`.
    pub(super) fn cut(&self, len: usize, from: usize, to: usize) -> Self {
        let mut cut = Self { whole: self.whole.clone(), parts: Vec::new() };
        debug_assert!(to <= len, "a cut lies inside the run");
        for part in &self.parts {
            let (start, end) = (part.from.clamp(from, to) - from, part.to.clamp(from, to) - from);
            cut.set(part.holder, start, end, to - from);
        }
        cut
    }

    /// Whether `holder` holds every block and nobody else does.
    pub(super) fn is_whole_only(&self, holder: u32) -> bool {
        let word = holder as usize / 64;
        self.whole.len() == word + 1
            && self.whole[word] == 1 << (holder % 64)
            && self.whole[..word].iter().all(|&word| word == 0)
    }
}
