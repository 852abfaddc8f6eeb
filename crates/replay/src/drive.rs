//! One policy over one trace: arrivals, steps and news in the order of virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tito_engine_sim::{Model, ModelConfig};
use tito_policy::{
    Board, BoardConfig, Group, Overlap, PolicyKind, Prefix, Query, Refusal, Slot, SlotSpec, Ticket,
};
use tito_types::WorkerId;

use crate::bounds::{one_cache, placed};
use crate::residency::Residency;
use crate::trace::Prompts;
use crate::worker::Worker;
use crate::{Balance, BestHitRates, PolicyReport, ReplayConfig, Spread, TraceRequest};

/// Requests between two reports of progress.
const PROGRESS_EVERY: u64 = 64;

/// What happens next, in this order where it happens at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A worker's step is over.
    StepOver(u32),
    /// The index hears of a worker's oldest step that it does not know.
    News(u32),
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
    overlaps: Vec<Overlap>,
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
        for &slot in &slots {
            board.set_known(slot, true);
        }
        // Outputs are told, so the model decides nothing.
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
            overlaps: Vec::new(),
        }
    }

    pub(crate) fn run(mut self, progress: &mut dyn FnMut(u64)) -> PolicyReport {
        self.schedule_arrival(0);
        let mut now = Duration::ZERO;
        let mut told = 0;
        while let Some(Reverse((at, event))) = self.agenda.pop() {
            now = at;
            match event {
                Event::Arrival(place) => {
                    self.schedule_arrival(place + 1);
                    let request = self.prompts.order[place as usize];
                    // Nobody overtakes those who wait.
                    if !self.waiting.is_empty() || !self.dispatch(request, now) {
                        self.waiting.push_back(request);
                        self.queued += 1;
                    }
                }
                Event::StepOver(worker) => self.step_over(worker, now),
                Event::News(worker) => {
                    let news = self.workers[worker as usize].news.pop_front().unwrap_or_default();
                    self.residency.apply(worker, &news);
                }
            }
            if self.over >= told + PROGRESS_EVERY {
                told = self.over;
                progress(told);
            }
        }
        self.report(now)
    }

    fn schedule_arrival(&mut self, place: u32) {
        if let Some(&request) = self.prompts.order.get(place as usize) {
            let at = self.prompts.arrivals[request as usize];
            self.agenda.push(Reverse((at, Event::Arrival(place))));
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
        let query = Query {
            groups: &[Group(0)],
            prompt_tokens: request.input_length,
            continuations: 1,
            overlaps: &self.overlaps,
            prefix: Some(&prefix),
            session: None,
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
        if self.workers[worker as usize].submit(request, index) {
            record.ticket = Some(choice.ticket);
            record.worker = Some(worker);
            self.begin(worker, now);
        } else {
            self.board.end(choice.ticket);
            self.over += 1;
        }
        true
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
        if engine.end() {
            self.agenda.push(Reverse((now + self.config.event_delay, Event::News(worker))));
        }
        let mut ended = false;
        for output in &engine.step.outputs {
            let record = &mut self.records[output.request.0 as usize];
            let Some(ticket) = record.ticket else { continue };
            if record.first_token.is_none() {
                record.first_token = Some(now);
                self.board.prefill_done(ticket, now);
            }
            self.board.grow(ticket, output.tokens.len() as u32);
            if output.finish.is_some() {
                record.ended = Some(now);
                self.board.end(ticket);
                self.over += 1;
                ended = true;
            }
        }
        while ended && let Some(&request) = self.waiting.front() {
            if !self.dispatch(request, now) {
                break;
            }
            self.waiting.pop_front();
        }
        self.begin(worker, now);
    }

    fn report(self, end: Duration) -> PolicyReport {
        let Self { trace, prompts, config, .. } = self;
        let since = |time: fn(&Record) -> Option<Duration>| -> Vec<f64> {
            let pairs = self.records.iter().zip(&prompts.arrivals);
            pairs
                .filter_map(|(record, arrival)| Some(time(record)?.saturating_sub(*arrival).as_secs_f64()))
                .collect()
        };
        let completed = self.records.iter().filter(|record| record.ended.is_some()).count() as u64;
        let prompt_tokens: u64 = trace.iter().map(|request| u64::from(request.input_length)).sum();
        let share = |tokens: fn(&Record) -> u32| {
            self.records.iter().map(|record| u64::from(tokens(record))).sum::<u64>() as f64
                / prompt_tokens.max(1) as f64
        };
        let places: Vec<Option<u32>> = self.records.iter().map(|record| record.worker).collect();
        let block_tokens = config.engine.block_tokens;
        let (ttft, ttft_quantiles) = Spread::of(since(|record| record.first_token));
        let requests: Vec<u64> = self.workers.iter().map(|worker| worker.requests).collect();
        let prefill_tokens = self.workers.iter().map(|worker| worker.prefill_tokens).collect();
        PolicyReport {
            policy: self.policy.word(),
            completed,
            rejected: trace.len() as u64 - completed,
            hit_rate: share(|record| record.cached_tokens),
            known_hit_rate: share(|record| record.known_tokens),
            best: BestHitRates {
                one_cache: one_cache(trace, prompts, block_tokens),
                fleet: placed(trace, prompts, &places, config.workers, block_tokens),
            },
            wait: Spread::of(since(|record| record.started)).0,
            queued: self.queued,
            ttft,
            ttft_quantiles,
            e2e: Spread::of(since(|record| record.ended)).0,
            balance: Balance::of(prefill_tokens, &requests),
            preemptions: self.workers.iter().map(|worker| worker.simulation.stats().preemptions).sum(),
            seconds: end.as_secs_f64(),
        }
    }
}
