use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::BoxFuture;
use tito_types::{Adapter, EngineError, EngineInfo, EngineLoad, KvUpdate, WorkerId};

use crate::BoxEngine;

/// Resolves, with a reason for the log, when an engine that was healthy no longer is.
pub type Lost = Pin<Box<dyn Future<Output = String> + Send>>;

/// News about an engine's block tables, all ranks in one stream. Never ends while the connection lives and has no
/// effect unless polled. Empty for an engine without KV events.
pub type KvFeed = Pin<Box<dyn Stream<Item = KvUpdate> + Send>>;

/// The adapters an engine has loaded, in order of name: the whole list whenever it changed. Never ends while the connection lives and has
/// no effect unless polled.
pub type AdapterFeed = Pin<Box<dyn Stream<Item = Vec<Adapter>> + Send>>;

/// What the ranks of an engine have to do, whoever sent it, about once in [`LOAD_EVERY`]. Never ends while the connection
/// lives and has no effect unless polled. Silent for an engine that is not asked.
pub type LoadFeed = Pin<Box<dyn Stream<Item = LoadNews> + Send>>;

/// One item of a [`LoadFeed`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadNews {
    /// Of a rank that is left out nothing is known.
    pub loads: Vec<EngineLoad>,
    /// Why ranks are left out.
    pub problem: Option<String>,
}

/// Between two items of a [`LoadFeed`].
pub const LOAD_EVERY: Duration = Duration::from_secs(1);

/// What one engine can be told besides requests. Each call is about every rank behind its address, and has a deadline.
pub trait Control: Send + Sync + 'static {
    /// Whether somebody has paused it.
    fn is_paused(&self) -> BoxFuture<'_, Result<bool, EngineError>>;

    /// Holds it where it is and drops everything it has cached: prefixes on every tier, media, encoder outputs. Requests
    /// in flight stay, and compute again what they need once it is resumed.
    fn pause_and_clear(&self) -> BoxFuture<'_, Result<(), EngineError>>;

    /// Lets it go on.
    fn resume(&self) -> BoxFuture<'_, Result<(), EngineError>>;
}

/// How the fleet reaches one engine. Implemented by adapters.
pub trait Connector: Send + Sync + 'static {
    /// The worker this leads to.
    fn worker(&self) -> &WorkerId;

    /// Reaches the engine, checks that it is healthy and reads what it is. Called again after every loss.
    fn connect(&self) -> impl Future<Output = Result<Connection, EngineError>> + Send;
}

/// A healthy engine.
pub struct Connection {
    /// What it says about itself.
    pub info: EngineInfo,
    /// Where requests go.
    pub engine: BoxEngine,
    /// Where orders go.
    pub control: Arc<dyn Control>,
    /// Resolves when it stops being healthy.
    pub lost: Lost,
    /// What its ranks store and drop.
    pub kv: KvFeed,
    /// The adapters it has loaded, in order of name; empty where it takes none.
    pub adapters: Vec<Adapter>,
    /// What becomes of them.
    pub adapter_feed: AdapterFeed,
    /// What it has to do.
    pub load_feed: LoadFeed,
}
