//! Bytes that all requests together may hold.
//!
//! It must not know what the bytes are: it counts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that all requests together may hold.
#[derive(Debug)]
pub(crate) struct Budget {
    free_bytes: AtomicUsize,
}

/// What one request holds of it; dropping it is the only way to give it back.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { free_bytes: AtomicUsize::new(bytes) })
    }

    /// A share of nothing yet.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { budget: Arc::clone(self), bytes: 0 }
    }

    #[cfg(test)]
    pub(crate) fn free_bytes(&self) -> usize {
        self.free_bytes.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Takes so many bytes more, or nothing when fewer are free.
    #[must_use]
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let taken = self
            .budget
            .free_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(bytes))
            .is_ok();
        self.bytes += if taken { bytes } else { 0 };
        taken
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.free_bytes.fetch_add(self.bytes, Ordering::Relaxed);
    }
}
