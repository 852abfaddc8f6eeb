//! What readers of one target see.

use super::*;

fn overlap(bench: &Bench, rank: usize, tokens: &[u32]) -> Option<TierOverlap> {
    let prompt = Prompt { tokens, media: &Media::None, adapter: None, salt: None, block_tokens: 4 };
    bench.targets[rank].try_overlap(&bench.blocks, &prompt.chain(bench.blocks.hasher()))
}

#[test]
fn the_leading_blocks_of_a_prompt_are_seen_unless_news_are_being_booked() {
    let bench = Bench::new(ON, 16 << 20);
    bench.store(0, 10, 3);
    let tokens: Vec<u32> = (10..26).collect();
    assert_eq!(overlap(&bench, 0, &tokens), Some(TierOverlap { gpu: 3, cpu: 0, storage: 0 }));
    assert_eq!(overlap(&bench, 1, &tokens), Some(TierOverlap::default()));
    let _booking = bench.targets[0].known();
    assert_eq!(overlap(&bench, 0, &tokens), None);
}

#[test]
fn each_emptying_is_counted_for_the_target_and_for_all() {
    let bench = Bench::new(ON, 16 << 20);
    let seen = || (bench.targets[0].emptied(), bench.targets[1].emptied(), bench.blocks.emptied());
    bench.store(0, 10, 3);
    assert_eq!(seen(), (0, 0, 0));
    bench.targets[0].apply(&bench.blocks, KvNews::Events(vec![KvEvent::Cleared]));
    assert_eq!(seen(), (1, 0, 1));
    bench.targets[1].apply(&bench.blocks, KvNews::Partial("a gap".into()));
    assert_eq!(seen(), (1, 1, 2));
}

#[test]
fn blocks_stored_between_our_command_and_the_engines_word_are_skipped_and_counted() {
    let bench = Bench::new(ON, 16 << 20);
    let target = &bench.targets[0];
    target.apply(&bench.blocks, KvNews::Complete);
    target.cleared(&bench.blocks);
    bench.store(0, 10, 3);
    assert!(bench.metrics().contains("kv_skipped_total{worker=\"w\",rank=\"2\"} 3\n"), "{}", bench.metrics());
}
