/// Bytes on their way to a client, in as many pieces as it takes not to copy large ones.
#[derive(Debug, Default)]
pub struct Segments {
    parts: Vec<Vec<u8>>,
    tail: Vec<u8>,
}

/// Smaller values are copied into the running piece: one write beats two.
const OWN_SEGMENT_BYTES_MIN: usize = 16 * 1024;

impl Segments {
    /// The piece being written.
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// Appends a value that may be large; a large one is moved, not copied.
    pub fn append(&mut self, bytes: Vec<u8>) {
        if bytes.len() < OWN_SEGMENT_BYTES_MIN {
            self.tail.extend_from_slice(&bytes);
        } else {
            let tail = std::mem::take(&mut self.tail);
            self.parts.extend((!tail.is_empty()).then_some(tail));
            self.parts.push(bytes);
        }
    }

    /// Total length in bytes.
    pub fn len(&self) -> usize {
        self.parts.iter().map(Vec::len).sum::<usize>() + self.tail.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pieces in order; none is empty.
    pub fn into_parts(mut self) -> Vec<Vec<u8>> {
        self.parts.extend((!self.tail.is_empty()).then_some(self.tail));
        self.parts
    }
}

#[cfg(test)]
mod tests;
