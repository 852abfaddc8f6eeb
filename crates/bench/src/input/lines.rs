//! A file of one JSON object a line, with bounds.

use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// Longest line, in bytes: a prompt of ten million ids.
const LINE_BYTES_MAX: u64 = 128 << 20;
/// Most lines of one file.
pub(super) const LINES_MAX: usize = 4 << 20;
/// What is shown of a parser's words, in characters.
const MESSAGE_CHARS_MAX: usize = 200;

/// Why a file of requests cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It holds no request.
    #[error("{}: holds no request", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A line is wrong.
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

/// Reads the first `lines` lines, or all, and gives each to `take`, which says what is wrong with it. Empty lines are
/// passed over.
pub(super) fn read<T: DeserializeOwned>(
    path: &Path,
    lines: Option<u64>,
    take: impl FnMut(T) -> Result<(), String>,
) -> Result<(), InputError> {
    let file = std::fs::File::open(path);
    let file = file.map_err(|source| InputError::Read { path: path.to_owned(), source })?;
    parse(BufReader::new(file), path, lines, take)
}

pub(super) fn parse<T: DeserializeOwned>(
    mut text: impl BufRead,
    path: &Path,
    lines: Option<u64>,
    mut take: impl FnMut(T) -> Result<(), String>,
) -> Result<(), InputError> {
    let wanted = lines.unwrap_or(u64::MAX);
    let (mut buffer, mut line, mut taken) = (Vec::new(), 0, 0);
    while taken < wanted {
        line += 1;
        let wrong = |reason: String| InputError::Line { path: path.to_owned(), line, reason };
        buffer.clear();
        let read = (&mut text).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut buffer);
        let bytes = read.map_err(|source| InputError::Read { path: path.to_owned(), source })?;
        if bytes == 0 {
            break;
        }
        if bytes as u64 > LINE_BYTES_MAX {
            return Err(wrong(format!("longer than {LINE_BYTES_MAX} bytes")));
        }
        if line > LINES_MAX {
            return Err(wrong(format!("more than {LINES_MAX} lines; use a part of the file")));
        }
        let row = buffer.trim_ascii();
        if row.is_empty() {
            continue;
        }
        take(object(row).map_err(wrong)?).map_err(wrong)?;
        taken += 1;
    }
    if taken == 0 { Err(InputError::Empty { path: path.to_owned() }) } else { Ok(()) }
}

fn object<T: DeserializeOwned>(row: &[u8]) -> Result<T, String> {
    // A list of the members in their order would parse as well.
    if row.first() != Some(&b'{') {
        return Err("a line must be a JSON object".to_owned());
    }
    serde_json::from_slice(row).map_err(|error| {
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = message.strip_suffix(&place).unwrap_or(&message);
        let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
        format!("column {}: {message}", error.column())
    })
}

#[cfg(test)]
mod tests;
