//! Orders to an engine besides requests, over `vllm.Control`. Each has a deadline; none is repeated here.

use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tito_engine::Control;
use tito_types::{EngineError, WorkerId};
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Response, Status};
use vllm_proto::control_client::ControlClient;
use vllm_proto::{IsPausedRequest, PauseGenerationRequest, PauseMode, ResumeGenerationRequest};

use crate::status::{Carried, Progress, engine_error};

/// How long a pause may take: it begins after the step that is running, which may be one long prefill.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long every other call may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The control service of one engine.
pub(crate) struct Orders {
    pub(crate) worker: WorkerId,
    pub(crate) control: ControlClient<Channel>,
}

impl Orders {
    async fn ask<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, EngineError> {
        match timeout(limit, call).await {
            Ok(Ok(reply)) => Ok(reply.into_inner()),
            Ok(Err(status)) => {
                Err(engine_error(&self.worker, &status, Progress::Unanswered, Carried::Nothing))
            }
            Err(_) => Err(EngineError::Deadline(self.worker.clone())),
        }
    }
}

impl Control for Orders {
    fn is_paused(&self) -> BoxFuture<'_, Result<bool, EngineError>> {
        async {
            let mut control = self.control.clone();
            let asked = self.ask(ANSWER_TIMEOUT, control.is_paused(IsPausedRequest {}));
            Ok(asked.await?.paused)
        }
        .boxed()
    }

    /// vLLM 0.32 preempts what is running, so that no block is held when the caches are dropped, and answers OK only
    /// when they were.
    fn pause_and_clear(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        async {
            let mut control = self.control.clone();
            let order = PauseGenerationRequest { mode: PauseMode::Keep.into(), clear_cache: Some(true) };
            self.ask(PAUSE_TIMEOUT, control.pause_generation(order)).await.map(|_| ())
        }
        .boxed()
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        async {
            let mut control = self.control.clone();
            let asked = self.ask(ANSWER_TIMEOUT, control.resume_generation(ResumeGenerationRequest {}));
            asked.await.map(|_| ())
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
