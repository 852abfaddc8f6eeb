//! One simulated engine in virtual time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tito_engine_sim::{Finish, Model, RequestId, Script, SimRequest, Simulation, Step};
use tito_types::KvEvent;

use crate::residency::events;
use crate::trace::{output, tokens};
use crate::{EngineProfile, TraceRequest};

/// An engine, and the step it is in.
pub(crate) struct Worker {
    pub(crate) simulation: Simulation,
    /// What is true once the step is over.
    pub(crate) step: Step,
    busy: bool,
    /// Events of steps that are over, until the index hears of them.
    pub(crate) news: VecDeque<Vec<KvEvent>>,
    block_tokens: u32,
    pub(crate) prefill_tokens: u64,
    pub(crate) requests: u64,
}

impl Worker {
    pub(crate) fn new(profile: &EngineProfile, model: &Arc<Model>) -> Self {
        Self {
            simulation: Simulation::new(profile.sim_config(), Arc::clone(model)),
            step: Step::default(),
            busy: false,
            news: VecDeque::new(),
            block_tokens: profile.block_tokens,
            prefill_tokens: 0,
            requests: 0,
        }
    }

    /// False if the engine cannot take it, ever.
    pub(crate) fn submit(&mut self, request: &TraceRequest, index: u32) -> bool {
        let prompt = tokens(request, index as usize, self.block_tokens);
        let ids = output(request, index as usize);
        let length = ids.len() as u32;
        let script = Script { ids, then: Some(Finish::Length) };
        let request = SimRequest {
            ignore_eos: true,
            script: Some(script),
            ..SimRequest::new(RequestId(u64::from(index)), prompt, length)
        };
        let accepted = self.simulation.submit(request).is_ok();
        self.requests += u64::from(accepted);
        accepted
    }

    /// Begins the next step, if there is something to do and none is under way. When it will be over.
    pub(crate) fn begin(&mut self, now: Duration) -> Option<Duration> {
        if self.busy || self.simulation.next_due(now).is_none_or(|due| due > now) {
            return None;
        }
        self.simulation.step(now, &mut self.step);
        self.busy = true;
        self.prefill_tokens += u64::from(self.step.load.prefill_tokens);
        Some(now + self.step.length)
    }

    /// The step is over. True if the index has something to hear.
    pub(crate) fn end(&mut self) -> bool {
        self.busy = false;
        if self.step.events.is_empty() {
            return false;
        }
        self.news.push_back(events(&self.step.events, self.block_tokens));
        true
    }
}
