//! Lines of a data set for the targets of a comparison: in each place every target gets a line of the same lengths, as far as
//! the file has such lines.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::DataSet;

/// Which lines of a data set a run sends, and in which order; after the last comes the first.
#[derive(Debug, Clone)]
pub struct LineOrder {
    /// Numbers of lines, from 0; absent for all lines in the order of the file.
    lines: Option<Arc<[u32]>>,
    /// Which of them is sent first.
    first: u64,
}

impl LineOrder {
    /// All lines, in the order of the file.
    pub const FILE: Self = Self { lines: None, first: 0 };

    /// The same lines, beginning after the first `sent` of these.
    pub(crate) fn after(&self, sent: u64) -> Self {
        Self { lines: self.lines.clone(), first: self.first.wrapping_add(sent) }
    }

    /// Lines that are sent before the first comes again, of a file with `prompts`.
    pub(crate) fn distinct(&self, prompts: u64) -> u64 {
        self.lines.as_ref().map_or(prompts, |lines| lines.len() as u64)
    }

    /// The line of request `number`. It may lie beyond the last line, and then counts from the first.
    pub(crate) fn line(&self, number: u64) -> u64 {
        let place = number.wrapping_add(self.first);
        match &self.lines {
            None => place,
            Some(lines) => u64::from(lines[(place % lines.len() as u64) as usize]),
        }
    }
}

/// The lines of a data set, dealt to targets.
#[derive(Debug)]
pub(crate) struct Matched {
    /// By target, a line for each place.
    columns: Vec<Arc<[u32]>>,
    /// Places at which the lengths differ between targets.
    pub(crate) unequal: u64,
}

impl Matched {
    /// Deals the lines of `set` to `targets` targets, at least one. Lines of equal lengths (prompt, and output where the file
    /// says it) come to one place; what is left over of each length is dealt in the order of lengths. Places are in the order
    /// of the first of their lines, and up to `targets` - 1 of the lines are not dealt.
    pub(crate) fn new(set: &DataSet, targets: usize) -> Self {
        let mut by_lengths: BTreeMap<(u32, Option<u32>), Vec<u32>> = BTreeMap::new();
        for line in 0..set.prompts() {
            by_lengths
                .entry((set.prompt_tokens(line), set.output_tokens(line)))
                .or_default()
                .push(line as u32);
        }
        let (mut places, mut rest) = (Vec::new(), Vec::new());
        for lines in by_lengths.values() {
            let equal = lines.chunks_exact(targets);
            rest.extend_from_slice(equal.remainder());
            places.extend(equal.map(<[u32]>::to_vec));
        }
        let equal = places.len();
        places.extend(rest.chunks_exact(targets).map(<[u32]>::to_vec));
        if places.is_empty() {
            places.push(rest.iter().copied().cycle().take(targets).collect());
        }
        let unequal = (places.len() - equal) as u64;
        places.sort_by_key(|place| place.iter().min().copied());
        let columns = (0..targets).map(|target| places.iter().map(|place| place[target]).collect()).collect();
        Self { columns, unequal }
    }

    /// How many places there are; at least one.
    pub(crate) fn places(&self) -> u64 {
        self.columns[0].len() as u64
    }

    /// What a target sends from a place on.
    pub(crate) fn order(&self, target: usize, first: u64) -> LineOrder {
        LineOrder { lines: Some(Arc::clone(&self.columns[target])), first }
    }
}

#[cfg(test)]
mod tests;
