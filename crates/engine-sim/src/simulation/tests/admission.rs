//! Who starts when, and who is preempted when blocks run out.

use super::{Bench, config, ids};
use crate::request::{RequestId, SimRequest};
use crate::simulation::{PauseMode, SchedulingPolicy, SimConfig, Step};
use crate::timing::StepLoad;

/// Eleven blocks of four tokens: two sequences of six blocks outgrow them.
fn tight(policy: SchedulingPolicy) -> SimConfig {
    SimConfig { blocks: 11, max_sequence_tokens: 44, policy, ..config() }
}

fn add(bench: &mut Bench, id: u64, priority: i32, prompt: Vec<u32>, max_tokens: u32) {
    let request = SimRequest::new(RequestId(id), prompt, max_tokens);
    bench.sim.submit(SimRequest { priority, ..request }).unwrap();
}

#[test]
fn siblings_behind_a_busy_worker_compute_their_prompt_once() {
    // One request uses every block, sixteen others with one prompt wait behind it.
    let mut bench = Bench::new(SimConfig { blocks: 32, max_running: 32, max_step_tokens: 512, ..config() });
    bench.add(0, ids(500, 127), 1);
    for id in 1..=16 {
        bench.add(id, ids(0, 50), 1);
    }
    assert_eq!(bench.step(), "0+1 Length");
    bench.step();
    let cached: Vec<u32> = (1..=16).map(|id| bench.cached(id).unwrap()).collect();
    assert_eq!(cached, [&[0][..], &[48; 15]].concat(), "all start in one step, 12 blocks of 4 are shared");
    assert_eq!(bench.step.load.prefill_tokens, 50 + 15 * 2);
}

#[test]
fn all_of_a_prompt_must_fit_and_not_only_its_first_chunk() {
    let mut bench = Bench::new(SimConfig { max_step_tokens: 8, ..tight(SchedulingPolicy::Fcfs) });
    bench.add(1, ids(0, 6), 9);
    bench.add(2, ids(100, 39), 1);
    bench.step();
    assert_eq!((bench.sim.stats().running, bench.sim.stats().waiting), (1, 1), "ten blocks, nine are free");
    bench.finish(2);
    assert_eq!(bench.sim.stats().preemptions, 0);
    assert!(bench.log.iter().position(|line| line.contains("1+1 Length")) < Some(bench.log.len() - 1));
}

#[test]
fn the_policy_says_who_is_preempted() {
    for (policy, preempted) in [(SchedulingPolicy::Fcfs, 2), (SchedulingPolicy::Priority, 1)] {
        let mut bench = Bench::new(tight(policy));
        add(&mut bench, 1, 5, ids(0, 14), 10);
        bench.step();
        add(&mut bench, 2, 0, ids(100, 14), 10);
        while bench.sim.stats().preemptions == 0 {
            bench.step();
        }
        let others = bench.log.last().unwrap().clone();
        assert_eq!(others, format!("{}+1", 3 - preempted), "{policy:?}: the other one goes on");
        assert_eq!((bench.sim.stats().running, bench.sim.stats().waiting), (1, 1));
        bench.finish(preempted);
        assert_eq!(bench.sim.stats().preemptions, 1, "{policy:?}");
        assert!(bench.log.last().unwrap().starts_with(&format!("{preempted}+1 Length")), "{policy:?}");
    }
}

#[test]
fn what_was_planned_for_a_preempted_sequence_is_not_computed() {
    let mut bench = Bench::new(tight(SchedulingPolicy::Priority));
    add(&mut bench, 1, 5, ids(0, 24), 10);
    bench.step();
    add(&mut bench, 2, 0, ids(100, 16), 2);
    assert_eq!(bench.step(), "1+1, 2+1", "all eleven blocks are held");
    // The less urgent one comes first in the batch: its token is planned before the other one needs a block.
    assert_eq!(bench.step(), "2+1 Length");
    assert_eq!(
        bench.step.load,
        StepLoad { decode_sequences: 1, decode_context_tokens: 16, ..StepLoad::default() }
    );
    assert_eq!(bench.sim.stats().preemptions, 1);
    assert_eq!(bench.finish(1).len(), 8);
}

#[test]
fn output_that_is_computed_again_is_prefill() {
    let mut bench = Bench::new(config());
    bench.add(1, ids(0, 6), 20);
    for _ in 0..8 {
        bench.step();
    }
    assert_eq!((bench.step.load.prefill_tokens, bench.step.load.decode_sequences), (0, 1));
    bench.sim.pause(PauseMode::Keep, &mut Step::default());
    bench.sim.preempt_and_reset();
    bench.sim.resume();
    bench.step();
    // Six of the prompt and eight of output are known; the last one is what decodes.
    assert_eq!((bench.step.load.prefill_tokens, bench.step.load.decode_sequences), (13, 1));
    assert_eq!(bench.step.started, [], "it began before");
    let stats = bench.sim.stats();
    assert_eq!(
        (stats.prompt_tokens, stats.cache_queries_tokens),
        (6, 6),
        "the second look-up is not counted"
    );
}

#[test]
fn a_preempted_sequence_finds_what_it_left_in_the_cache() {
    let mut bench = Bench::new(config());
    bench.add(1, ids(0, 6), 20);
    for _ in 0..8 {
        bench.step();
    }
    let last = bench.sim.running.len() - 1;
    bench.sim.preempt(last);
    bench.step();
    // Thirteen tokens were computed: three blocks are found, one token is computed again and one decodes.
    assert_eq!((bench.step.load.prefill_tokens, bench.step.load.decode_sequences), (1, 1));
}

#[test]
fn a_waiting_pause_does_not_wait_for_what_was_preempted() {
    let mut bench = Bench::new(tight(SchedulingPolicy::Fcfs));
    bench.add(1, ids(0, 14), 10);
    bench.add(2, ids(100, 14), 10);
    bench.step();
    bench.sim.pause(PauseMode::Wait, &mut Step::default());
    let delivered = bench.finish(2).len();
    assert!(bench.sim.drained() && !bench.sim.idle(), "the first has ended, the second waits");
    bench.sim.resume();
    assert_eq!(1 + delivered + bench.finish(2).len(), 10);
}
