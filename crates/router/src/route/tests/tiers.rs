//! Blocks outside device memory: found behind those in it, and credited less.

use super::blocks::{asked, goes, stored};
use super::*;

/// The prompt's blocks `from..to`, as an engine tells them of a tier; the names are those the whole prompt has.
fn tell(bench: &Bench, worker: usize, prompt: &[u32], tier: Tier, from: usize, to: usize) {
    let mut blocks = stored(prompt);
    let parent = from.checked_sub(1).map(|parent| blocks.hashes[parent]);
    blocks.hashes = blocks.hashes[from..to].to_vec();
    blocks.tokens = blocks.tokens[from * BLOCK as usize..to * BLOCK as usize].to_vec();
    let target = bench.target(worker, 0);
    target.apply(&bench.blocks, KvNews::Complete);
    let events = vec![KvEvent::Stored(StoredBlocks { parent, tier, ..blocks })];
    target.apply(&bench.blocks, KvNews::Events(events));
}

#[test]
fn tiers_go_on_behind_one_another_and_a_prefix_without_its_beginning_is_none() {
    let bench = Bench::new(&[answering(1), answering(2), answering(3)]);
    let prompt: Vec<u32> = (1..=14).collect();
    // The first of three blocks; all three in host memory; all three, one on each tier.
    tell(&bench, 0, &prompt, Tier::Gpu, 0, 1);
    tell(&bench, 1, &prompt, Tier::Cpu, 0, 3);
    for (tier, block) in [Tier::Gpu, Tier::Cpu, Tier::Storage].into_iter().zip(0..) {
        tell(&bench, 2, &prompt, tier, block, block + 1);
    }
    let overlaps = |prompt: &[u32]| {
        let mut candidates = bench.route.explain(&asked(prompt)).candidates;
        candidates.sort_by(|a, b| a.worker.cmp(&b.worker));
        candidates.iter().map(|candidate| candidate.overlap_tokens).collect::<Vec<_>>()
    };
    assert_eq!(overlaps(&prompt), [4, 12, 12]);
    assert_eq!(overlaps(&prompt[..8]), [4, 8, 8]);
    let removed = KvEvent::Removed { hashes: vec![stored(&prompt).hashes[0]], tier: Tier::Cpu };
    bench.target(1, 0).apply(&bench.blocks, KvNews::Events(vec![removed]));
    assert_eq!(overlaps(&prompt), [4, 0, 12], "what remains in host memory follows nothing");
    assert_eq!(goes(&bench, &asked(&prompt)), ("c".into(), 12));
}
