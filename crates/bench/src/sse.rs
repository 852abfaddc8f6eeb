//! An incremental parser of server-sent events.
//!
//! It takes bytes as they come and gives the same events however they were split: lines may end in LF, CR LF or CR,
//! even with the two in different pieces. It keeps only what the checks need (event name and data) and does not know
//! what the data means; in particular `[DONE]` is an event like any other here.

/// One complete event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    /// The `event:` field; empty when there was none.
    pub(crate) name: &'a [u8],
    /// The `data:` lines, joined with line feeds.
    pub(crate) data: &'a [u8],
}

/// A single event, or a line of one, exceeded the parser's bound.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// The state between two pieces of a stream.
#[derive(Debug)]
pub(crate) struct Parser {
    event_bytes_max: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    /// A `data:` line was seen since the last event; its data may be empty.
    data_seen: bool,
    /// The last byte ended a line with CR, so a LF right after it belongs to that line end.
    after_cr: bool,
    /// Nothing but a byte-order mark may come before the first line.
    first_line: bool,
}

impl Parser {
    /// A parser that holds at most `event_bytes_max` bytes of one event.
    pub(crate) fn new(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            data_seen: false,
            after_cr: false,
            first_line: true,
        }
    }

    /// Takes the next piece and calls `on_event` for each event it completes. The first failure, the parser's own or
    /// the callback's, ends the parse; the parser is of no use after it.
    pub(crate) fn push<E: From<TooLarge>>(
        &mut self,
        mut piece: &[u8],
        mut on_event: impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !piece.is_empty() {
            if std::mem::take(&mut self.after_cr) && piece[0] == b'\n' {
                piece = &piece[1..];
                continue;
            }
            let Some(end) = piece.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return Ok(self.hold(piece)?);
            };
            self.after_cr = piece[end] == b'\r';
            if self.line.is_empty() {
                self.end_line(&piece[..end], &mut on_event)?;
            } else {
                self.hold(&piece[..end])?;
                let line = std::mem::take(&mut self.line);
                self.end_line(&line, &mut on_event)?;
                self.line = line;
                self.line.clear();
            }
            piece = &piece[end + 1..];
        }
        Ok(())
    }

    /// True when the stream may end here without cutting an event in two.
    pub(crate) fn is_between_events(&self) -> bool {
        self.line.is_empty() && !self.data_seen && self.name.is_empty()
    }

    fn hold(&mut self, part: &[u8]) -> Result<(), TooLarge> {
        self.check_size(self.line.len() + part.len())?;
        self.line.extend_from_slice(part);
        Ok(())
    }

    /// The one size check. It counts whole lines, so that a split does not change where it strikes.
    fn check_size(&self, line_bytes: usize) -> Result<(), TooLarge> {
        if line_bytes + self.data.len() > self.event_bytes_max { Err(TooLarge) } else { Ok(()) }
    }

    fn end_line<E: From<TooLarge>>(
        &mut self,
        line: &[u8],
        on_event: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check_size(line.len())?;
        let first_line = std::mem::take(&mut self.first_line);
        let line = if first_line { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        if line.is_empty() {
            return self.end_event(on_event);
        }
        let (field, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if std::mem::replace(&mut self.data_seen, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            _ => (), // a comment (empty field), an id, a retry time, or a field of the future
        }
        Ok(())
    }

    fn end_event<E>(&mut self, on_event: &mut impl FnMut(Event<'_>) -> Result<(), E>) -> Result<(), E> {
        let result =
            if self.data_seen { on_event(Event { name: &self.name, data: &self.data }) } else { Ok(()) };
        self.data_seen = false;
        self.data.clear();
        self.name.clear();
        result
    }
}

#[cfg(test)]
mod tests;
