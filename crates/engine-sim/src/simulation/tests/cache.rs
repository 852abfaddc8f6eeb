//! Prefix cache and KV events.

use super::{Bench, config, ids};
use crate::blocks::KvEvent;
use crate::request::{Extra, RequestId, SimRequest};
use crate::simulation::{SimConfig, Step};

#[test]
fn a_prefix_is_found_in_whole_blocks_and_never_the_whole_prompt() {
    let mut bench = Bench::new(config());
    for (id, length, cached) in [(1, 12, 0), (2, 12, 8), (3, 13, 12), (4, 14, 12), (5, 3, 0), (6, 11, 8)] {
        bench.add(id, ids(0, length), 1);
        bench.step();
        assert_eq!(bench.cached(id), Some(cached), "prompt of {length} tokens");
    }
    let stats = bench.sim.stats();
    assert_eq!((stats.cache_queries_tokens, stats.cache_hits_tokens), (65, 40));
}

#[test]
fn output_is_cached_for_the_next_turn() {
    let mut bench = Bench::new(config());
    bench.add(1, ids(0, 6), 7);
    let output = bench.finish(1);
    bench.add(2, [ids(0, 6), output, ids(500, 2)].concat(), 1);
    bench.step();
    // The last token of the first turn was sampled but never computed.
    assert_eq!(bench.cached(2), Some(12));
}

#[test]
fn salts_adapters_and_content_keep_prefixes_apart() {
    let mut bench = Bench::new(config());
    let plain = SimRequest::new(RequestId(0), ids(0, 12), 1);
    let image = |key, offset_tokens| vec![Extra { offset_tokens, length_tokens: 2, key }];
    let variants = [
        plain.clone(),
        SimRequest { salt: Some(1), ..plain.clone() },
        SimRequest { salt: Some(2), ..plain.clone() },
        SimRequest { adapter: Some(1), ..plain.clone() },
        SimRequest { extras: image(1, 1), ..plain.clone() },
        SimRequest { extras: image(2, 1), ..plain.clone() },
        SimRequest { extras: image(1, 2), ..plain.clone() },
    ];
    for expected in [0, 8] {
        for (index, variant) in variants.iter().enumerate() {
            let id = RequestId(u64::from(expected) * 100 + index as u64);
            bench.sim.submit(SimRequest { id, ..variant.clone() }).unwrap();
            bench.step();
            assert_eq!(bench.cached(id.0), Some(expected), "variant {index}");
        }
    }
    // Content that starts in the third block leaves the first two shared.
    let late = SimRequest { id: RequestId(1), extras: image(9, 9), ..plain.clone() };
    bench.sim.submit(late).unwrap();
    bench.step();
    assert_eq!(bench.cached(1), Some(8));
    let bypass = SimRequest { id: RequestId(2), read_cache: false, ..plain };
    bench.sim.submit(bypass).unwrap();
    bench.step();
    assert_eq!(bench.cached(2), Some(0));
}

#[test]
fn eviction_takes_the_oldest_and_the_end_of_a_prefix_first() {
    let mut bench = Bench::new(SimConfig { blocks: 4, max_sequence_tokens: 16, ..config() });
    bench.add(1, ids(0, 12), 1);
    bench.step();
    bench.add(2, ids(100, 8), 1);
    bench.step();
    let removed: Vec<usize> = bench
        .step
        .events
        .iter()
        .filter_map(|event| if let KvEvent::Removed(blocks) = event { Some(blocks.len()) } else { None })
        .collect();
    assert_eq!(removed, [1], "one block was empty, the other came from the end of the first prompt");
    bench.add(3, ids(0, 12), 1);
    bench.step();
    assert_eq!(bench.cached(3), Some(8));
}

#[test]
fn what_ends_in_one_step_gives_its_blocks_back_in_the_order_of_the_batch() {
    // Two prompts of two blocks each; the first one loses its blocks first, and of each prompt the end goes first.
    for (evicted, found) in [(0, [8, 8]), (1, [4, 8]), (2, [0, 8]), (3, [0, 4]), (4, [0, 0])] {
        for (prompt, found) in [ids(0, 8), ids(100, 8)].into_iter().zip(found) {
            let mut bench = Bench::new(SimConfig { blocks: 6, max_sequence_tokens: 24, ..config() });
            bench.add(1, ids(0, 8), 1);
            bench.add(2, ids(100, 8), 1);
            assert_eq!(bench.step(), "1+1 Length, 2+1 Length");
            bench.add(3, ids(200, 4 * (2 + evicted) - 1), 1);
            bench.step();
            bench.add(4, [prompt, ids(500, 1)].concat(), 1);
            bench.step();
            assert_eq!(bench.cached(4), Some(found), "after {evicted} evictions");
        }
    }
}

#[test]
fn events_tell_the_whole_cache_in_order() {
    let mut bench = Bench::new(config());
    bench.add(1, ids(0, 9), 4);
    bench.step();
    let stored = |step: &Step| -> Vec<(u32, Vec<u32>, bool)> {
        let stored = step.events.iter().filter_map(|event| match event {
            KvEvent::Stored(stored) => Some(stored),
            KvEvent::Removed(_) | KvEvent::Cleared => None,
        });
        stored.map(|run| (run.offset_tokens, run.token_ids.clone(), run.parent.is_some())).collect()
    };
    assert_eq!(stored(&bench.step), [(0, ids(0, 8), false)]);
    let first = bench.step.tokens[0].id;
    let output = [vec![first], bench.finish(1)].concat();
    bench.add(2, ids(0, 9), 1);
    bench.step();
    assert_eq!(stored(&bench.step), [], "what is found is not told again");
    bench.add(3, [ids(0, 9), output[..3].to_vec(), ids(600, 4)].concat(), 1);
    bench.step();
    assert_eq!(stored(&bench.step), [(12, ids(600, 4), true)]);
    assert!(bench.sim.reset_prefix_cache());
    bench.add(4, ids(0, 3), 1);
    bench.step();
    assert_eq!(bench.step.events, [KvEvent::Cleared], "a reset is told with the next step");
    assert!(bench.sim.reset_prefix_cache() && bench.sim.reset_prefix_cache());
    bench.add(5, ids(0, 5), 1);
    bench.step();
    let each = matches!(bench.step.events[..], [KvEvent::Cleared, KvEvent::Cleared, KvEvent::Stored(_)]);
    assert!(each, "every reset is told: {:?}", bench.step.events);
}

#[test]
fn each_copy_of_a_block_is_told_when_it_comes_and_when_it_goes() {
    let mut bench = Bench::new(SimConfig { blocks: 6, max_sequence_tokens: 24, ..config() });
    let told = |bench: &mut Bench, id, prompt| {
        bench.add(id, prompt, 1);
        bench.step();
        let short = |event: &KvEvent| match event {
            KvEvent::Stored(stored) => format!("+{}", stored.blocks.len()),
            KvEvent::Removed(blocks) => format!("-{}", blocks.len()),
            KvEvent::Cleared => "cleared".to_owned(),
        };
        bench.step.events.iter().map(short).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(told(&mut bench, 1, ids(0, 8)), "+2");
    assert_eq!(told(&mut bench, 2, ids(0, 8)), "+1", "the last block is computed again");
    let bypass = SimRequest { read_cache: false, ..SimRequest::new(RequestId(3), ids(0, 8), 1) };
    bench.sim.submit(bypass).unwrap();
    assert_eq!(told(&mut bench, 4, ids(100, 3)), "+2", "both blocks once more");
    assert_eq!(bench.sim.stats().cached_blocks, 2, "five blocks under two names");
    // One block holds nothing. The copies go in the order in which they were used last, the end of the prefix first.
    for (id, events, cached) in [(5, "-1 +2", 4), (6, "-2 +2", 6), (7, "-2 +2", 6)] {
        assert_eq!(told(&mut bench, id, ids(100 * id as u32, 8)), events, "request {id}");
        assert_eq!(bench.sim.stats().cached_blocks, cached, "after request {id}");
    }
}

#[test]
fn a_remote_prefill_computes_one_token_and_reports_the_prompt_as_cached() {
    let mut bench = Bench::new(config());
    let request = SimRequest::new(RequestId(1), ids(0, 31), 2);
    bench.sim.submit(SimRequest { remote_prefill: true, ..request }).unwrap();
    bench.step();
    assert_eq!((bench.cached(1), bench.step.load.prefill_tokens), (Some(31), 1));
    assert!(matches!(bench.step.events[..], [KvEvent::Stored(_)]), "pulled blocks are told as stored");
}
