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
    prompt: Vec<u32>,
    max_tokens: u32,
    priority: i32,
    seed: Option<i64>,
    salt: Option<u64>,
    tokens_per_step: u32,
    /// Steps after the previous request.
    gap: u32,
    /// Steps after which it is aborted.
    abort_after: Option<u32>,
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let ask = (
        // Few ids and short prompts, so that prefixes are often shared.
        prop::collection::vec(0u32..2, 1..40),
        1u32..20,
        -1i32..2,
        prop::option::of(0i64..3),
        prop::option::weighted(0.2, 0u64..2),
        1u32..4,
        0u32..3,
        prop::option::weighted(0.2, 0u32..15),
    );
    let ask =
        ask.prop_map(|(prompt, max_tokens, priority, seed, salt, tokens_per_step, gap, abort_after)| Ask {
            prompt,
            max_tokens,
            priority,
            seed,
            salt,
            tokens_per_step,
            gap,
            abort_after,
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

fn request(index: usize, ask: &Ask) -> SimRequest {
    SimRequest {
        priority: ask.priority,
        salt: ask.salt,
        tokens_per_step: ask.tokens_per_step,
        sampling: Sampling {
            temperature: if ask.seed.is_some() { 1.0 } else { 0.0 },
            seed: ask.seed,
            ..Sampling::greedy()
        },
        ..SimRequest::new(RequestId(index as u64), ask.prompt.clone(), ask.max_tokens)
    }
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
    let mut run = Run::default();
    let mut step = Step::default();
    let mut arrivals: Vec<(u32, usize)> = Vec::new();
    let mut at = 0;
    for (index, ask) in asks.iter().enumerate() {
        at += ask.gap;
        arrivals.push((at, index));
    }
    while !arrivals.is_empty() || !sim.idle() {
        arrivals.retain(|(at, index)| {
            if *at <= run.steps {
                sim.submit(request(*index, &asks[*index])).unwrap();
            }
            *at > run.steps
        });
        for (index, ask) in asks.iter().enumerate() {
            let arrived = !arrivals.iter().any(|(_, waiting)| *waiting == index);
            if arrived
                && ask.abort_after.is_some_and(|after| run.steps >= after)
                && sim.abort(RequestId(index as u64))
            {
                run.ends.insert(index as u64, 1);
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
                    assert!(
                        known.values().all(|(parent, _)| *parent != Some(*block)),
                        "a child outlives its parent"
                    );
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
            let alone = Ask { gap: 0, tokens_per_step: 1, ..ask.clone() };
            let mut sim = Simulation::new(config_of_one(), model());
            let alone = run(&mut sim, std::slice::from_ref(&alone));
            prop_assert_eq!(&crowded.outputs[&(index as u64)], &alone.outputs[&0]);
        }
    }

    #[test]
    fn a_sequence_continues_wherever_it_is_resent(asks in asks(), cut in 0usize..20) {
        let ask = Ask { abort_after: None, gap: 0, ..asks[0].clone() };
        let whole = run(&mut Simulation::new(config_of_one(), model()), std::slice::from_ref(&ask));
        let whole = &whole.outputs[&0];
        let cut = cut.min(whole.len() - 1);
        let rest = Ask {
            prompt: [ask.prompt.clone(), whole[..cut].to_vec()].concat(),
            max_tokens: ask.max_tokens - cut as u32,
            ..ask
        };
        let rest = run(&mut Simulation::new(config_of_one(), model()), &[rest]);
        prop_assert_eq!(&rest.outputs[&0], &whole[cut..]);
    }

    #[test]
    fn a_pause_at_any_moment_loses_nothing(asks in asks(), config in tight(), after in 0u32..10) {
        for mode in [PauseMode::Wait, PauseMode::Keep] {
            let asks: Vec<Ask> = asks.iter().map(|ask| Ask { abort_after: None, gap: 0, ..ask.clone() }).collect();
            let mut sim = Simulation::new(config.clone(), model());
            let mut step = Step::default();
            let mut outputs: BTreeMap<u64, usize> = BTreeMap::new();
            for (index, ask) in asks.iter().enumerate() {
                sim.submit(request(index, ask)).unwrap();
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
                prop_assert_eq!(outputs[&(index as u64)], ask.max_tokens as usize);
            }
        }
    }
}

fn config_of_one() -> SimConfig {
    SimConfig { max_sequence_tokens: 60, max_running: 1, ..config() }
}
