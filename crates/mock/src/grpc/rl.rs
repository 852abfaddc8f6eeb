//! The calls of a trainer: pause, sleep, weights. Preconditions are checked before payloads.

use serde_json::{Map, Value};
use tito_engine_sim::PauseMode as SimPause;
use tokio::sync::oneshot;
use tonic::Status;
use vllm_proto::{
    FinishWeightUpdateRequest, FinishWeightUpdateResponse, GetWeightVersionResponse,
    InitWeightTransferEngineRequest, InitWeightTransferEngineResponse, IsPausedResponse, IsSleepingResponse,
    PauseGenerationRequest, PauseGenerationResponse, PauseMode, ResumeGenerationResponse, SleepRequest,
    SleepResponse, UpdateWeightVersionRequest, UpdateWeightVersionResponse, UpdateWeightsRequest,
    UpdateWeightsResponse, WakeUpRequest, WakeUpResponse,
};

use crate::control::{Asleep, State, WeightError};
use crate::engine::Command;
use crate::instance::Instance;

type Outcome<T> = Result<T, Status>;

pub(super) async fn pause(
    instance: &Instance,
    request: PauseGenerationRequest,
) -> Outcome<PauseGenerationResponse> {
    let PauseGenerationRequest { mode, clear_cache } = request;
    let mode = pause_mode(mode)?;
    let _serial = instance.control.serial.lock().await;
    check_alive(instance)?;
    pause_all(instance, mode, clear_cache.unwrap_or(true)).await?;
    Ok(PauseGenerationResponse {})
}

pub(super) async fn resume(instance: &Instance) -> Outcome<ResumeGenerationResponse> {
    let _serial = instance.control.serial.lock().await;
    check_alive(instance)?;
    resume_all(instance).await?;
    Ok(ResumeGenerationResponse {})
}

pub(super) fn is_paused(instance: &Instance) -> Outcome<IsPausedResponse> {
    check_alive(instance)?;
    Ok(IsPausedResponse { paused: instance.control.lock().paused })
}

/// Level 0 only pauses; the others also give memory back, and with it the KV cache. The level is not checked.
pub(super) async fn sleep(instance: &Instance, request: SleepRequest) -> Outcome<SleepResponse> {
    check_sleep_mode(instance)?;
    let SleepRequest { level, mode } = request;
    let mode = pause_mode(mode)?;
    let _serial = instance.control.serial.lock().await;
    check_alive(instance)?;
    pause_all(instance, mode, true).await?;
    let level = level.unwrap_or(1);
    if level > 0 {
        reset_caches(instance, false).await?;
    }
    let mut state = instance.control.lock();
    state.asleep.insert(Asleep::Scheduling);
    if level > 0 {
        state.asleep.extend([Asleep::Weights, Asleep::KvCache]);
    }
    Ok(SleepResponse {})
}

/// Scheduling goes on once all memory is awake.
pub(super) async fn wake_up(instance: &Instance, request: WakeUpRequest) -> Outcome<WakeUpResponse> {
    check_sleep_mode(instance)?;
    let _serial = instance.control.serial.lock().await;
    check_alive(instance)?;
    let awake = {
        let mut state = instance.control.lock();
        let slept = !state.asleep.is_empty();
        let memory = |state: &State| {
            state.asleep.contains(&Asleep::Weights) || state.asleep.contains(&Asleep::KvCache)
        };
        let memory_slept = memory(&state);
        for part in request.tags.iter().filter_map(|tag| Asleep::of_tag(tag)) {
            state.asleep.remove(&part);
        }
        if request.tags.is_empty() || (memory_slept && !memory(&state)) {
            state.asleep.clear();
        }
        slept && state.asleep.is_empty()
    };
    if awake {
        resume_all(instance).await?;
    }
    Ok(WakeUpResponse {})
}

pub(super) fn is_sleeping(instance: &Instance) -> Outcome<IsSleepingResponse> {
    check_alive(instance)?;
    let state = instance.control.lock();
    Ok(IsSleepingResponse { sleeping: state.paused || !state.asleep.is_empty() })
}

pub(super) async fn init_weights(
    instance: &Instance,
    request: &InitWeightTransferEngineRequest,
) -> Outcome<InitWeightTransferEngineResponse> {
    let backend = weight_backend(instance)?;
    let info = object("init_info_json", &request.init_info_json)?;
    let _serial = instance.control.serial.lock().await;
    check_alive(instance)?;
    instance.control.lock().weights.init(backend, &info).map_err(|error| worker_error(&error))?;
    Ok(InitWeightTransferEngineResponse {})
}

pub(super) async fn start_update(instance: &Instance, draft: bool) -> Outcome<()> {
    weight_backend(instance)?;
    if draft && !instance.config.draft_weight_updates {
        return Err(Status::failed_precondition("the engine has no draft model"));
    }
    let _serial = instance.control.serial.lock().await;
    check_alive(instance)?;
    instance.control.lock().weights.start().map_err(|error| worker_error(&error))
}

pub(super) async fn update_weights(
    instance: &Instance,
    request: &UpdateWeightsRequest,
) -> Outcome<UpdateWeightsResponse> {
    let backend = weight_backend(instance)?;
    let info = object("update_info_json", &request.update_info_json)?;
    let _serial = instance.control.serial.lock().await;
    check_alive(instance)?;
    instance.control.lock().weights.update(backend, &info).map_err(|error| worker_error(&error))?;
    Ok(UpdateWeightsResponse {})
}

pub(super) async fn finish_update(
    instance: &Instance,
    request: FinishWeightUpdateRequest,
) -> Outcome<FinishWeightUpdateResponse> {
    weight_backend(instance)?;
    if let Some(version) = &request.weight_version {
        check_version(version)?;
    }
    let _serial = instance.control.serial.lock().await;
    check_alive(instance)?;
    let mut state = instance.control.lock();
    state.weights.finish().map_err(|error| worker_error(&error))?;
    if let Some(version) = request.weight_version {
        state.weights.version = version;
    }
    Ok(FinishWeightUpdateResponse {})
}

pub(super) async fn set_version(
    instance: &Instance,
    request: UpdateWeightVersionRequest,
) -> Outcome<UpdateWeightVersionResponse> {
    check_version(&request.weight_version)?;
    let _serial = instance.control.serial.lock().await;
    check_alive(instance)?;
    instance.control.lock().weights.version = request.weight_version;
    Ok(UpdateWeightVersionResponse {})
}

pub(super) fn version(instance: &Instance) -> Outcome<GetWeightVersionResponse> {
    check_alive(instance)?;
    Ok(GetWeightVersionResponse { weight_version: instance.control.lock().weights.version.clone() })
}

/// Pauses every rank and waits until all of them have.
async fn pause_all(instance: &Instance, mode: SimPause, clear_cache: bool) -> Outcome<()> {
    instance.control.lock().paused = true;
    ask_all(instance, |done| Command::Pause { mode, clear_cache, done }).await.map(|_| ())
}

async fn resume_all(instance: &Instance) -> Outcome<()> {
    ask_all(instance, |done| Command::Resume { done }).await?;
    instance.control.lock().paused = false;
    Ok(())
}

/// Empties the prefix cache of every rank. False if any of them holds blocks.
pub(crate) async fn reset_caches(instance: &Instance, running: bool) -> Outcome<bool> {
    let done = ask_all(instance, |done| Command::ResetCache { running, done }).await?;
    Ok(done.into_iter().all(|done| done))
}

/// Sends a command to every rank, then waits for every answer.
async fn ask_all<T>(instance: &Instance, command: impl Fn(oneshot::Sender<T>) -> Command) -> Outcome<Vec<T>> {
    let ask = |engine: &std::sync::Arc<crate::engine::Engine>| {
        let (sender, answer) = oneshot::channel();
        engine.send(command(sender));
        answer
    };
    let answers: Vec<oneshot::Receiver<T>> = instance.engines.iter().map(ask).collect();
    let mut all = Vec::with_capacity(answers.len());
    for answer in answers {
        all.push(answer.await.map_err(|_| Status::internal("the engine is dead"))?);
    }
    Ok(all)
}

fn check_alive(instance: &Instance) -> Outcome<()> {
    if instance.lifecycle.is_dead() { Err(Status::internal("the engine is dead")) } else { Ok(()) }
}

fn check_sleep_mode(instance: &Instance) -> Outcome<()> {
    if instance.config.enable_sleep_mode {
        return Ok(());
    }
    Err(Status::failed_precondition("the engine runs without sleep mode"))
}

fn weight_backend(instance: &Instance) -> Outcome<&str> {
    let backend = instance.config.weight_transfer_backend.as_deref();
    backend.ok_or_else(|| Status::failed_precondition("the engine runs without weight transfer"))
}

/// Unspecified is abort, as in vLLM 0.32.
fn pause_mode(mode: i32) -> Outcome<SimPause> {
    match PauseMode::try_from(mode) {
        Ok(PauseMode::Unspecified | PauseMode::Abort) => Ok(SimPause::Abort),
        Ok(PauseMode::Wait) => Ok(SimPause::Wait),
        Ok(PauseMode::Keep) => Ok(SimPause::Keep),
        Err(_) => Err(Status::invalid_argument("unknown pause mode")),
    }
}

fn object(field: &str, json: &[u8]) -> Outcome<Map<String, Value>> {
    match serde_json::from_slice(json) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Status::invalid_argument(format!("{field} must be a JSON object"))),
        Err(error) => Err(Status::invalid_argument(format!("{field} is not JSON: {error}"))),
    }
}

fn check_version(version: &str) -> Outcome<()> {
    if version.trim().is_empty() { Err(Status::invalid_argument("weight_version is blank")) } else { Ok(()) }
}

fn worker_error(error: &WeightError) -> Status {
    Status::internal(error.to_string())
}
