use std::future::Future;
use std::pin::Pin;

use tito_types::{EngineError, EngineInfo, WorkerId};

use crate::BoxEngine;

/// Resolves, with a reason for the log, when an engine that was healthy no longer is.
pub type Lost = Pin<Box<dyn Future<Output = String> + Send>>;

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
    /// Resolves when it stops being healthy.
    pub lost: Lost,
}
