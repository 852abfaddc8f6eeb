//! Reaching an engine: what it is, whether it is healthy, and when it stops being so.

use std::sync::atomic::{AtomicU32, Ordering};

use tito_engine::{BoxEngine, Connection, Connector, Lost};
use tito_runtime::Chain;
use tito_types::{EngineError, EngineInfo, WorkerId};
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use vllm_proto::control_client::ControlClient;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::{GetModelInfoRequest, GetServerInfoRequest};

use crate::engine::Vllm;
use crate::info::info_of;
use crate::status::describe;
use crate::{Error, VllmConfig};

const INFERENCE: &str = "vllm.Inference";
const CONTROL: &str = "vllm.Control";

/// Leads to one vLLM gRPC address.
pub struct VllmConnector {
    config: VllmConfig,
    endpoint: Endpoint,
    worker: WorkerId,
    /// Start of the engine-id suffix: random, so that several frontends and connectors never collide.
    suffix: u32,
    connections: AtomicU32,
}

impl VllmConnector {
    /// Checks the address and the TLS material; connects nothing. `suffix` is a random number of its own.
    pub fn try_new(config: VllmConfig, suffix: u32) -> Result<Self, Error> {
        let endpoint = config.endpoint()?;
        let worker = config.worker();
        Ok(Self { config, endpoint, worker, suffix, connections: AtomicU32::new(0) })
    }

    /// One control call with a deadline.
    async fn ask<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, EngineError> {
        match timeout(self.config.connect_timeout, call).await {
            Ok(Ok(reply)) => Ok(reply.into_inner()),
            Ok(Err(status)) => Err(self.unreached(format!("{what}: {}", describe(&status)))),
            Err(_) => {
                Err(self.unreached(format!("{what}: no answer within {:?}", self.config.connect_timeout)))
            }
        }
    }

    fn unreached(&self, message: String) -> EngineError {
        EngineError::Connect(self.worker.clone(), message)
    }

    async fn serving(&self, channel: &Channel, service: &str) -> Result<(), EngineError> {
        let mut health = HealthClient::new(channel.clone());
        let request = HealthCheckRequest { service: service.to_owned() };
        let reply = self.ask(service, health.check(request)).await?;
        match reply.status() {
            ServingStatus::Serving => Ok(()),
            status => Err(self.unreached(format!("{service} is {}", status.as_str_name()))),
        }
    }

    async fn info(&self, control: &ControlClient<Channel>) -> Result<EngineInfo, EngineError> {
        let server =
            self.ask("GetServerInfo", control.clone().get_server_info(GetServerInfoRequest {})).await?;
        let model = self.ask("GetModelInfo", control.clone().get_model_info(GetModelInfoRequest {})).await?;
        info_of(server, model).map_err(|message| self.unreached(message))
    }
}

impl Connector for VllmConnector {
    fn worker(&self) -> &WorkerId {
        &self.worker
    }

    async fn connect(&self) -> Result<Connection, EngineError> {
        let connecting = timeout(self.config.connect_timeout, self.endpoint.connect());
        let first = match connecting.await {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => return Err(self.unreached(Chain(&error).to_string())),
            Err(_) => {
                return Err(self.unreached(format!("no connection within {:?}", self.config.connect_timeout)));
            }
        };
        self.serving(&first, INFERENCE).await?;
        self.serving(&first, CONTROL).await?;
        let control = ControlClient::new(first.clone());
        let info = self.info(&control).await?;
        let request = HealthCheckRequest { service: INFERENCE.to_owned() };
        let watched = self.ask("health watch", HealthClient::new(first.clone()).watch(request)).await?;

        let others = (1..self.config.channels).map(|_| self.endpoint.connect_lazy());
        let channels = std::iter::once(first).chain(others).map(|channel| {
            InferenceClient::new(channel).max_decoding_message_size(self.config.response_bytes_max)
        });
        let instance = self.suffix.wrapping_add(self.connections.fetch_add(1, Ordering::Relaxed));
        let engine =
            Vllm::new(self.worker.clone(), channels.collect(), control, self.config.stall_timeout, instance);
        Ok(Connection {
            info,
            engine: BoxEngine::new(engine),
            lost: lost(watched),
            kv: Box::pin(futures_util::stream::pending()),
        })
    }
}

/// Resolves when the engine says that it stopped serving, or when the connection that would say so ends.
fn lost(mut watched: Streaming<HealthCheckResponse>) -> Lost {
    Box::pin(async move {
        loop {
            match watched.message().await {
                Ok(Some(reply)) if reply.status() == ServingStatus::Serving => {}
                Ok(Some(reply)) => return format!("{INFERENCE} is {}", reply.status().as_str_name()),
                Ok(None) => return "the engine closed its health watch".to_owned(),
                Err(status) => return describe(&status),
            }
        }
    })
}
