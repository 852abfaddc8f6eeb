//! `grpc.health.v1`: three names that always say the same.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::instance::Instance;

const NAMES: [&str; 3] = ["", "vllm.Inference", "vllm.Control"];

/// The service.
#[derive(Debug)]
pub(crate) struct HealthService {
    instance: Arc<Instance>,
}

impl HealthService {
    pub(crate) fn new(instance: Arc<Instance>) -> Self {
        Self { instance }
    }
}

fn check_name(request: &Request<HealthCheckRequest>) -> Result<(), Status> {
    if NAMES.contains(&request.get_ref().service.as_str()) {
        return Ok(());
    }
    Err(Status::not_found("no such service"))
}

fn response(serving: bool) -> HealthCheckResponse {
    let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status as i32 }
}

#[tonic::async_trait]
impl Health for HealthService {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        check_name(&request)?;
        let serving = *self.instance.lifecycle.serving().borrow();
        Ok(Response::new(response(serving)))
    }

    /// Sends the status now and at every change. Ends without an error after the last one of a shutdown.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        check_name(&request)?;
        let mut serving = self.instance.lifecycle.serving();
        serving.mark_changed();
        let stop = self.instance.lifecycle.stop.clone();
        let changes = stream::unfold(serving, move |mut serving| {
            let stop = stop.clone();
            async move {
                tokio::select! {
                    biased;
                    changed = serving.changed() => changed.ok()?,
                    // Stopping is a change as well: it comes first unless it was sent before.
                    () = stop.cancelled() => return None,
                }
                let now = *serving.borrow_and_update();
                Some((Ok(response(now)), serving))
            }
        });
        Ok(Response::new(changes.boxed()))
    }
}
