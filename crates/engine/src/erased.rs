use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tito_types::{EngineError, GenerateRequest};

use crate::{Engine, TokenStream};

type Generating<'a> = Pin<Box<dyn Future<Output = Result<TokenStream, EngineError>> + Send + 'a>>;

trait Erased: Send + Sync {
    fn generate(&self, request: GenerateRequest) -> Generating<'_>;
}

impl<E: Engine> Erased for E {
    fn generate(&self, request: GenerateRequest) -> Generating<'_> {
        Box::pin(Engine::generate(self, request))
    }
}

/// Any engine behind one pointer: what the frontend holds, and what the fleet keeps per worker.
#[derive(Clone)]
pub struct BoxEngine(Arc<dyn Erased>);

impl BoxEngine {
    /// Erases the type of an engine.
    pub fn new(engine: impl Engine) -> Self {
        Self(Arc::new(engine))
    }
}

impl Engine for BoxEngine {
    async fn generate(&self, request: GenerateRequest) -> Result<TokenStream, EngineError> {
        self.0.generate(request).await
    }
}

impl fmt::Debug for BoxEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxEngine")
    }
}
