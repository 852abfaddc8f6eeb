//! The wish that files be read again, from whoever hears the signal to whoever holds a file.
//!
//! It must not know which files there are.

use std::future;

use tokio::sync::watch;

/// Asks for files to be read again. Several requests before anyone looks count as one.
#[derive(Debug, Clone)]
pub struct ReloadTrigger(watch::Sender<u64>);

/// Hears requests to read files again.
#[derive(Debug, Clone)]
pub struct Reload(watch::Receiver<u64>);

/// A pair: one end for the signal handler, clones of the other for whoever holds a file.
pub fn reload() -> (ReloadTrigger, Reload) {
    let (sender, receiver) = watch::channel(0);
    (ReloadTrigger(sender), Reload(receiver))
}

impl ReloadTrigger {
    /// Asks once.
    pub fn fire(&self) {
        self.0.send_modify(|requests| *requests += 1);
    }
}

impl Reload {
    /// Resolves at the next request not yet seen by this clone; never when nobody can ask any more. Cancel-safe.
    pub async fn requested(&mut self) {
        if self.0.changed().await.is_err() {
            future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests;
