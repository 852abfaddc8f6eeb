//! How a call gets to its rank.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tito_engine_sim::{Extra, Finish, RequestId, Script, SimRequest, StopCause, fold, hash_bytes};
use tokio::sync::mpsc;
use tonic::Status;
use tonic::metadata::MetadataMap;
use uuid::Uuid;
use vllm_proto::GenerateRequest;

use super::{Call, Hold, State};
use crate::compose::{CallFacts, Composer};
use crate::engine::{Command, Delivery, Engine, Submission};
use crate::faults::{BreakOff, Effects};
use crate::instance::Instance;
use crate::journal::{AbortCause, JournalEntry};
use crate::knobs::Knobs;
use crate::kv::MediaSpan;
use crate::text;
use crate::transfer::Transfer;
use crate::validate::{Constraint, Limits, Plan, invalid, validate};

/// The metadata key that names a global rank.
const RANK_KEY: &str = "x-data-parallel-rank";
/// What is said, word for word as by vLLM 0.32, about a value that is no rank.
const RANK_FORM: &str = "x-data-parallel-rank metadata must be an unsigned 32-bit integer";

impl Call {
    /// Checks a request and hands it to a rank. Every error is the status of the call.
    pub(crate) async fn begin(
        instance: &Arc<Instance>,
        mut request: GenerateRequest,
        metadata: &MetadataMap,
        delivery: Delivery,
    ) -> Result<Self, Status> {
        check_alive(instance)?;
        let engine = choose_rank(instance, metadata)?;
        let plan = check(instance, &request)?;
        if request.request_id.is_empty() {
            request.request_id = Uuid::new_v4().to_string();
        }
        let mut effects = instance.faults.take(&request.request_id);
        if let Some((0, BreakOff::Status(code, message))) = &effects.break_off {
            return Err(Status::new(*code, message.clone()));
        }
        let permit = Arc::clone(&instance.slots).acquire_owned().await;
        let permit = permit.map_err(|_| Status::unavailable("the engine stopped"))?;
        let request = Arc::new(request);
        let kv = request.kv.as_ref().and_then(|kv| kv.kv_transfer_params.as_ref());
        let transfer = if instance.config.kv_connector { Transfer::of(kv) } else { Transfer::None };
        let knobs = if instance.config.scripts { Knobs::of(kv).map(Box::new) } else { None };
        let id = engine.next_id();
        let mut sim = sim_request(id, &plan, &effects, transfer);
        sim.sampling.arrival = Some(instance.arrivals.fetch_add(1, Ordering::Relaxed));
        constrain(&plan, instance.config.vocabulary.eos_id, &mut sim);
        if let Some(knobs) = &knobs {
            knobs.apply(&mut sim, &mut effects);
        }
        if transfer == Transfer::FetchWithoutBlocks {
            effects.break_at(0, BreakOff::EngineDead);
        }
        let engine_request_id = internal_id(&request.request_id);
        let entry = Arc::new(JournalEntry::new(
            request.request_id.clone(),
            engine_request_id.clone(),
            engine.rank,
            plan.prompt.len() as u32,
            Arc::clone(&request),
        ));
        let logprob_fault = effects.logprob;
        let facts = CallFacts { engine_request_id, rank: engine.rank, transfer, knobs, logprob_fault };
        let delivery = effective_delivery(delivery, &plan, &effects);
        let (sender, chunks) = mpsc::channel(match delivery {
            Delivery::Whole => 1,
            Delivery::Deltas => sim.max_tokens as usize + 1,
        });
        instance.journal.add(Arc::clone(&entry));
        instance.calls.add(&request.request_id, &engine, id);
        let hold = Hold {
            instance: Arc::clone(instance),
            request_id: request.request_id.clone(),
            id,
            cause: Some(AbortCause::Disconnected),
            _in_flight: engine.begin(),
            _permit: permit,
            engine,
        };
        let origin = Arc::clone(&plan.origin);
        let submission = Submission { request: sim, origin, delivery, entry, output: sender };
        hold.engine.send(Command::Submit(Box::new(submission)));
        Ok(Self {
            instance: Arc::clone(instance),
            composer: Composer::new(Arc::clone(instance), plan, facts),
            chunks,
            hold,
            effects,
            ready: VecDeque::with_capacity(2),
            state: State::Fresh,
        })
    }
}

fn check_alive(instance: &Instance) -> Result<(), Status> {
    if instance.lifecycle.is_dead() {
        return Err(Status::internal("the engine is dead"));
    }
    if instance.lifecycle.is_closed() {
        return Err(Status::unavailable("the server takes no new calls"));
    }
    Ok(())
}

/// The rank that metadata names, or the least loaded one. The first value counts if there are several.
fn choose_rank(instance: &Instance, metadata: &MetadataMap) -> Result<Arc<Engine>, Status> {
    let Some(value) = metadata.get(RANK_KEY) else { return Ok(Arc::clone(instance.least_loaded())) };
    let digits = value.to_str().map(str::trim).unwrap_or_default();
    let rank: u32 = if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse().map_err(|_| invalid(RANK_FORM))?
    } else {
        return Err(invalid(RANK_FORM));
    };
    let engine = instance.engine(rank).ok_or_else(|| {
        let ranks: Vec<u32> = instance.config.owned_ranks().collect();
        invalid(format!(
            "engine-core error: data parallel rank {rank} is not connected to this frontend; \
             connected ranks: {ranks:?}"
        ))
    })?;
    Ok(Arc::clone(engine))
}

/// Whether the engine takes a request, and how it would run it.
pub(crate) fn check(instance: &Instance, request: &GenerateRequest) -> Result<Plan, Status> {
    let config = &instance.config;
    let loaded = |name: &str| instance.control.lock().adapters.get(name).cloned();
    let limits = Limits {
        vocabulary: &config.vocabulary,
        generation: &config.generation,
        max_model_len: config.max_model_len,
        max_logprobs: config.max_logprobs,
        serves: &|name| instance.serves(name),
        adapter: if config.enable_lora { Some(&loaded) } else { None },
        multimodal: config.multimodal.as_ref(),
    };
    validate(request, &limits)
}

fn sim_request(id: RequestId, plan: &Plan, effects: &Effects, transfer: Transfer) -> SimRequest {
    let mut sim = SimRequest::new(id, plan.prompt.clone(), plan.max_tokens);
    sim.adapter = plan.adapter;
    sim.salt = plan.origin.salt.as_ref().map(|salt| hash_bytes(salt.as_bytes()));
    let extra = |span: &MediaSpan| Extra {
        offset_tokens: span.offset,
        length_tokens: span.length,
        key: hash_bytes(span.identifier.as_bytes()),
    };
    sim.extras = plan.origin.media.iter().map(extra).collect();
    sim.read_cache = plan.read_cache;
    sim.remote_prefill = transfer == Transfer::RemotePrefill;
    sim.min_tokens = plan.min_tokens;
    sim.stop_ids.clone_from(&plan.stop_ids);
    sim.ignore_eos = plan.ignore_eos;
    sim.priority = plan.priority;
    sim.sampling = plan.sampling.clone();
    sim.pace = effects.pace;
    sim.stall_after = effects.stall_at;
    if transfer == Transfer::FetchFromNowhere {
        sim.stall_after = Some(0);
    }
    sim
}

/// Tells a constrained request its text.
fn constrain(plan: &Plan, eos_id: u32, sim: &mut SimRequest) {
    match &plan.constraint {
        Constraint::Free => {}
        Constraint::Fails => sim.script = Some(Script { ids: Vec::new(), then: Some(Finish::Error) }),
        Constraint::Texts(texts) => {
            // The choice depends on the prompt, as a model's would.
            let word = plan.prompt.iter().fold(0, |word, &id| fold(word, u64::from(id)));
            let chosen = texts.get((word % texts.len().max(1) as u64) as usize);
            let mut ids = chosen.map(|text| text::tokenize(text)).unwrap_or_default();
            ids.push(eos_id);
            sim.script = Some(Script { ids, then: Some(Finish::Stop(StopCause::Eos)) });
        }
    }
}

/// Calls that may end early by what they say, or go wrong on the way, are watched token by token.
fn effective_delivery(asked: Delivery, plan: &Plan, effects: &Effects) -> Delivery {
    if plan.stops.is_empty() && effects.break_off.is_none() { asked } else { Delivery::Deltas }
}

/// The engine's name for a request: the client's with a random suffix.
fn internal_id(request_id: &str) -> String {
    let suffix = Uuid::new_v4().simple().to_string();
    format!("{request_id}-{}", &suffix[..8])
}
