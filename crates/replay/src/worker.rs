//! One simulated engine in virtual time.

use std::sync::Arc;
use std::time::Duration;

use tito_engine_sim::{Finish, Model, RequestId, Script, SimRequest, Simulation, Step};
use tito_types::KvEvent;

use crate::EngineProfile;
use crate::feed::Feed;
use crate::residency::events;

/// An engine, and the step it is in.
pub(crate) struct Worker {
    pub(crate) simulation: Simulation,
    /// What is true once the step is over.
    pub(crate) step: Step,
    busy: bool,
    /// Events of steps that are over, on their way to the index.
    pub(crate) feed: Feed,
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
            feed: Feed::default(),
            block_tokens: profile.block_tokens,
            prefill_tokens: 0,
            requests: 0,
        }
    }

    /// Queues a request that fits the engine. `tokens` are `input_length` of the prompt, then the output.
    pub(crate) fn submit(&mut self, mut tokens: Vec<u32>, input_length: u32, index: u32) {
        let ids = tokens.split_off(input_length as usize);
        let length = ids.len() as u32;
        let script = Script { ids, then: Some(Finish::Length) };
        let request = SimRequest {
            ignore_eos: true,
            script: Some(script),
            ..SimRequest::new(RequestId(u64::from(index)), tokens, length)
        };
        self.simulation.submit(request).expect("a request that fits, under an id of its own");
        self.requests += 1;
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

    /// The step is over. What the index has to hear of it.
    pub(crate) fn end(&mut self) -> Option<Vec<KvEvent>> {
        self.busy = false;
        let some = !self.step.events.is_empty();
        some.then(|| events(&self.step.events, self.block_tokens))
    }
}
