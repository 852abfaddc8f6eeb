use std::collections::VecDeque;
use std::future::{pending, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tito_types::EngineError;

use crate::Control;

/// Takes orders as a test tells it to, and remembers them.
#[derive(Debug, Clone, Default)]
pub struct FakeControl(Arc<Mutex<Orders>>);

#[derive(Debug, Default)]
struct Orders {
    paused: bool,
    seen: Vec<&'static str>,
    failing: VecDeque<EngineError>,
    hangs: bool,
}

impl FakeControl {
    /// Every order so far.
    pub fn seen(&self) -> Vec<&'static str> {
        self.orders().seen.clone()
    }

    /// Whether it is paused.
    pub fn paused(&self) -> bool {
        self.orders().paused
    }

    /// Pauses it, as somebody else would.
    pub fn pause(&self) {
        self.orders().paused = true;
    }

    /// The next order fails so, or the one after it where that one is to fail already; questions never do.
    pub fn fail(&self, error: EngineError) {
        self.orders().failing.push_back(error);
    }

    /// The next order is carried out and never answered.
    pub fn hang(&self) {
        self.orders().hangs = true;
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, name: &'static str, pauses: bool) -> BoxFuture<'_, Result<(), EngineError>> {
        let mut orders = self.orders();
        orders.seen.push(name);
        let failed = orders.failing.pop_front();
        if failed.is_none() {
            orders.paused = pauses;
        }
        if std::mem::take(&mut orders.hangs) {
            return pending().boxed();
        }
        ready(failed.map_or(Ok(()), Err)).boxed()
    }
}

impl Control for FakeControl {
    fn is_paused(&self) -> BoxFuture<'_, Result<bool, EngineError>> {
        ready(Ok(self.paused())).boxed()
    }

    fn pause_and_clear(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.order("pause and clear", true)
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.order("resume", false)
    }
}
