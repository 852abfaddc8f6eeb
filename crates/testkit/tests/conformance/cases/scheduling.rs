//! Who starts when, what is found in the cache then, and who is preempted when blocks run out.
//!
//! Nothing here depends on how fast an engine is: requests are queued while it is paused, so that they meet in one step.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tito_test_support::wait::within;
use tokio::time::timeout;
use vllm_proto::{GenerateRequest, PauseMode};

use super::cache::clear;
use super::pause::SILENCE;
use crate::ask::{Ask, greedy, prompt};
use crate::raw;
use crate::reply::{Reading, Reply};
use crate::target::{Kind, Target};

/// Prompts that meet in one step. With `max_batched_tokens` of 128, the least of all kinds, all of them fit.
const SIBLINGS: usize = 4;

/// Nothing is scheduled from here on, and what runs keeps its place.
async fn freeze(target: &Target) {
    target.pause(PauseMode::Keep, false).await.unwrap();
}

/// Puts the requests into the queue of an engine that is paused, in this order.
async fn queue(target: &Target, requests: impl IntoIterator<Item = GenerateRequest>) -> Vec<Reading> {
    let mut queued = Vec::new();
    for request in requests {
        queued.push(target.open_stream(request).await.unwrap());
    }
    queued
}

/// Lets the requests begin in one step, after those that run already.
async fn together(target: &Target, requests: impl IntoIterator<Item = GenerateRequest>) -> Vec<Reply> {
    freeze(target).await;
    let queued = queue(target, requests).await;
    let mut ended = thawed(target, queued).await;
    ended.sort_by_key(|(at, _)| *at);
    ended.into_iter().map(|(_, reply)| reply).collect()
}

/// Lets the engine go on. Returns the replies in the order in which they ended.
async fn thawed(target: &Target, readings: Vec<Reading>) -> Vec<(usize, Reply)> {
    // Read from before: what has ended when the reading begins has no order.
    tokio::join!(in_order_of_end(readings), target.resume()).0
}

/// The replies in the order in which they ended, each with its place in `readings`.
async fn in_order_of_end(readings: Vec<Reading>) -> Vec<(usize, Reply)> {
    let rest = readings.into_iter().enumerate();
    let ends: FuturesUnordered<_> =
        rest.map(|(at, reading)| async move { (at, reading.rest().await.unwrap()) }).collect();
    ends.collect().await
}

/// How often the engine has preempted since it started, if it has an HTTP address to ask.
async fn preemptions(target: &Target) -> Option<u64> {
    let (status, metrics) = raw::get(target.http.as_ref()?, "/metrics").await;
    assert_eq!(status, 200, "{metrics}");
    let line = metrics.lines().find(|line| line.starts_with("vllm:num_preemptions_total{"));
    let (_, count) = line.expect("a counter of preemptions").rsplit_once(' ').unwrap();
    Some(count.parse::<f64>().unwrap() as u64)
}

fn with_priority(request: GenerateRequest, priority: i32) -> GenerateRequest {
    request.with(|request| request.priority = priority)
}

/// Blocks that sequences can have: vLLM keeps one for itself.
fn blocks(target: &Target) -> u32 {
    target.facts.blocks - 1
}

pub(crate) async fn requests_that_start_in_one_step_share_their_prompt(target: &Target) {
    let block = target.facts.block;
    for (what, tokens, found) in
        [("three blocks and a rest", 3 * block + 6, 3), ("three blocks", 3 * block, 2)]
    {
        clear(target).await;
        let siblings = std::iter::repeat_with(|| greedy(&prompt(tokens, 8), 1)).take(SIBLINGS);
        let replies = together(target, siblings).await;
        let mut cached: Vec<u32> = replies.iter().map(Reply::cached).collect();
        cached.sort_unstable();
        let mut expected = vec![found * block; SIBLINGS];
        expected[0] = 0;
        assert_eq!(cached, expected, "{what}: blocks are cached when they are allocated");
    }
}

pub(crate) async fn a_request_starts_in_the_step_in_which_all_of_its_prompt_fits(target: &Target) {
    clear(target).await;
    let block = target.facts.block;
    let first = prompt(2 * block + 6, 1);
    // Its last token is never computed: it ends with six full blocks.
    let budget = 6 * block - first.len() as u32 + 1;
    let output = target.unary(greedy(&first, budget)).await.unwrap();
    // It continues the first and needs every block of the pool. Its first chunk would fit at once.
    let mut second = [&first[..], output.tokens()].concat();
    let tail = (blocks(target) - 1) * block + 10 - second.len() as u32;
    second.extend(prompt(tail, 2));
    clear(target).await;
    let replies = together(target, [greedy(&first, budget), greedy(&second, 2)]).await;
    assert_eq!(replies[0].cached(), 0);
    assert_eq!(replies[0].tokens(), output.tokens());
    // While the first fills a block there is one too few: that block is held and cannot be found. In the step in which the
    // third is full, what is left of the second fits.
    assert_eq!(replies[1].cached(), 3 * block);
}

/// Four prompts, of which one at a time fits, in the order in which they end.
async fn one_after_the_other(target: &Target, priorities: [i32; 4]) -> Vec<usize> {
    clear(target).await;
    let tokens = (blocks(target) / 2 + 1) * target.facts.block - 10;
    freeze(target).await;
    let requests = (0..).zip(priorities);
    let requests = requests.map(|(at, priority)| with_priority(greedy(&prompt(tokens, at), 1), priority));
    let queued = queue(target, requests).await;
    thawed(target, queued).await.into_iter().map(|(at, _)| at).collect()
}

pub(crate) async fn requests_start_in_order_of_arrival_whatever_their_priority(target: &Target) {
    assert_eq!(one_after_the_other(target, [5, 0, -1, 0]).await, [0, 1, 2, 3]);
}

pub(crate) async fn lower_priorities_start_first_and_equal_ones_in_order_of_arrival(target: &Target) {
    assert_eq!(one_after_the_other(target, [5, 0, -1, 0]).await, [2, 1, 3, 0]);
}

/// The first of two sequences that outgrow the pool together, or the second one, which is more urgent.
fn half(target: &Target, at: u32) -> GenerateRequest {
    let (block, pool) = (target.facts.block, blocks(target));
    let (tokens, budget) = match (target.kind, at) {
        (Kind::Mock | Kind::Light, 0) => (pool / 3 * block + 10, 6 * block),
        (Kind::Mock | Kind::Light, _) => (pool / 3 * block + 10, 5 * block),
        // A real one goes on for a while before it is frozen: it begins far from where the second would not fit.
        (Kind::Dense, 0) => (10, (pool - 1) * block),
        (Kind::Dense, _) => (pool / 3 * block + 10, 15 * block),
    };
    with_priority(greedy(&prompt(tokens, at), budget), if at == 0 { 5 } else { 0 })
}

/// Lets the first run, and puts the second one into the queue. The engine is paused then.
async fn halves(target: &Target) -> [Reading; 2] {
    clear(target).await;
    let mut first = target.open_stream(half(target, 0)).await.unwrap();
    assert!(first.next().await.unwrap().is_some(), "the first runs");
    freeze(target).await;
    let second = target.open_stream(half(target, 1)).await.unwrap();
    [first, second]
}

/// The two in the order in which they ended.
async fn outgrown(target: &Target) -> Vec<usize> {
    let mut alone = Vec::new();
    for at in 0..2 {
        alone.push(target.unary(half(target, at)).await.unwrap());
    }
    let before = preemptions(target).await;
    let readings = halves(target).await;
    let ended = thawed(target, readings.into()).await;
    // The engine tells of it with its next step.
    let counted = async { while preemptions(target).await != before.map(|before| before + 1) {} };
    within("one preemption", counted).await;
    for (at, reply) in &ended {
        assert_eq!(reply.tokens(), alone[*at].tokens(), "request {at}: computed again, and nothing else");
        assert_eq!(reply.cached(), 0, "request {at}: what it found when it first began");
    }
    ended.into_iter().map(|(at, _)| at).collect()
}

pub(crate) async fn the_last_to_start_is_preempted(target: &Target) {
    assert_eq!(outgrown(target).await, [0, 1]);
}

pub(crate) async fn the_least_urgent_is_preempted_although_it_was_first(target: &Target) {
    assert_eq!(outgrown(target).await, [1, 0]);
}

pub(crate) async fn a_waiting_pause_does_not_wait_for_what_was_preempted(target: &Target) {
    let budget = half(target, 1).stopping().max_new_tokens;
    let [first, mut second] = halves(target).await;
    target.resume().await;
    assert!(second.next().await.unwrap().is_some(), "both run");
    let (first, paused) = tokio::join!(first.rest(), target.pause(PauseMode::Wait, false));
    paused.unwrap();
    assert_eq!(first.unwrap().end(), "length");
    while let Ok(message) = timeout(SILENCE, second.next()).await {
        message.unwrap();
    }
    assert!(second.tokens() < budget, "it waits for the resume");
    target.resume().await;
    assert_eq!(second.rest().await.unwrap().output.num_tokens, budget);
}

pub(crate) async fn a_block_that_was_computed_twice_is_evicted_twice(target: &Target) {
    let (block, pool) = (target.facts.block, blocks(target));
    let ids = prompt(2 * block, 8);
    let longer = [&ids[..], &[40]].concat();
    // Three blocks are cached: the first one, and the second one twice. The oldest copy of the second goes first, then
    // the other one.
    for (evicted, found) in [(0, 2), (1, 2), (2, 1), (3, 0)] {
        clear(target).await;
        let cached = async |ids: &[u32]| target.unary(greedy(ids, 1)).await.unwrap().cached();
        assert_eq!((cached(&ids).await, cached(&ids).await), (0, block), "the last block is computed again");
        cached(&prompt((pool - 3 + evicted) * block - 10, 1)).await;
        assert_eq!(cached(&longer).await, found * block, "after {evicted} evictions");
    }
}

pub(crate) async fn what_ends_in_one_step_gives_its_blocks_back_in_the_order_of_the_batch(target: &Target) {
    let (block, pool) = (target.facts.block, blocks(target));
    let prompts = [2, 8].map(|variant| prompt(2 * block, variant));
    // Four blocks are cached. Those of the first go first, and of each prompt the end goes first.
    for (evicted, found) in [(0, [2, 2]), (1, [1, 2]), (2, [0, 2]), (3, [0, 1]), (4, [0, 0])] {
        for (ids, found) in prompts.iter().zip(found) {
            clear(target).await;
            together(target, prompts.iter().map(|ids| greedy(ids, 1))).await;
            target.unary(greedy(&prompt((pool - 4 + evicted) * block - 10, 1), 1)).await.unwrap();
            let longer = [&ids[..], &[40]].concat();
            let reply = target.unary(greedy(&longer, 1)).await.unwrap();
            assert_eq!(reply.cached(), found * block, "after {evicted} evictions, prompt {ids:?}");
        }
    }
}
