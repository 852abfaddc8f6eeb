//! Lets the HTTP library begin its tasks where all tasks begin.
//!
//! It must not decide when they end: that is their connection's affair.

use std::future::Future;

use hyper::rt::Executor;
use tito_runtime::Tasks;

/// Runs the streams of HTTP/2 connections as tasks that are accounted for.
#[derive(Clone)]
pub(super) struct TaskExecutor(pub(super) Tasks);

impl<F> Executor<F> for TaskExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        // It ends with its connection, which is waited for.
        drop(self.0.spawn_owned("h2 stream", stream));
    }
}
