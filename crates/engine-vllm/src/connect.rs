//! Reaching an engine: what it is, whether it is healthy, and when it stops being so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tito_engine::{BoxEngine, Connection, Connector, Lost};
use tito_runtime::Chain;
use tito_types::{Adapter, EngineError, EngineInfo, KvSupport, WorkerId};
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status, Streaming};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tracing::{info, warn};
use vllm_proto::control_client::ControlClient;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::{GetKvEventSourcesRequest, GetModelInfoRequest, GetServerInfoRequest};

use crate::engine::Vllm;
use crate::info::info_of;
use crate::kv::sources::{Source, Sources, sources};
use crate::kv::{self, Timing};
use crate::orders::Orders;
use crate::status::describe;
use crate::{Error, VllmConfig, adapters, load};

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
        self.answered(what, timeout(self.config.connect_timeout, call).await)
    }

    fn answered<T>(
        &self,
        what: &str,
        answered: Result<Result<Response<T>, Status>, Elapsed>,
    ) -> Result<T, EngineError> {
        match answered {
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

    /// What the engine is and where its KV events come from, as of one moment: sources that were checked against ranks
    /// it no longer has would be worse than none.
    async fn discover(
        &self,
        control: &ControlClient<Channel>,
    ) -> Result<(EngineInfo, Vec<Source>), EngineError> {
        let mut info = self.info(control).await?;
        let sources = self.sources(control, &info).await?;
        let again = self.info(control).await?;
        if again != info {
            return Err(self.unreached("the engine changed while it was asked what it is".to_owned()));
        }
        info.kv_events = match &sources {
            Ok(sources) => KvSupport::On { replay: sources.iter().all(|source| source.replay.is_some()) },
            Err(reason) => KvSupport::Off(reason.clone()),
        };
        info.pixels = self.config.pixels;
        Ok((info, sources.unwrap_or_default()))
    }

    /// One source per local rank, or why there are none; an error when the engine's answer makes no sense.
    async fn sources(
        &self,
        control: &ControlClient<Channel>,
        info: &EngineInfo,
    ) -> Result<Result<Vec<Source>, String>, EngineError> {
        let mut control = control.clone();
        let call = control.get_kv_event_sources(GetKvEventSourcesRequest {});
        let reply = match timeout(self.config.connect_timeout, call).await {
            Ok(Err(status)) if status.code() == Code::Unimplemented => {
                return Ok(Err("the engine does not know GetKvEventSources".to_owned()));
            }
            answered => self.answered("GetKvEventSources", answered)?,
        };
        let ranks = info.identity.parallelism.local_ranks();
        let Sources { ranks, skipped } = sources(reply.sources, ranks, &self.config.host)
            .map_err(|problem| self.unreached(format!("GetKvEventSources: {problem}")))?;
        for reason in &skipped {
            warn!(worker = %self.worker, %reason, "KV event source left out");
        }
        if ranks.is_empty() {
            let none = if skipped.is_empty() {
                "the engine publishes no KV events"
            } else {
                "no source is readable"
            };
            return Ok(Err(none.to_owned()));
        }
        Ok(Ok(ranks))
    }

    /// The adapters the engine has loaded by now.
    async fn adapters(
        &self,
        control: &ControlClient<Channel>,
        info: &EngineInfo,
    ) -> Result<Vec<Adapter>, EngineError> {
        if info.identity.capabilities.max_loras == 0 {
            return Ok(Vec::new());
        }
        let answer = self.ask("ListLoras", adapters::ask(control)).await?;
        Ok(adapters::listed(answer, &info.identity.model.names))
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
        let (info, sources) = self.discover(&control).await?;
        let adapters = self.adapters(&control, &info).await?;
        if let KvSupport::Off(reason) = &info.kv_events {
            info!(worker = %self.worker, %reason, "routing to this engine without KV events");
        }
        let request = HealthCheckRequest { service: INFERENCE.to_owned() };
        let watched = self.ask("health watch", HealthClient::new(first.clone()).watch(request)).await?;

        let others = (1..self.config.channels).map(|_| self.endpoint.connect_lazy());
        let channels = std::iter::once(first).chain(others).map(|channel| {
            InferenceClient::new(channel).max_decoding_message_size(self.config.response_bytes_max)
        });
        let instance = self.suffix.wrapping_add(self.connections.fetch_add(1, Ordering::Relaxed));
        let engine = Vllm::new(
            self.worker.clone(),
            channels.collect(),
            control.clone(),
            self.config.stall_timeout,
            info.identity.model.clone(),
            instance,
        );
        let limit = self.config.connect_timeout;
        let orders = Orders { worker: self.worker.clone(), control: control.clone() };
        let adapter_feed = adapters::feed(&self.worker, &info, control, limit, adapters.clone());
        let ranks = info.identity.parallelism.local_ranks();
        let load_feed = load::feed(&self.worker, self.config.metrics.as_ref(), ranks, limit);
        let kv = kv::feed(&self.worker, sources, &Timing::new(self.config.connect_timeout));
        let (engine, lost) = (BoxEngine::new(engine), lost(watched));
        let control = Arc::new(orders);
        Ok(Connection { info, engine, control, lost, kv, adapters, adapter_feed, load_feed })
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

#[cfg(test)]
pub(crate) mod tests;
