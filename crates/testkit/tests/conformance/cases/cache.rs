//! The prefix cache, as cached-token counts show it.

use vllm_proto::{GenerateRequest, PauseMode};

use crate::ask::{Ask, greedy, prompt};
use crate::target::Target;

/// Empties the cache: a finished pause clears it.
pub(crate) async fn clear(target: &Target) {
    pause(target, None).await;
}

async fn pause(target: &Target, clear_cache: Option<bool>) {
    target.pause(PauseMode::Abort, clear_cache).await.unwrap();
    target.resume().await;
}

/// Two full blocks and a rest.
fn two_blocks(target: &Target) -> Vec<u32> {
    prompt(2 * target.facts.block + 6, 8)
}

async fn cached(target: &Target, request: GenerateRequest) -> u32 {
    target.unary(request).await.unwrap().cached()
}

fn salted(ids: &[u32], salt: &str) -> GenerateRequest {
    greedy(ids, 1).with(|request| salt.clone_into(&mut request.kv().cache_salt))
}

pub(crate) async fn a_repeated_prompt_reports_its_full_blocks(target: &Target) {
    clear(target).await;
    let (ids, block) = (two_blocks(target), target.facts.block);
    assert_eq!(cached(target, greedy(&ids, 1)).await, 0, "cold");
    assert_eq!(cached(target, greedy(&ids, 1)).await, 2 * block, "warm");
    assert_eq!(target.stream(greedy(&ids, 1)).await.unwrap().cached(), 2 * block, "warm, streamed");
    assert_eq!(cached(target, greedy(&ids[..=block as usize], 1)).await, block, "a shorter prompt");
    let branch = [&ids[..block as usize], &prompt(block, 9)[..]].concat();
    assert_eq!(cached(target, greedy(&branch, 1)).await, block, "another second block");
    assert_eq!(cached(target, greedy(&ids[1..], 1)).await, 0, "shifted by one token");
}

pub(crate) async fn the_last_block_is_never_all_cached(target: &Target) {
    clear(target).await;
    let block = target.facts.block;
    let ids = prompt(2 * block, 8);
    assert_eq!(cached(target, greedy(&ids, 1)).await, 0, "cold");
    assert_eq!(cached(target, greedy(&ids, 1)).await, block, "one token must be computed: its block is");
}

pub(crate) async fn bypass_reads_nothing(target: &Target) {
    clear(target).await;
    let ids = two_blocks(target);
    let bypassing = || greedy(&ids, 1).with(|request| request.kv().bypass_prefix_cache = true);
    cached(target, greedy(&ids, 1)).await;
    assert_eq!(cached(target, bypassing()).await, 0);
    assert_eq!(cached(target, greedy(&ids, 1)).await, 2 * target.facts.block, "others still read");
}

pub(crate) async fn salts_do_not_share(target: &Target) {
    clear(target).await;
    let (ids, warm) = (two_blocks(target), 2 * target.facts.block);
    assert_eq!(cached(target, greedy(&ids, 1)).await, 0, "unsalted, cold");
    assert_eq!(cached(target, salted(&ids, "salt-1")).await, 0, "the first salt, cold");
    assert_eq!(cached(target, salted(&ids, "salt-1")).await, warm, "the first salt, warm");
    assert_eq!(cached(target, salted(&ids, "salt-2")).await, 0, "the second salt, cold");
    assert_eq!(cached(target, greedy(&ids, 1)).await, warm, "unsalted, warm");
    assert_eq!(cached(target, salted(&ids, "")).await, warm, "an empty salt is none");
}

pub(crate) async fn any_salt_is_accepted(target: &Target) {
    let ids = two_blocks(target);
    for salt in ["a/b\\c@d", "é\0", &"x".repeat(5000)] {
        cached(target, salted(&ids, salt)).await;
    }
}

pub(crate) async fn generated_blocks_are_cached_too(target: &Target) {
    clear(target).await;
    let (ids, block) = (two_blocks(target), target.facts.block);
    let first = target.unary(greedy(&ids, block)).await.unwrap();
    let next_turn = [ids.as_slice(), first.tokens()].concat();
    assert_eq!(cached(target, greedy(&next_turn, 1)).await, 3 * block);
}

pub(crate) async fn a_pause_clears_the_cache_unless_told_not_to(target: &Target) {
    clear(target).await;
    let (ids, warm) = (two_blocks(target), 2 * target.facts.block);
    for (what, clear_cache, expected) in
        [("kept", Some(false), warm), ("cleared", Some(true), 0), ("cleared by default", None, 0)]
    {
        cached(target, greedy(&ids, 1)).await;
        assert_eq!(cached(target, greedy(&ids, 1)).await, warm, "before: {what}");
        pause(target, clear_cache).await;
        assert_eq!(cached(target, greedy(&ids, 1)).await, expected, "{what}");
    }
}
