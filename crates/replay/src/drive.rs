//! One policy over one trace: arrivals, steps and news in the order of virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tito_engine_sim::{Model, ModelConfig, hash_bytes};
use tito_policy::{
    Board, BoardConfig, Group, Overlap, PolicyKind, Prefix, Query, Refusal, Slot, SlotSpec, Ticket,
};
use tito_types::WorkerId;

use crate::content::Content;
use crate::prompts::Prompts;
use crate::random::Random;
use crate::residency::Residency;
use crate::worker::Worker;
use crate::{Arrivals, ReplayConfig, TraceRequest};

mod outcome;

pub use outcome::Served;

/// Requests between two reports of progress.
const PROGRESS_EVERY: u64 = 64;

/// What happens next, in this order where it happens at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A worker's step is over.
    StepOver(u32),
    /// The index hears of a worker's oldest step that it does not know.
    News(u32),
    /// A worker can schedule a request that was sent to it.
    Reached { worker: u32, request: u32 },
    /// The request at this place of the order arrives.
    Arrival(u32),
}

/// What became of one request.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    ticket: Option<Ticket>,
    worker: Option<u32>,
    cached_tokens: u32,
    known_tokens: u32,
    arrived: Duration,
    started: Option<Duration>,
    first_token: Option<Duration>,
    ended: Option<Duration>,
}

pub(crate) struct Drive<'a> {
    trace: &'a [TraceRequest],
    prompts: &'a Prompts,
    config: &'a ReplayConfig,
    policy: PolicyKind,
    board: Board,
    slots: Vec<Slot>,
    residency: Residency,
    workers: Vec<Worker>,
    agenda: BinaryHeap<Reverse<(Duration, Event)>>,
    records: Vec<Record>,
    /// Requests that wait in the router; at most the trace.
    waiting: VecDeque<u32>,
    queued: u64,
    over: u64,
    lost_batches: u64,
    overlaps: Vec<Overlap>,
    random: Random,
}

impl<'a> Drive<'a> {
    pub(crate) fn new(
        trace: &'a [TraceRequest],
        prompts: &'a Prompts,
        config: &'a ReplayConfig,
        policy: PolicyKind,
    ) -> Self {
        let mut board = Board::new(BoardConfig { policy, ..config.board });
        let spec = |worker: u32| SlotSpec {
            worker: WorkerId::new(&format!("worker-{worker:04}")),
            rank: 0,
            group: Group(0),
            capacity_tokens: config.engine.capacity_tokens,
            running_max: config.engine.running_max,
            continuations_max: config.in_flight_max.max(1),
        };
        let slots: Vec<Slot> = (0..config.workers).map(|worker| board.add(spec(worker))).collect();
        for &slot in &slots[config.partial_workers as usize..] {
            board.set_known(slot, true);
        }
        // Outputs are scripted, so the model decides nothing.
        let model = Arc::new(Model::new(ModelConfig {
            seed: config.seed,
            vocabulary_rows: 2,
            ordinary_ids: 1,
            eos_id: 1,
            eos_probability: 0.0,
        }));
        Self {
            trace,
            prompts,
            config,
            policy,
            board,
            slots,
            residency: Residency::new(config),
            workers: (0..config.workers).map(|_| Worker::new(&config.engine, &model)).collect(),
            agenda: BinaryHeap::new(),
            records: vec![Record::default(); trace.len()],
            waiting: VecDeque::new(),
            queued: 0,
            over: 0,
            lost_batches: 0,
            overlaps: Vec::new(),
            random: Random::new(config.seed),
        }
    }

    /// Runs everything to its end.
    pub(crate) fn run(&mut self, progress: &mut dyn FnMut(u64)) {
        self.schedule_recorded(0);
        let mut reported = 0;
        while let Some(Reverse((now, event))) = self.agenda.pop() {
            match event {
                Event::Arrival(place) => self.arrive(place, now),
                Event::Reached { worker, request } => self.reach(worker, request, now),
                Event::StepOver(worker) => self.step_over(worker, now),
                Event::News(worker) => self.hear(worker),
            }
            if self.over >= reported + PROGRESS_EVERY {
                reported = self.over;
                progress(reported);
            }
        }
    }

    /// Schedules the next arrival that does not wait for a reply, from this place of the order on.
    fn schedule_recorded(&mut self, from: u32) {
        let waits = |&&request: &&u32| {
            self.config.arrivals == Arrivals::AfterReply
                && self.prompts.turns.previous[request as usize].is_some()
        };
        let skipped = self.prompts.order[from as usize..].iter().take_while(waits).count() as u32;
        let place = from + skipped;
        if let Some(&request) = self.prompts.order.get(place as usize) {
            let at = self.prompts.arrivals[request as usize];
            self.agenda.push(Reverse((at, Event::Arrival(place))));
        }
    }

    fn arrive(&mut self, place: u32, now: Duration) {
        let request = self.prompts.order[place as usize];
        let follows = self.prompts.turns.previous[request as usize].is_some();
        if self.config.arrivals == Arrivals::Recorded || !follows {
            self.schedule_recorded(place + 1);
        }
        self.records[request as usize].arrived = now;
        // Nobody overtakes those who wait.
        if !self.waiting.is_empty() || !self.dispatch(request, now) {
            self.waiting.push_back(request);
            self.queued += 1;
        }
    }

    /// Sends a request to a worker. False if every worker is at its limit.
    fn dispatch(&mut self, index: u32, now: Duration) -> bool {
        let request = &self.trace[index as usize];
        let block_tokens = self.config.engine.block_tokens;
        let prefix = Prefix { block_tokens, chain: Arc::clone(&self.prompts.chains[index as usize]) };
        self.overlaps.clear();
        self.residency.find(&prefix.chain, |worker, blocks| {
            self.overlaps.push(Overlap {
                slot: self.slots[worker as usize],
                gpu_tokens: blocks * block_tokens,
                cpu_tokens: 0,
                storage_tokens: 0,
            });
        });
        let session = request.session_id.as_ref().filter(|_| self.config.session_affinity);
        let query = Query {
            groups: &[Group(0)],
            prompt_tokens: request.input_length,
            continuations: 1,
            overlaps: &self.overlaps,
            prefix: Some(&prefix),
            session: session.map(|name| hash_bytes(name.as_bytes())),
            pin: None,
            exclude: &[],
        };
        let choice = match self.board.choose(&query, now) {
            Ok(choice) => choice,
            Err(refusal) => {
                debug_assert_eq!(refusal, Refusal::Full, "workers of a replay are never gone");
                return false;
            }
        };
        let worker = self.slots.iter().position(|slot| *slot == choice.slot);
        let worker = worker.expect("the board knows the slots it was given") as u32;
        let record = &mut self.records[index as usize];
        record.known_tokens = choice.overlap_tokens;
        record.ticket = Some(choice.ticket);
        let at = now + self.config.engine.request_time;
        self.agenda.push(Reverse((at, Event::Reached { worker, request: index })));
        true
    }

    /// A request is at its worker, which can take it or never will.
    fn reach(&mut self, worker: u32, index: u32, now: Duration) {
        let Self { trace, prompts, config, .. } = *self;
        let request = &trace[index as usize];
        if config.engine.fits(request) {
            let content = Content { trace, turns: &prompts.turns, block_tokens: config.trace_block_tokens };
            let tokens = content.tokens(index);
            self.workers[worker as usize].submit(tokens, request.input_length, index);
            self.records[index as usize].worker = Some(worker);
            self.begin(worker, now);
        } else {
            self.end(index, now);
            self.dispatch_waiting(now);
        }
    }

    /// Lets a worker go on, if it can.
    fn begin(&mut self, worker: u32, now: Duration) {
        let engine = &mut self.workers[worker as usize];
        let Some(over) = engine.begin(now) else { return };
        for started in &engine.step.started {
            let record = &mut self.records[started.request.0 as usize];
            record.started = Some(now);
            record.cached_tokens = started.cached_tokens;
        }
        self.agenda.push(Reverse((over, Event::StepOver(worker))));
    }

    fn step_over(&mut self, worker: u32, now: Duration) {
        let engine = &mut self.workers[worker as usize];
        if let Some(events) = engine.end() {
            match engine.feed.send(events, now, &self.config.events, &mut self.random) {
                Some(at) => self.agenda.push(Reverse((at, Event::News(worker)))),
                None => self.lost_batches += 1,
            }
        }
        let outputs = std::mem::take(&mut engine.step.outputs);
        let mut ended = false;
        for output in &outputs {
            let record = &mut self.records[output.request.0 as usize];
            let Some(ticket) = record.ticket else { continue };
            if record.first_token.is_none() {
                record.first_token = Some(now);
                self.board.prefill_done(ticket, now);
            }
            self.board.grow(ticket, output.tokens.len() as u32);
            if output.finish.is_some() {
                record.ended = Some(now);
                self.end(output.request.0 as u32, now);
                ended = true;
            }
        }
        self.workers[worker as usize].step.outputs = outputs;
        if ended {
            self.dispatch_waiting(now);
        }
        self.begin(worker, now);
    }

    /// A request is over, answered or not: its place is free, and its user thinks.
    fn end(&mut self, index: u32, now: Duration) {
        if let Some(ticket) = self.records[index as usize].ticket.take() {
            self.board.end(ticket);
        }
        self.over += 1;
        let next = self.prompts.turns.next[index as usize];
        if let Some(next) = next.filter(|_| self.config.arrivals == Arrivals::AfterReply) {
            let at = now + self.prompts.thinking[next as usize];
            let place = self.prompts.places[next as usize];
            self.agenda.push(Reverse((at, Event::Arrival(place))));
        }
    }

    fn dispatch_waiting(&mut self, now: Duration) {
        while let Some(&request) = self.waiting.front() {
            if !self.dispatch(request, now) {
                break;
            }
            self.waiting.pop_front();
        }
    }

    /// The index hears of a step, or that it missed one.
    fn hear(&mut self, worker: u32) {
        let Some(batch) = self.workers[worker as usize].feed.receive() else { return };
        if batch.after_gap {
            self.residency.forget(worker);
            self.board.set_known(self.slots[worker as usize], false);
        }
        self.residency.apply(worker, &batch.events);
    }
}
