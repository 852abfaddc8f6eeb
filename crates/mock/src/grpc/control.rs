//! `vllm.Control`: discovery, adapters, abort and shutdown. The calls of a trainer are in [`super::rl`].

use std::path::Path;
use std::sync::Arc;

use tonic::{Request, Response, Status};
use vllm_proto::control_server::Control;
use vllm_proto::{
    AbortRequest, AbortResponse, FinishWeightUpdateRequest, FinishWeightUpdateResponse,
    GetKvEventSourcesRequest, GetKvEventSourcesResponse, GetModelInfoRequest, GetServerInfoRequest,
    GetWeightVersionRequest, GetWeightVersionResponse, InitWeightTransferEngineRequest,
    InitWeightTransferEngineResponse, IsPausedRequest, IsPausedResponse, IsSleepingRequest,
    IsSleepingResponse, KvEventSource, ListLorasRequest, ListLorasResponse, LoadLoraRequest,
    LoadLoraResponse, LoraAdapter, ModelInfo, ParallelismInfo, PauseGenerationRequest,
    PauseGenerationResponse, ResumeGenerationRequest, ResumeGenerationResponse, RlCapabilities, ServerInfo,
    ShutdownRequest, ShutdownResponse, SleepRequest, SleepResponse, StartDraftWeightUpdateRequest,
    StartDraftWeightUpdateResponse, StartWeightUpdateRequest, StartWeightUpdateResponse, UnloadLoraRequest,
    UnloadLoraResponse, UpdateWeightVersionRequest, UpdateWeightVersionResponse, UpdateWeightsRequest,
    UpdateWeightsResponse, WakeUpRequest, WakeUpResponse,
};

use super::rl;
use crate::config::KvEventsConfig;
use crate::control::Adapter;
use crate::instance::Instance;

/// The vLLM release that is imitated.
pub(crate) const ENGINE_VERSION: &str = "0.32.0";

type Reply<T> = Result<Response<T>, Status>;

/// The service.
#[derive(Debug)]
pub(crate) struct ControlService {
    instance: Arc<Instance>,
}

impl ControlService {
    pub(crate) fn new(instance: Arc<Instance>) -> Self {
        Self { instance }
    }

    fn server_info(&self) -> ServerInfo {
        let config = &self.instance.config;
        let owned = config.owned_ranks();
        let local = owned.len() as u32;
        let backend = config.weight_transfer_backend.clone();
        ServerInfo {
            engine_version: ENGINE_VERSION.to_owned(),
            api_version: "vllm".to_owned(),
            instance_id: self.instance.identity.clone(),
            parallelism: Some(ParallelismInfo {
                tensor_parallel_size: 1,
                pipeline_parallel_size: 1,
                data_parallel_size: config.data_parallel_size,
                data_parallel_rank: owned.start,
                decode_context_parallel_size: 1,
                world_size: 1,
                data_parallel_size_local: local,
            }),
            max_model_len: config.max_model_len,
            kv_block_size: config.block_size,
            total_kv_blocks: u64::from(config.num_gpu_blocks) * u64::from(local),
            max_running_requests: u64::from(config.max_num_seqs),
            max_batched_tokens: u64::from(config.max_num_batched_tokens),
            max_loras: if config.enable_lora { config.max_loras } else { 0 },
            rl_capabilities: Some(RlCapabilities {
                weight_transfer_enabled: backend.is_some(),
                weight_transfer_backend: backend.unwrap_or_default(),
                sleep_mode_enabled: config.enable_sleep_mode,
                draft_weight_updates_enabled: config.draft_weight_updates,
            }),
            // The 0.32.0 binary leaves it empty.
            proto_version: String::new(),
            effective_attention_block_size: Some(u64::from(config.block_size)),
        }
    }

    fn kv_event_sources(&self) -> Vec<KvEventSource> {
        let ranks = self.instance.config.owned_ranks();
        let published =
            self.instance.kv_sources.iter().zip(ranks).filter(|(events, _)| events.is_published());
        let source = |(events, rank): (&KvEventsConfig, u32)| KvEventSource {
            transport: "zmq".to_owned(),
            endpoint: events.endpoint.clone(),
            topic: events.topic.clone(),
            replay_endpoint: events.replay_endpoint.clone().unwrap_or_default(),
            data_parallel_rank: Some(rank),
            encoding: "msgpack".to_owned(),
            schema_version: 1,
            buffer_steps: events.buffer_steps,
            hwm: events.hwm,
            max_queue_size: events.max_queue_size,
        };
        published.map(source).collect()
    }

    fn check_lora(&self) -> Result<(), Status> {
        if self.instance.config.enable_lora {
            return Ok(());
        }
        Err(Status::failed_precondition("the engine runs without LoRA"))
    }

    /// The path as it is registered: a hub id as it is, a local path resolved and below an allowed prefix.
    fn adapter_path(&self, source: &str) -> Result<String, Status> {
        let path = Path::new(source);
        let hub_id = source.split('/').count() == 2 && !path.is_absolute() && !source.starts_with('.');
        if hub_id {
            return Ok(source.to_owned());
        }
        let resolved = path.canonicalize().ok().filter(|_| path.is_absolute());
        let resolved =
            resolved.ok_or_else(|| Status::invalid_argument("the path is not an existing absolute one"))?;
        let prefixes = &self.instance.config.lora_path_prefixes;
        if !prefixes.iter().any(|prefix| resolved.starts_with(prefix)) {
            return Err(Status::invalid_argument("the path is not below an allowed prefix"));
        }
        Ok(resolved.to_string_lossy().into_owned())
    }

    fn load_lora(&self, request: LoadLoraRequest) -> Result<LoraAdapter, Status> {
        let LoadLoraRequest { lora_name, source_path } = request;
        self.check_lora()?;
        if lora_name.trim().is_empty() || source_path.trim().is_empty() {
            return Err(Status::invalid_argument("lora_name and source_path are required"));
        }
        if self.instance.serves(&lora_name) {
            return Err(Status::already_exists("the name is that of a served model"));
        }
        let path = self.adapter_path(&source_path)?;
        let mut state = self.instance.control.lock();
        if state.adapters.contains_key(&lora_name) {
            return Err(Status::already_exists("an adapter of this name is loaded"));
        }
        let adapter = state.load(lora_name.clone(), path);
        let adapter = adapter.ok_or_else(|| Status::internal("the engine holds no more adapters"))?;
        Ok(lora_adapter(&lora_name, &adapter))
    }

    fn unload_lora(&self, name: &str) -> Result<LoraAdapter, Status> {
        if name.trim().is_empty() {
            return Err(Status::invalid_argument("lora_name is required"));
        }
        self.check_lora()?;
        let removed = self.instance.control.lock().adapters.remove(name);
        let adapter = removed.ok_or_else(|| Status::not_found("no adapter of this name is loaded"))?;
        Ok(lora_adapter(name, &adapter))
    }
}

fn lora_adapter(name: &str, adapter: &Adapter) -> LoraAdapter {
    LoraAdapter { lora_id: adapter.id, lora_name: name.to_owned(), source_path: adapter.source_path.clone() }
}

#[tonic::async_trait]
impl Control for ControlService {
    async fn get_server_info(&self, _: Request<GetServerInfoRequest>) -> Reply<ServerInfo> {
        Ok(Response::new(self.server_info()))
    }

    async fn get_model_info(&self, _: Request<GetModelInfoRequest>) -> Reply<ModelInfo> {
        let config = &self.instance.config;
        Ok(Response::new(ModelInfo {
            model_id: config.model.clone(),
            served_model_name: config.primary_name().to_owned(),
            served_model_aliases: self.instance.aliases().to_vec(),
            supports_text_input: true,
            supports_token_ids_input: true,
            supports_lora: config.enable_lora,
            supports_multimodal: config.multimodal.is_some(),
            reasoning_parser: config.reasoning_parser.clone(),
            tool_call_parser: config.tool_call_parser.clone(),
        }))
    }

    async fn get_kv_event_sources(
        &self,
        _: Request<GetKvEventSourcesRequest>,
    ) -> Reply<GetKvEventSourcesResponse> {
        Ok(Response::new(GetKvEventSourcesResponse { sources: self.kv_event_sources() }))
    }

    async fn shutdown(&self, _: Request<ShutdownRequest>) -> Reply<ShutdownResponse> {
        if !self.instance.config.owns_engine {
            return Err(Status::failed_precondition("the engine belongs to another process"));
        }
        self.instance.lifecycle.begin_stop();
        Ok(Response::new(ShutdownResponse {}))
    }

    async fn abort(&self, request: Request<AbortRequest>) -> Reply<AbortResponse> {
        for request_id in &request.into_inner().request_ids {
            self.instance.calls.abort(request_id);
        }
        Ok(Response::new(AbortResponse {}))
    }

    async fn load_lora(&self, request: Request<LoadLoraRequest>) -> Reply<LoadLoraResponse> {
        let _serial = self.instance.control.serial.lock().await;
        let adapter = Some(self.load_lora(request.into_inner())?);
        Ok(Response::new(LoadLoraResponse { adapter }))
    }

    async fn unload_lora(&self, request: Request<UnloadLoraRequest>) -> Reply<UnloadLoraResponse> {
        let _serial = self.instance.control.serial.lock().await;
        let adapter = Some(self.unload_lora(&request.into_inner().lora_name)?);
        Ok(Response::new(UnloadLoraResponse { adapter }))
    }

    async fn list_loras(&self, _: Request<ListLorasRequest>) -> Reply<ListLorasResponse> {
        self.check_lora()?;
        let state = self.instance.control.lock();
        let adapters = state.adapters.iter().map(|(name, adapter)| lora_adapter(name, adapter)).collect();
        Ok(Response::new(ListLorasResponse { adapters }))
    }

    async fn pause_generation(
        &self,
        request: Request<PauseGenerationRequest>,
    ) -> Reply<PauseGenerationResponse> {
        rl::pause(&self.instance, request.into_inner()).await.map(Response::new)
    }

    async fn resume_generation(
        &self,
        _: Request<ResumeGenerationRequest>,
    ) -> Reply<ResumeGenerationResponse> {
        rl::resume(&self.instance).await.map(Response::new)
    }

    async fn is_paused(&self, _: Request<IsPausedRequest>) -> Reply<IsPausedResponse> {
        rl::is_paused(&self.instance).map(Response::new)
    }

    async fn sleep(&self, request: Request<SleepRequest>) -> Reply<SleepResponse> {
        rl::sleep(&self.instance, request.into_inner()).await.map(Response::new)
    }

    async fn wake_up(&self, request: Request<WakeUpRequest>) -> Reply<WakeUpResponse> {
        rl::wake_up(&self.instance, request.into_inner()).await.map(Response::new)
    }

    async fn is_sleeping(&self, _: Request<IsSleepingRequest>) -> Reply<IsSleepingResponse> {
        rl::is_sleeping(&self.instance).map(Response::new)
    }

    async fn init_weight_transfer_engine(
        &self,
        request: Request<InitWeightTransferEngineRequest>,
    ) -> Reply<InitWeightTransferEngineResponse> {
        rl::init_weights(&self.instance, &request.into_inner()).await.map(Response::new)
    }

    async fn start_weight_update(
        &self,
        _: Request<StartWeightUpdateRequest>,
    ) -> Reply<StartWeightUpdateResponse> {
        rl::start_update(&self.instance, false).await?;
        Ok(Response::new(StartWeightUpdateResponse {}))
    }

    async fn start_draft_weight_update(
        &self,
        _: Request<StartDraftWeightUpdateRequest>,
    ) -> Reply<StartDraftWeightUpdateResponse> {
        rl::start_update(&self.instance, true).await?;
        Ok(Response::new(StartDraftWeightUpdateResponse {}))
    }

    async fn update_weights(&self, request: Request<UpdateWeightsRequest>) -> Reply<UpdateWeightsResponse> {
        rl::update_weights(&self.instance, &request.into_inner()).await.map(Response::new)
    }

    async fn finish_weight_update(
        &self,
        request: Request<FinishWeightUpdateRequest>,
    ) -> Reply<FinishWeightUpdateResponse> {
        rl::finish_update(&self.instance, request.into_inner()).await.map(Response::new)
    }

    async fn update_weight_version(
        &self,
        request: Request<UpdateWeightVersionRequest>,
    ) -> Reply<UpdateWeightVersionResponse> {
        rl::set_version(&self.instance, request.into_inner()).await.map(Response::new)
    }

    async fn get_weight_version(
        &self,
        _: Request<GetWeightVersionRequest>,
    ) -> Reply<GetWeightVersionResponse> {
        rl::version(&self.instance).map(Response::new)
    }
}
