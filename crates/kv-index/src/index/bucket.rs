//! A bucket of a hash table in one cache line, with a byte of each key beside the entries.

/// Entries of a bucket.
pub(super) const ENTRIES: usize = 7;
/// The lowest bit of each entry's mark.
const LOWEST: u64 = 0x0001_0101_0101_0101;
const MARK: u64 = 0xFF;
/// Where a bucket counts the entries that passed it.
const PASSED_SHIFT: u32 = 56;
/// At this value the count is no longer exact, so it is never lowered.
const PASSED_MAX: u64 = 0xFF;

/// A cache line: what is asked of it is asked of all its entries at once, with no decision per entry.
#[derive(Clone, Default)]
#[repr(align(64))]
pub(super) struct Bucket {
    /// A byte of each entry's name, never 0, from the lowest byte on and without a gap; in the top byte how many entries
    /// found this bucket full and are in one of the next.
    marks: u64,
    entries: [u64; ENTRIES],
}

impl Bucket {
    fn used(&self) -> usize {
        let marks = self.marks & !(PASSED_MAX << PASSED_SHIFT);
        // The highest bit of a mark is set.
        8 - marks.leading_zeros() as usize / 8
    }

    pub(super) fn passed(&self) -> u64 {
        self.marks >> PASSED_SHIFT
    }

    /// Notes an entry that found no room here.
    pub(super) fn pass(&mut self) {
        self.marks += u64::from(self.passed() < PASSED_MAX) << PASSED_SHIFT;
    }

    /// One of those that found no room here is gone.
    pub(super) fn unpass(&mut self) {
        self.marks -= u64::from(self.passed() < PASSED_MAX) << PASSED_SHIFT;
    }

    /// Positions and entries whose mark equals this one. An entry after such a one may be among them whose mark differs: the
    /// caller compares tags.
    #[inline]
    pub(super) fn alike(&self, mark: u8) -> impl Iterator<Item = (usize, u64)> {
        let differ = self.marks ^ (LOWEST * u64::from(mark));
        let mut alike = differ.wrapping_sub(LOWEST) & !differ & (LOWEST << 7);
        std::iter::from_fn(move || {
            let at = (alike != 0).then(|| alike.trailing_zeros() as usize / 8)?;
            alike &= alike - 1;
            Some((at, self.entries[at]))
        })
    }

    /// Marks and entries.
    pub(super) fn each(&self) -> impl Iterator<Item = (u8, u64)> {
        let mark = |at| (self.marks >> (8 * at)) as u8;
        self.entries[..self.used()].iter().enumerate().map(move |(at, &entry)| (mark(at), entry))
    }

    /// Some word of the line: to have it in the cache.
    pub(super) fn word(&self) -> u64 {
        self.marks
    }

    /// Adds an entry; false if there is no room.
    #[inline]
    pub(super) fn push(&mut self, mark: u8, entry: u64) -> bool {
        let used = self.used();
        let Some(free) = self.entries.get_mut(used) else { return false };
        *free = entry;
        self.marks |= u64::from(mark) << (8 * used);
        true
    }

    /// Takes out the entry at `at`; the last one takes its place.
    pub(super) fn take(&mut self, at: usize) {
        let last = self.used() - 1;
        let mark = self.marks >> (8 * last) & MARK;
        self.marks = self.marks & !(MARK << (8 * at)) | mark << (8 * at);
        self.marks &= !(MARK << (8 * last));
        self.entries[at] = self.entries[last];
    }
}
