//! What an operator sees of the fleet and of one choice. Charges and remembers nothing.

use std::collections::BTreeMap;

use tito_fleet::{Target, TargetId, Worker};
use tito_policy::Load;
use tito_types::{
    CandidateReport, EngineInfo, EngineReport, GenerateRequest, KvSupport, LoadReport, RouteReport,
    TargetReport, WorkerReport,
};

use crate::Route;
use crate::prefix::Chains;
use crate::view::Place;

/// Said of a worker that is ready and does nothing.
const HALTED: &str = "an order of this server has paused it; after that it is told to go on until it does";
/// Silent requests looked at before loads are shown to somebody.
const SILENT_LOOKS_OF_REPORT: usize = 1024;

impl Route {
    /// Every configured worker, its targets and their load.
    pub fn workers(&self) -> Vec<WorkerReport> {
        self.shared.check_silent(SILENT_LOOKS_OF_REPORT);
        let mut desk = self.shared.desk();
        let view = self.shared.view(&mut desk);
        let load = |(id, place): (&TargetId, &Place)| (*id, desk.board.load(place.slot));
        let loads: BTreeMap<TargetId, Load> = view.places.iter().map(load).collect();
        // What targets hold is asked of each of them, which may be busy: nobody else waits for that.
        drop(desk);
        view.snapshot().workers.iter().map(|worker| worker_report(worker, &loads)).collect()
    }

    /// Where a request would go now, and why. Nothing is sent, charged or remembered.
    pub fn explain(&self, request: &GenerateRequest) -> RouteReport {
        self.shared.check_silent(SILENT_LOOKS_OF_REPORT);
        let wish = self.shared.wish(request, &mut Chains::default());
        let mut desk = self.shared.desk();
        let now = self.shared.now();
        let candidates = desk.board.explain(&wish.query(&[]), now);
        let policy = desk.board.config().policy;
        let preview = desk.board.preview(&wish.query(&[]), now);
        drop(desk);
        let (chosen, rule, reason) = match preview {
            Ok((worker, rank, rule)) => (Some((worker, rank)), Some(rule.word()), None),
            Err(refusal) => (None, None, Some(refusal.to_string())),
        };
        RouteReport {
            policy: policy.word().to_owned(),
            prompt_tokens: u64::from(wish.prompt_tokens),
            chosen,
            rule,
            reason,
            candidates: candidates
                .into_iter()
                .map(|candidate| CandidateReport {
                    worker: candidate.worker,
                    rank: candidate.rank,
                    overlap_tokens: u64::from(candidate.overlap_tokens),
                    predicted_tokens: u64::from(candidate.predicted_tokens.max(candidate.overlap_tokens)),
                    load: load_report(candidate.load),
                    cost: candidate.cost,
                    excluded: candidate.unfit.map(|unfit| unfit.to_string()),
                })
                .collect(),
        }
    }
}

fn worker_report(worker: &Worker, loads: &BTreeMap<TargetId, Load>) -> WorkerReport {
    WorkerReport {
        id: worker.id.clone(),
        state: worker.state.word(),
        reason: worker.state.reason().or(worker.halt.halted().then_some(HALTED)).map(str::to_owned),
        engine: worker.info.as_deref().map(|info| engine_report(info, worker)),
        targets: worker.targets.iter().map(|target| target_report(target, loads)).collect(),
    }
}

fn engine_report(info: &EngineInfo, worker: &Worker) -> EngineReport {
    EngineReport {
        version: info.engine_version.clone(),
        instance: info.instance_id.clone(),
        models: info.identity.model.names.clone(),
        adapters: worker.adapters.to_vec(),
        multimodal: info.identity.model.multimodal,
        pixels: info.pixels,
        kv_replay: match info.kv_events {
            KvSupport::On { replay } => Some(replay),
            KvSupport::Off(_) => None,
        },
        data_parallel_size: info.identity.parallelism.data,
    }
}

fn target_report(target: &Target, loads: &BTreeMap<TargetId, Load>) -> TargetReport {
    let load = loads.get(&target.id).copied().unwrap_or_default();
    TargetReport {
        rank: target.rank,
        capacity_tokens: target.capacity_tokens,
        load: load_report(load),
        others_unknown: target.load_problem(),
        index: target.report(),
    }
}

fn load_report(load: Load) -> LoadReport {
    LoadReport {
        in_flight: load.continuations,
        prefill_tokens: load.prefill_tokens,
        decode_tokens: load.decode_tokens,
        other_requests: load.others.map(|others| others.continuations),
        other_tokens: load.others.map(|others| others.tokens),
    }
}
