//! The signals of the process, turned into triggers.
//!
//! It must not know what shutting down or reading again involves.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;

use crate::{ReloadTrigger, Trigger};

/// The process's signals, taken over from their defaults. For the binary only: signals belong to the process.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Takes over SIGTERM, SIGINT and SIGHUP. Needs a running runtime; fails where the operating system refuses.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Turns signals into triggers for ever: SIGTERM and SIGINT shut down (each further one skips a stage), SIGHUP
    /// reads files again.
    pub async fn forward(mut self, shutdown: Trigger, reload: ReloadTrigger) {
        loop {
            tokio::select! {
                Some(()) = self.terminate.recv() => shutdown.fire("SIGTERM"),
                Some(()) = self.interrupt.recv() => shutdown.fire("SIGINT"),
                Some(()) = self.hangup.recv() => {
                    info!("SIGHUP: reading files again");
                    reload.fire();
                }
                else => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
