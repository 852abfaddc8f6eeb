//! Stop strings over growing text.

/// A stop string that was completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StopMatch {
    /// Which stop string.
    pub(crate) index: usize,
    /// Where the text ends now, in bytes.
    pub(crate) text_end: usize,
}

/// The stop strings of a request. None is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StopStrings {
    strings: Vec<String>,
    include: bool,
    longest_chars: usize,
}

impl StopStrings {
    pub(crate) fn new(strings: Vec<String>, include: bool) -> Self {
        let longest_chars = strings.iter().map(|string| string.chars().count()).max().unwrap_or(0);
        Self { strings, include, longest_chars }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }

    pub(crate) fn get(&self, index: usize) -> &str {
        &self.strings[index]
    }

    /// Looks for a stop string that ends after the first `seen` bytes. The one that is complete first wins, then
    /// the first in the list.
    pub(crate) fn find(&self, text: &str, seen: usize) -> Option<StopMatch> {
        let hit = |(index, stop): (usize, &String)| {
            let mut from = (seen + 1).saturating_sub(stop.len());
            while !text.is_char_boundary(from) {
                from += 1;
            }
            let start = from + text[from..].find(stop.as_str())?;
            Some((start + stop.len(), index, start))
        };
        let (end, index, start) = self.strings.iter().enumerate().filter_map(hit).min()?;
        Some(StopMatch { index, text_end: if self.include { end } else { start } })
    }

    /// How many bytes at the end of the text could still be the start of a stop string and must wait.
    pub(crate) fn held_back(&self, text: &str) -> usize {
        if self.include || self.longest_chars < 2 {
            return 0;
        }
        let chars = self.longest_chars - 1;
        text.char_indices().rev().take(chars).last().map_or(0, |(start, _)| text.len() - start)
    }
}
