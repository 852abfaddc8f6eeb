//! A value made from files, replaced as a whole when the files are read again.
//!
//! It must not know what the files hold, or which signal asks for them to be read.

use std::sync::Arc;

use tito_runtime::{Chain, OnError, Reload, Tasks};
use tokio::sync::watch;
use tracing::{error, info};

use crate::error::Error;
use crate::metrics::ReloadMetrics;

/// The value in force. Cheap to clone; every clone sees the newest value.
#[derive(Debug)]
pub(crate) struct Reloadable<T>(watch::Receiver<Arc<T>>);

impl<T: Send + Sync + 'static> Reloadable<T> {
    /// A value that never changes.
    pub(crate) fn fixed(value: T) -> Self {
        Self(watch::channel(Arc::new(value)).1)
    }

    /// Reads the files now, and again at every request of `reload`. Files that cannot be used are an error now; later
    /// they change nothing, and the log and `metrics` say so. `what` names the files in the log.
    pub(crate) fn try_new(
        what: &'static str,
        read: impl Fn() -> Result<T, Error> + Clone + Send + 'static,
        mut reload: Reload,
        tasks: &Tasks,
        metrics: ReloadMetrics,
    ) -> Result<Self, Error> {
        let (current, value) = watch::channel(Arc::new(read()?));
        let readers = tasks.clone();
        tasks.spawn("reload", OnError::Stop, async move {
            loop {
                reload.requested().await;
                match readers.spawn_blocking("read files", read.clone()).await? {
                    Ok(value) => {
                        current.send_replace(Arc::new(value));
                        metrics.reloaded();
                        info!("{what} reloaded");
                    }
                    Err(error) => {
                        metrics.failed();
                        error!(error = %Chain(&error), "{what} not reloaded, the old value stays");
                    }
                }
            }
        });
        Ok(Self(value))
    }

    /// The value in force now.
    pub(crate) fn current(&self) -> Arc<T> {
        Arc::clone(&self.0.borrow())
    }
}

impl<T> Clone for Reloadable<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
