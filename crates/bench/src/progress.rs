//! Showing that a run moves.

use std::io::{IsTerminal as _, stderr};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::export::RequestRecord;

/// Told about the run as it goes. Called from the loop that sends, so an implementation must not block.
pub trait Progress: Send + Sync {
    /// A phase of the run begins.
    fn begin(&self, phase: &str, total: Total);
    /// One request ended, well or not.
    fn finished(&self, succeeded: bool);
    /// One request of the measured phase ended, with all that was measured of it. Comes before its [`Progress::finished`].
    fn measured(&self, _record: &RequestRecord<'_>) {}
    /// The phase is over.
    fn end(&self);
}

/// How long a phase will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    /// Until this many requests have ended.
    Requests(u64),
    /// For this time.
    Time(Duration),
}

/// Shows nothing.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _phase: &str, _total: Total) {}
    fn finished(&self, _succeeded: bool) {}
    fn end(&self) {}
}

/// A bar on stderr; silent when asked for, or when stderr is not a terminal.
pub fn bar(quiet: bool) -> Arc<dyn Progress> {
    if quiet || !stderr().is_terminal() { Arc::new(Silent) } else { Arc::new(Bar(Mutex::default())) }
}

/// The bar of the phase that runs.
struct Bar(Mutex<Option<Phase>>);

struct Phase {
    bar: ProgressBar,
    total: Total,
    failed: u64,
}

impl Progress for Bar {
    fn begin(&self, phase: &str, total: Total) {
        let (length, position) = match total {
            Total::Requests(requests) => (requests, "{pos}/{len} requests"),
            Total::Time(time) => (time.as_millis() as u64, "{elapsed}"),
        };
        let template = format!("{{prefix}} [{{wide_bar}}] {position} {{msg}}");
        let style = ProgressStyle::with_template(&template).expect("the template is one of two constants");
        let bar =
            ProgressBar::new(length).with_style(style.progress_chars("=> ")).with_prefix(phase.to_owned());
        *self.0.lock().expect("no holder panics") = Some(Phase { bar, total, failed: 0 });
    }

    fn finished(&self, succeeded: bool) {
        let mut phase = self.0.lock().expect("no holder panics");
        let Some(phase) = phase.as_mut() else { return };
        if !succeeded {
            phase.failed += 1;
            phase.bar.set_message(format!("{} failed", phase.failed));
        }
        match phase.total {
            Total::Requests(_) => phase.bar.inc(1),
            Total::Time(_) => phase.bar.set_position(phase.bar.elapsed().as_millis() as u64),
        }
    }

    fn end(&self) {
        if let Some(phase) = self.0.lock().expect("no holder panics").take() {
            phase.bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests;
