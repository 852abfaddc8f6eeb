//! The waist: everything meets in [`Engine`] and [`TokenStream`].
//!
//! Adapters implement [`Engine`]; layers wrap one engine in another; the frontend holds one [`BoxEngine`] and knows
//! nothing below it. [`Connector`] is how the fleet reaches an engine and learns that it is gone, [`Control`] what it can tell
//! it besides requests.
//! This crate must not know protocols, HTTP or configuration.

mod connector;
mod erased;
#[cfg(any(test, feature = "test-util"))]
pub mod fake;
mod merge;
mod open;
mod places;
mod stream;

pub use connector::{
    AdapterFeed, Connection, Connector, Control, KvFeed, LOAD_EVERY, LoadFeed, LoadNews, Lost,
};
pub use erased::BoxEngine;
pub use merge::{lazy, merge};
pub use open::open;
pub use places::Places;
pub use stream::TokenStream;

use std::future::Future;

use tito_types::{EngineError, GenerateRequest};

/// Turns tokens into tokens.
///
/// Dropping the returned future, or the stream it resolves to, aborts the request at the engine, running or queued.
pub trait Engine: Send + Sync + 'static {
    /// Starts one request. Resolves once the engine has accepted it (or, for whole delivery, finished it).
    fn generate(
        &self,
        request: GenerateRequest,
    ) -> impl Future<Output = Result<TokenStream, EngineError>> + Send;
}
