//! Reading a trace. A mistake in it is named by file and line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use anyhow::{Context as _, anyhow, bail, ensure};
use tito_replay::TraceRequest;

use crate::args::REQUESTS_MAX;

/// Longest line (bytes).
const LINE_BYTES_MAX: u64 = 4 << 20;
/// Block ids of all requests together.
const IDS_MAX: usize = 1 << 26;
/// What is shown of a parser's words (characters).
const MESSAGE_CHARS_MAX: usize = 200;

/// The first `requests` of a file, or all. The request at an index is on the line with that number and one.
pub(super) fn read(
    path: &Path,
    requests: Option<u32>,
    block_tokens: u32,
) -> anyhow::Result<Vec<TraceRequest>> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("{shown}"))?;
    parse(BufReader::new(file), requests, block_tokens, &shown.to_string())
}

fn parse(
    mut text: impl BufRead,
    requests: Option<u32>,
    block_tokens: u32,
    name: &str,
) -> anyhow::Result<Vec<TraceRequest>> {
    let wanted = requests.unwrap_or(REQUESTS_MAX) as usize;
    let (mut trace, mut line, mut ids) = (Vec::new(), Vec::new(), 0);
    while trace.len() < wanted {
        let place = || format!("{name}:{}", trace.len() + 1);
        line.clear();
        let bytes = (&mut text).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line).with_context(place)?;
        if bytes == 0 {
            return Ok(trace);
        }
        ensure!(bytes as u64 <= LINE_BYTES_MAX, "{}: longer than {LINE_BYTES_MAX} bytes", place());
        let row = line.strip_suffix(b"\n").unwrap_or(&line);
        let request = request(row).map_err(|error| anyhow!("{}{error}", place()))?;
        fits(&request, block_tokens).with_context(place)?;
        ids += request.hash_ids.len() + request.output_hash_ids.as_ref().map_or(0, Vec::len);
        ensure!(
            ids <= IDS_MAX,
            "{}: more than {IDS_MAX} ids up to here; --requests N replays fewer",
            place()
        );
        trace.push(request);
    }
    if requests.is_none() && !text.fill_buf().with_context(|| name.to_owned())?.is_empty() {
        bail!("{name}: more than {REQUESTS_MAX} requests; --requests N replays the first N");
    }
    Ok(trace)
}

/// One line; the error begins with the column, if there is one.
fn request(line: &[u8]) -> Result<TraceRequest, String> {
    // A list of the members in their order would parse as well.
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(": a line must be a JSON object".to_owned());
    }
    serde_json::from_slice(line).map_err(|error| {
        let (row, column) = (error.line(), error.column());
        let message = error.to_string();
        let message = message.strip_suffix(&format!(" at line {row} column {column}")).unwrap_or(&message);
        format!(":{column}: {}", message.chars().take(MESSAGE_CHARS_MAX).collect::<String>())
    })
}

/// Ids must stand for whole prompts, or the numbers would be wrong without anyone noticing.
fn fits(request: &TraceRequest, block_tokens: u32) -> anyhow::Result<()> {
    let (ids, tokens) = (request.hash_ids.len(), request.input_length);
    let (full, all) = (tokens / block_tokens, tokens.div_ceil(block_tokens));
    ensure!(
        (full as usize..=all as usize).contains(&ids),
        "{ids} ids for {tokens} prompt tokens, which are {all} blocks of {block_tokens}; is --trace-block-size right?"
    );
    if let Some(output_ids) = &request.output_hash_ids {
        let sum = u64::from(tokens) + u64::from(request.output_length.max(1));
        let block = u64::from(block_tokens);
        let (least, most) = (sum / block - u64::from(full), sum.div_ceil(block) - u64::from(full));
        ensure!(
            (least..=most).contains(&(output_ids.len() as u64)),
            "{} ids in output_hash_ids, but prompt and output have {most} blocks of {block_tokens} after the prompt's full ones",
            output_ids.len()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
