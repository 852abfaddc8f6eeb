//! One line of JSON per request, written to a file while the run goes on.
//!
//! A thread of its own writes, so that a slow disk does not make the generator late. Between the two is a bounded queue; a
//! line that finds it full is lost and counted, because waiting would change the load.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::caller::Call;
use crate::latency::Latencies;
use crate::progress::{Progress, Total};
use crate::stats::{Found, Start};
use crate::times::Sample;

/// Lines that wait for the disk; each has some hundred bytes.
const QUEUE_LINES_MAX: usize = 16_384;

/// One measured request. Times in seconds are from the start of the run, those in milliseconds are durations; what was
/// not seen is null.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RequestRecord<'a> {
    /// The target's name; in a comparison with the round.
    pub target: &'a str,
    /// Number of the request, in sending order.
    pub number: u64,
    /// When it was due; latencies count from here.
    pub due_s: f64,
    /// When it was sent.
    pub sent_s: f64,
    /// When it ended.
    pub ended_s: f64,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens of its reply; null when it failed.
    pub output_tokens: Option<u32>,
    /// Events with output, those before a failure included; 0 for a unary reply.
    pub output_events: usize,
    /// Time to the first output.
    pub ttft_ms: Option<f64>,
    /// Longest gap between two events with output.
    pub itl_event_ms_max: Option<f64>,
    /// Mean time per output token after the first event; null when it failed.
    pub tpot_ms: Option<f64>,
    /// Time to the end of the reply, or to the failure.
    pub e2e_ms: f64,
    /// It got a right reply within the limits of goodput, if there are any.
    pub good: bool,
    /// It was due in the steady window.
    pub steady: bool,
    /// The kind of failure; null for a right reply.
    pub failure: Option<&'a str>,
    /// The failure in words.
    pub detail: Option<&'a str>,
}

/// One request with all that was found out about it.
pub(crate) struct Ended<'a> {
    pub(crate) target: &'a str,
    pub(crate) number: u64,
    pub(crate) begin: Instant,
    pub(crate) start: Start,
    pub(crate) call: &'a Call,
    pub(crate) found: Found,
}

impl<'a> Ended<'a> {
    /// Its record; `failure` is the name of the failure's kind.
    pub(crate) fn record(&self, failure: Option<&'a str>) -> RequestRecord<'a> {
        let Self { target, number, begin, start, call, found } = *self;
        let Found { latencies: Latencies { ttft, tpot, e2e, gap_max }, good, steady } = found;
        let since_begin = |at: Instant| (at - begin).as_secs_f64();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let known = |sample| match sample {
            Some(Sample::Known(time)) => Some(ms(time)),
            Some(Sample::AtLeast(_)) | None => None,
        };
        let (Sample::Known(e2e) | Sample::AtLeast(e2e)) = e2e;
        RequestRecord {
            target,
            number,
            due_s: since_begin(start.due),
            sent_s: since_begin(start.sent),
            ended_s: since_begin(call.ended),
            prompt_tokens: call.prompt_tokens,
            output_tokens: call.result.as_ref().ok().copied(),
            output_events: call.outputs.len(),
            ttft_ms: known(ttft),
            itl_event_ms_max: gap_max.map(ms),
            tpot_ms: known(tpot),
            e2e_ms: ms(e2e),
            good,
            steady,
            failure,
            detail: call.result.as_ref().err().map(|failure| failure.detail.as_str()),
        }
    }
}

/// Why an export is not complete.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file could not be written.
    #[error("cannot write the export")]
    Write(#[source] io::Error),
    /// The disk was slower than the run.
    #[error("the export lacks {0} requests: the disk was slower than the run")]
    Lost(u64),
}

/// A file that takes a line per request. It passes on what it hears of the run.
pub struct Export {
    progress: Arc<dyn Progress>,
    queue: SyncSender<Message>,
    lost: AtomicU64,
}

/// The thread behind an [`Export`].
#[derive(Debug)]
pub struct ExportWriter(JoinHandle<io::Result<()>>);

enum Message {
    Text(String),
    /// Nothing comes after it.
    End,
}

impl Export {
    /// Opens or creates the file. It is emptied with the first line, or at the end: a run that cannot begin leaves it as it
    /// is. Give the export to the run as its progress, and end it with [`Export::finish`].
    pub fn create(path: &Path, progress: Arc<dyn Progress>) -> io::Result<(Arc<Self>, ExportWriter)> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        let (queue, lines) = sync_channel(QUEUE_LINES_MAX);
        let writer = std::thread::Builder::new().name("export".to_owned());
        let writer = writer.spawn(move || write(BufWriter::new(file), &lines))?;
        Ok((Arc::new(Self { progress, queue, lost: AtomicU64::new(0) }), ExportWriter(writer)))
    }

    /// Waits until all lines are in the file. Call it after the run; what is recorded later is not written.
    pub fn finish(&self, writer: ExportWriter) -> Result<(), ExportError> {
        // A writer that has ended already says why below.
        let _ = self.queue.send(Message::End);
        let written = writer.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written.map_err(ExportError::Write)?;
        match self.lost.load(Relaxed) {
            0 => Ok(()),
            lost => Err(ExportError::Lost(lost)),
        }
    }
}

impl Progress for Export {
    fn begin(&self, phase: &str, total: Total) {
        self.progress.begin(phase, total);
    }

    fn finished(&self, succeeded: bool) {
        self.progress.finished(succeeded);
    }

    fn measured(&self, record: &RequestRecord<'_>) {
        let line = serde_json::to_string(record).expect("a record is numbers and texts");
        if self.queue.try_send(Message::Text(line)).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
        self.progress.measured(record);
    }

    fn end(&self) {
        self.progress.end();
    }
}

/// Writes until the end, or until every sender is gone; flushes whenever there is nothing to do.
fn write(mut file: BufWriter<File>, lines: &Receiver<Message>) -> io::Result<()> {
    let mut emptied = false;
    loop {
        let line = match lines.try_recv() {
            Ok(line) => Some(line),
            Err(TryRecvError::Empty) => {
                file.flush()?;
                lines.recv().ok()
            }
            Err(TryRecvError::Disconnected) => None,
        };
        if line.is_some() && !emptied {
            empty(file.get_ref())?;
            emptied = true;
        }
        match line {
            Some(Message::Text(line)) => writeln!(file, "{line}")?,
            Some(Message::End) | None => return file.flush(),
        }
    }
}

/// Only files have a length: a pipe or a device has none.
fn empty(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
