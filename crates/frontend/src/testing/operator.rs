use std::future::ready;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tito_types::{
    Adapter, CandidateReport, ClearReport, EngineError, EngineReport, GenerateRequest, IndexReport,
    KvCounters, LoadReport, RouteReport, TargetReport, WorkerId, WorkerReport,
};

use crate::Operator;

/// One worker `w`; a request goes to the rank it pins, or nowhere.
pub(crate) struct ToyOperator;

impl Operator for ToyOperator {
    fn workers(&self) -> Vec<WorkerReport> {
        let index = IndexReport {
            state: "off",
            reason: Some("it publishes no events".to_owned()),
            block_tokens: 16,
            blocks: [0; 3],
            media: "off",
            media_inexact: None,
            not_compared: None,
            counters: KvCounters::default(),
        };
        let target = TargetReport {
            rank: 0,
            capacity_tokens: 64,
            load: LoadReport::default(),
            others_unknown: None,
            index,
        };
        let engine = EngineReport {
            version: "0.32.0".to_owned(),
            instance: "i".to_owned(),
            models: vec!["m".to_owned()],
            adapters: vec![Adapter { name: "a".into(), id: 1, source: "/a".into() }],
            multimodal: false,
            pixels: None,
            kv_replay: None,
            data_parallel_size: 1,
        };
        vec![WorkerReport {
            id: WorkerId::new("w"),
            state: "ready",
            reason: None,
            engine: Some(engine),
            targets: vec![target],
        }]
    }

    /// `w` has cached something and is idle; there is no other.
    fn clear_caches(
        &self,
        workers: Vec<WorkerId>,
        running: bool,
    ) -> BoxFuture<'static, Result<Vec<ClearReport>, EngineError>> {
        let worker = WorkerId::new("w");
        if workers.iter().any(|id| *id != worker) {
            let message = "no worker is called that".to_owned();
            return ready(Err(EngineError::Invalid { param: "worker".to_owned(), message })).boxed();
        }
        let error = running.then(|| "nothing runs".to_owned());
        let done = async move {
            tokio::task::yield_now().await;
            Ok(vec![ClearReport { worker, error }])
        };
        done.boxed()
    }

    fn explain(&self, request: &GenerateRequest) -> RouteReport {
        let worker = WorkerId::new("w");
        let chosen = request.rank.map(|rank| (worker.clone(), rank));
        let reason = chosen.is_none().then(|| "nothing is pinned".to_owned());
        let candidate = CandidateReport {
            worker,
            rank: request.rank.unwrap_or(0),
            overlap_tokens: 0,
            predicted_tokens: 0,
            load: LoadReport::default(),
            cost: request.prompt.len() as f64,
            excluded: None,
        };
        RouteReport {
            policy: "toy".to_owned(),
            prompt_tokens: request.prompt.len() as u64,
            rule: chosen.is_some().then_some("pin"),
            chosen,
            reason,
            candidates: vec![candidate],
        }
    }
}
