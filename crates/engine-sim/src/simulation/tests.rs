//! The scheduler step by step. The prefix cache is in [`cache`], who starts and who is preempted in [`admission`], whole
//! random runs are in [`properties`].

use std::sync::Arc;
use std::time::Duration;

use super::{Error, KvEvent, PauseMode, SchedulingPolicy, SimConfig, Simulation, Step};
use crate::model::{Model, ModelConfig};
use crate::request::{Finish, RequestId, Script, SimRequest};
use crate::timing::{StepLoad, Timing};

mod admission;
mod cache;
mod properties;

fn config() -> SimConfig {
    SimConfig {
        block_tokens: 4,
        blocks: 64,
        max_sequence_tokens: 128,
        max_running: 8,
        max_step_tokens: 64,
        max_waiting: 100,
        policy: SchedulingPolicy::Fcfs,
        kv_events: true,
        timing: Timing::INSTANT,
    }
}

fn model() -> Arc<Model> {
    let config = ModelConfig {
        seed: 1,
        vocabulary_rows: 1024,
        ordinary_ids: 1000,
        eos_id: 1002,
        eos_probability: 0.0,
    };
    Arc::new(Model::new(config))
}

/// A simulation with a log of what its steps said.
struct Bench {
    sim: Simulation,
    step: Step,
    now: Duration,
    log: Vec<String>,
}

impl Bench {
    fn new(config: SimConfig) -> Self {
        let sim = Simulation::new(config, model());
        Self { sim, step: Step::default(), now: Duration::ZERO, log: Vec::new() }
    }

    fn add(&mut self, id: u64, prompt: Vec<u32>, max_tokens: u32) {
        self.sim.submit(SimRequest::new(RequestId(id), prompt, max_tokens)).unwrap();
    }

    /// One step; returns who got how many tokens and who ended.
    fn step(&mut self) -> String {
        self.sim.step(self.now, &mut self.step);
        self.now += self.step.length;
        let outputs = self.step.outputs.iter().map(|output| {
            let end = output.finish.map_or(String::new(), |finish| format!(" {finish:?}"));
            format!("{}+{}{end}", output.request.0, output.tokens.len())
        });
        let line = outputs.collect::<Vec<_>>().join(", ");
        self.log.push(line.clone());
        line
    }

    /// Steps until nothing is due; returns the ids of one request.
    fn finish(&mut self, of: u64) -> Vec<u32> {
        let mut ids = Vec::new();
        for _ in 0..10_000 {
            let Some(due) = self.sim.next_due(self.now) else { return ids };
            self.now = due;
            self.step();
            let outputs = self.step.outputs.iter().filter(|output| output.request == RequestId(of));
            ids.extend(outputs.flat_map(|output| self.step.tokens_of(output)).map(|token| token.id));
        }
        panic!("the simulation never came to rest: {:?}", &self.log[self.log.len() - 5..]);
    }

    fn cached(&self, of: u64) -> Option<u32> {
        let mut started = self.step.started.iter();
        started.find(|started| started.request == RequestId(of)).map(|started| started.cached_tokens)
    }
}

fn ids(from: u32, count: u32) -> Vec<u32> {
    (from..from + count).collect()
}

#[test]
fn a_long_prompt_is_prefilled_in_chunks_beside_decoding() {
    let mut bench = Bench::new(SimConfig { max_step_tokens: 10, ..config() });
    bench.add(1, ids(0, 4), 6);
    assert_eq!(bench.step(), "1+1");
    bench.add(2, ids(100, 25), 2);
    assert_eq!(bench.step(), "1+1");
    assert_eq!((bench.step.load.prefill_tokens, bench.step.load.decode_sequences), (9, 1));
    assert_eq!(bench.step(), "1+1");
    assert_eq!(bench.step(), "1+1, 2+1", "9 + 9 + 7 tokens of prefill");
    assert_eq!(bench.step.load.prefill_tokens, 7);
    assert_eq!(bench.step(), "1+1, 2+1 Length");
}

#[test]
fn the_batch_is_bounded_and_the_queue_is_served_in_order() {
    let mut bench = Bench::new(SimConfig { max_running: 2, ..config() });
    for id in 1..=4 {
        bench.add(id, ids(id as u32 * 50, 3), 2);
    }
    assert_eq!(bench.step(), "1+1, 2+1");
    assert_eq!((bench.sim.stats().running, bench.sim.stats().waiting), (2, 2));
    assert_eq!(bench.step(), "1+1 Length, 2+1 Length");
    assert_eq!(bench.step(), "3+1, 4+1");
}

#[test]
fn lower_priority_numbers_run_first_where_the_policy_looks_at_them() {
    for (policy, expected) in
        [(SchedulingPolicy::Fcfs, [1, 2, 3, 4]), (SchedulingPolicy::Priority, [3, 2, 4, 1])]
    {
        let mut bench = Bench::new(SimConfig { max_running: 1, policy, ..config() });
        for (id, priority) in [(1, 5), (2, 0), (3, -1), (4, 0)] {
            let request = SimRequest::new(RequestId(id), ids(id as u32 * 50, 3), 1);
            bench.sim.submit(SimRequest { priority, ..request }).unwrap();
        }
        let order: Vec<String> = (0..4).map(|_| bench.step()).collect();
        assert_eq!(order, expected.map(|id| format!("{id}+1 Length")), "{policy:?}");
    }
}

#[test]
fn a_pause_ends_finishes_or_freezes_what_runs() {
    for mode in [PauseMode::Abort, PauseMode::Wait, PauseMode::Keep] {
        let mut bench = Bench::new(SimConfig { max_running: 1, ..config() });
        bench.add(1, ids(0, 3), 3);
        bench.step();
        bench.add(2, ids(50, 3), 1);
        bench.sim.pause(mode, &mut bench.step);
        let aborted = bench.step.outputs.len();
        bench.add(3, ids(100, 3), 1);
        assert_eq!(aborted, if mode == PauseMode::Abort { 2 } else { 0 }, "{mode:?}");
        assert_eq!(bench.finish(1).len(), if mode == PauseMode::Wait { 2 } else { 0 });
        assert_eq!(bench.sim.drained(), mode != PauseMode::Keep);
        assert_eq!(bench.sim.reset_prefix_cache(), mode != PauseMode::Keep, "frozen sequences hold blocks");
        assert!(!bench.sim.idle(), "new requests wait in every mode");
        bench.sim.resume();
        assert_eq!(bench.finish(1).len(), if mode == PauseMode::Keep { 2 } else { 0 });
        assert!(bench.sim.idle());
    }
}

#[test]
fn clearing_takes_the_blocks_of_what_runs_and_changes_no_token() {
    let alone = |clear: bool| {
        let mut bench = Bench::new(config());
        bench.add(1, ids(0, 30), 9);
        bench.step();
        let mut output = vec![bench.step.tokens[0].id];
        if clear {
            bench.sim.pause(PauseMode::Keep, &mut Step::default());
            bench.sim.preempt_and_reset();
            assert_eq!((bench.sim.stats().cached_blocks, bench.sim.stats().preemptions), (0, 1));
            bench.sim.resume();
            bench.step();
            assert!(matches!(bench.step.events[..], [KvEvent::Cleared, KvEvent::Stored(_)]));
            output.push(bench.step.tokens[0].id);
        }
        output.extend(bench.finish(1));
        output
    };
    assert_eq!(alone(true), alone(false));
}

#[test]
fn an_abort_frees_running_and_waiting_requests() {
    let mut bench = Bench::new(SimConfig { max_running: 1, ..config() });
    bench.add(1, ids(0, 30), 50);
    bench.add(2, ids(50, 3), 1);
    bench.step();
    assert!(bench.sim.abort(RequestId(2)));
    assert!(bench.sim.abort(RequestId(1)));
    assert!(!bench.sim.abort(RequestId(1)));
    assert!(bench.sim.idle());
    assert_eq!(bench.sim.stats().free_blocks, 64);
    assert_eq!(bench.sim.next_due(bench.now), None);
}

#[test]
fn a_stalled_request_keeps_its_place_and_others_go_on() {
    let mut bench = Bench::new(SimConfig { blocks: 8, max_sequence_tokens: 32, max_running: 2, ..config() });
    for (id, stall_after) in [(1, 0), (2, 2)] {
        let request = SimRequest::new(RequestId(id), ids(id as u32 * 50, 3), 5);
        bench.sim.submit(SimRequest { stall_after: Some(stall_after), ..request }).unwrap();
    }
    assert_eq!((bench.finish(1).len(), bench.sim.stats().running), (0, 2));
    bench.add(3, ids(200, 30), 1);
    assert_eq!(bench.sim.next_due(bench.now), None, "the batch is full of stalled requests");
    bench.sim.abort(RequestId(1));
    assert_eq!(bench.finish(3).len(), 0, "the other one holds blocks that it needs");
    assert_eq!(bench.sim.next_due(bench.now), None, "and trying again is no use");
    bench.sim.abort(RequestId(2));
    assert_eq!(bench.finish(3).len(), 1);
}

#[test]
fn a_pace_holds_back_one_request_only() {
    let mut bench = Bench::new(config());
    let request = SimRequest::new(RequestId(1), ids(0, 3), 3);
    bench.sim.submit(SimRequest { pace: Duration::from_secs(1), ..request }).unwrap();
    bench.add(2, ids(50, 3), 3);
    assert_eq!(
        (bench.step(), bench.step(), bench.step()),
        ("1+1, 2+1".into(), "2+1".into(), "2+1 Length".into())
    );
    assert_eq!(bench.sim.next_due(bench.now), Some(Duration::from_secs(1)));
    bench.now = Duration::from_secs(1);
    assert_eq!(bench.step(), "1+1");
    assert_eq!(bench.finish(1).len(), 1);
    assert_eq!(bench.now, Duration::from_secs(2));
}

#[test]
fn steps_take_time_by_what_they_compute() {
    let timing = Timing {
        step: Duration::from_millis(5),
        prefill_token: Duration::from_millis(1),
        decode_sequence: Duration::from_millis(2),
        speed: 2.0,
        ..Timing::INSTANT
    };
    let mut bench = Bench::new(SimConfig { timing, ..config() });
    bench.add(1, ids(0, 10), 3);
    bench.step();
    assert_eq!(bench.step.length, Duration::from_micros(7500));
    bench.add(2, ids(50, 4), 1);
    bench.step();
    assert_eq!(bench.step.length, Duration::from_micros(5500));
    // The first decodes after 10 tokens while the second's prompt is new.
    let expected =
        StepLoad { prefill_tokens: 4, prefill_pairs: 10, decode_sequences: 1, decode_context_tokens: 10 };
    assert_eq!(bench.step.load, expected);
}

#[test]
fn scripts_stop_ids_and_several_tokens_per_step_end_where_they_say() {
    let request = SimRequest::new(RequestId(1), ids(0, 3), 9);
    let script = |told: &[u32], then| Some(Script { ids: told.to_vec(), then });
    let scripted = |told: &[u32], then| SimRequest { script: script(told, then), ..request.clone() };
    let ignoring = SimRequest { ignore_eos: true, max_tokens: 3, ..scripted(&[1002, 1002, 8], None) };
    let stopping = SimRequest { stop_ids: vec![7], min_tokens: 2, ..scripted(&[7, 7, 7], None) };
    for (request, expected) in [
        (scripted(&[7, 8], Some(Finish::Error)), "1+1; 1+1 Error"),
        (scripted(&[], Some(Finish::Aborted)), "1+0 Aborted"),
        (scripted(&[7, 1002, 8], None), "1+1; 1+1 Stop(Eos)"),
        (ignoring, "1+1; 1+1; 1+1 Length"),
        (stopping, "1+1; 1+1 Stop(Id(7))"),
        (SimRequest { tokens_per_step: 4, ..request.clone() }, "1+4; 1+4; 1+1 Length"),
    ] {
        let mut bench = Bench::new(config());
        bench.sim.submit(request).unwrap();
        bench.finish(1);
        assert_eq!(bench.log.join("; "), expected);
    }
}

#[test]
fn the_end_of_the_context_ends_the_output() {
    let mut bench = Bench::new(config());
    bench.add(1, ids(0, 120), 100);
    assert_eq!(bench.finish(1).len(), 8);
}

#[test]
fn what_cannot_run_is_refused() {
    let mut bench = Bench::new(SimConfig { max_waiting: 2, ..config() });
    let refuse =
        |sim: &mut Simulation, prompt, id| sim.submit(SimRequest::new(RequestId(id), prompt, 1)).unwrap_err();
    let too_long = |tokens| Error::TooLong { prompt_tokens: tokens, max_tokens: tokens };
    assert_eq!(refuse(&mut bench.sim, vec![], 1), Error::EmptyPrompt);
    assert_eq!(refuse(&mut bench.sim, ids(0, 128), 1), too_long(128));
    bench.add(1, ids(0, 3), 1);
    assert_eq!(refuse(&mut bench.sim, ids(0, 3), 1), Error::Duplicate(RequestId(1)));
    bench.add(2, ids(0, 3), 1);
    assert_eq!(refuse(&mut bench.sim, ids(0, 3), 3), Error::QueueFull { waiting: 2 });
    let mut small = Bench::new(SimConfig { blocks: 2, ..config() });
    assert_eq!(refuse(&mut small.sim, ids(0, 8), 1), too_long(8));
}
