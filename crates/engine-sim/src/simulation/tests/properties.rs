//! Whole runs under random requests.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::{Simulation, Step, config, model};
use crate::blocks::{BlockHash, KvEvent};
use crate::request::{RequestId, SimRequest};
use crate::sampling::Sampling;
use crate::simulation::{PauseMode, SimConfig};

#[derive(Debug, Clone)]
struct Ask {
    request: SimRequest,
    /// Steps after the previous request.
    gap: u32,
    /// Steps after which it is aborted.
    abort_after: Option<u32>,
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    // Few ids and short prompts, so that prefixes are often shared.
    let prompt = prop::collection::vec(0u32..2, 1..40);
    let sampled = (prop::option::weighted(0.2, 0u64..2), -1i32..2, prop::option::of(0i64..3), 1u32..4);
    let times = (0u32..3, prop::option::weighted(0.2, 0u32..15));
    let ask =
        (prompt, 1u32..20, sampled, times).prop_map(|(prompt, max_tokens, sampled, (gap, abort_after))| {
            let (salt, priority, seed, tokens_per_step) = sampled;
            let temperature = if seed.is_some() { 1.0 } else { 0.0 };
            let sampling = Sampling { temperature, seed, ..Sampling::greedy() };
            let plain = SimRequest::new(RequestId(0), prompt, max_tokens);
            Ask {
                request: SimRequest { salt, priority, sampling, tokens_per_step, ..plain },
                gap,
                abort_after,
            }
        });
    prop::collection::vec(ask, 1..25)
}

fn tight() -> impl Strategy<Value = SimConfig> {
    (16u32..40, 1u32..6, 1u32..30).prop_map(|(blocks, max_running, max_step_tokens)| SimConfig {
        blocks,
        max_running,
        max_step_tokens,
        max_sequence_tokens: 60,
        ..config()
    })
}

fn numbered(index: usize, request: &SimRequest) -> SimRequest {
    SimRequest { id: RequestId(index as u64), ..request.clone() }
}

/// What a run made of the requests.
#[derive(Debug, Default, PartialEq)]
struct Run {
    outputs: BTreeMap<u64, Vec<u32>>,
    ends: BTreeMap<u64, u32>,
    events: Vec<KvEvent>,
    steps: u32,
}

/// Runs all requests to their end. Every step must make progress.
fn run(sim: &mut Simulation, asks: &[Ask]) -> Run {
    let (mut run, mut step, mut at) = (Run::default(), Step::default(), 0);
    let mut arrivals: Vec<(u32, usize)> = Vec::new();
    for (index, ask) in asks.iter().enumerate() {
        at += ask.gap;
        arrivals.push((at, index));
    }
    while !arrivals.is_empty() || !sim.idle() {
        arrivals.retain(|(at, index)| {
            if *at <= run.steps {
                sim.submit(numbered(*index, &asks[*index].request)).unwrap();
            }
            *at > run.steps
        });
        for (index, ask) in asks.iter().enumerate() {
            let arrived = !arrivals.iter().any(|(_, waiting)| *waiting == index);
            let due = ask.abort_after.is_some_and(|after| run.steps >= after);
            if arrived && due && sim.abort(RequestId(index as u64)) {
                *run.ends.entry(index as u64).or_default() += 1;
            }
        }
        sim.step(Duration::ZERO, &mut step);
        for output in &step.outputs {
            let ids = step.tokens_of(output).iter().map(|token| token.id);
            run.outputs.entry(output.request.0).or_default().extend(ids);
            if output.finish.is_some() {
                *run.ends.entry(output.request.0).or_default() += 1;
            }
        }
        run.events.append(&mut step.events);
        run.steps += 1;
        assert!(run.steps < 20_000, "no progress");
    }
    run
}

/// Blocks that a listener of the events believes to be cached. It counts copies, since a block goes with its last one. A
/// block is told after its parent, and lost before it.
fn believed(events: &[KvEvent]) -> usize {
    let mut known: BTreeMap<BlockHash, (Option<BlockHash>, u32)> = BTreeMap::new();
    for event in events {
        match event {
            KvEvent::Stored(stored) => {
                let mut parent = stored.parent;
                for &block in &stored.blocks {
                    assert!(parent.is_none_or(|parent| known.contains_key(&parent)));
                    let copies = known.entry(block).or_insert((parent, 0));
                    assert_eq!(copies.0, parent, "a name has one content");
                    copies.1 += 1;
                    parent = Some(block);
                }
            }
            KvEvent::Removed(blocks) => blocks.iter().for_each(|block| {
                let copies = known.get_mut(block).expect("only what is cached is lost");
                copies.1 -= 1;
                if copies.1 == 0 {
                    known.remove(block);
                    let orphan = known.values().any(|(parent, _)| *parent == Some(*block));
                    assert!(!orphan, "a child outlives its parent");
                }
            }),
            KvEvent::Cleared => known.clear(),
        }
    }
    known.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_same_requests_give_the_same_run(asks in asks(), config in tight()) {
        let once = run(&mut Simulation::new(config.clone(), model()), &asks);
        let again = run(&mut Simulation::new(config, model()), &asks);
        prop_assert_eq!(once, again);
    }

    #[test]
    fn every_request_ends_once_and_every_block_comes_back(asks in asks(), config in tight()) {
        let mut sim = Simulation::new(config.clone(), model());
        let run = run(&mut sim, &asks);
        prop_assert!(run.ends.values().all(|ends| *ends == 1));
        prop_assert_eq!(run.ends.len(), asks.len());
        let stats = sim.stats();
        prop_assert_eq!(stats.free_blocks, config.blocks);
        prop_assert_eq!(believed(&run.events), stats.cached_blocks as usize);
    }

    /// Batching, chunking, caching, preemption and company change when tokens come, never which.
    #[test]
    fn output_depends_on_ids_alone(asks in asks(), config in tight()) {
        let crowded = run(&mut Simulation::new(config, model()), &asks);
        for (index, ask) in asks.iter().enumerate().filter(|(_, ask)| ask.abort_after.is_none()) {
            let request = SimRequest { tokens_per_step: 1, ..ask.request.clone() };
            let alone = run_one(&Ask { request, ..ask.clone() });
            prop_assert_eq!(&crowded.outputs[&(index as u64)], &alone);
        }
    }

    #[test]
    fn a_sequence_continues_wherever_it_is_resent(asks in asks(), cut in 0usize..20) {
        let ask = Ask { abort_after: None, ..asks[0].clone() };
        let whole = run_one(&ask);
        let cut = cut.min(whole.len() - 1);
        let prompt = [ask.request.prompt.clone(), whole[..cut].to_vec()].concat();
        let max_tokens = ask.request.max_tokens - cut as u32;
        let rest = run_one(&Ask { request: SimRequest { prompt, max_tokens, ..ask.request }, ..ask });
        prop_assert_eq!(&rest, &whole[cut..]);
    }

    #[test]
    fn a_pause_at_any_moment_loses_nothing(asks in asks(), config in tight(), after in 0u32..10) {
        for mode in [PauseMode::Wait, PauseMode::Keep] {
            let mut sim = Simulation::new(config.clone(), model());
            let (mut step, mut outputs) = (Step::default(), BTreeMap::<u64, usize>::new());
            for (index, ask) in asks.iter().enumerate() {
                sim.submit(numbered(index, &ask.request)).unwrap();
            }
            for count in 0..20_000 {
                if count == after {
                    sim.pause(mode, &mut step);
                }
                if sim.next_due(Duration::ZERO).is_none() {
                    sim.resume();
                }
                sim.step(Duration::ZERO, &mut step);
                for output in &step.outputs {
                    *outputs.entry(output.request.0).or_default() += output.tokens.len();
                }
                if sim.idle() {
                    break;
                }
            }
            for (index, ask) in asks.iter().enumerate() {
                prop_assert_eq!(outputs[&(index as u64)], ask.request.max_tokens as usize);
            }
        }
    }
}

/// The output of a request that has an engine to itself.
fn run_one(ask: &Ask) -> Vec<u32> {
    let config = SimConfig { max_sequence_tokens: 60, max_running: 1, ..config() };
    let alone = Ask { gap: 0, ..ask.clone() };
    run(&mut Simulation::new(config, model()), &[alone]).outputs.remove(&0).unwrap()
}
