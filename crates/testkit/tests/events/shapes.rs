//! Events as other engines and other releases shape them: what may be claimed after them, tier by tier.

mod cases;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tito_kv_index::TierOverlap;
use tito_test_support::random::Random;
use tito_types::KvCounters;

use crate::ask::Ask;
use crate::hand::{BLOCK_TOKENS, Hand};

/// Blocks stored on the GPU, named as told, with the tokens from `first` on.
fn stored(parent: Option<u64>, names: &[u64], first: u32) -> Value {
    let tokens: Vec<u32> = (first..first + BLOCK_TOKENS * names.len() as u32).collect();
    json!({"type": "BlockStored", "block_hashes": names, "parent_block_hash": parent, "token_ids": tokens,
        "block_size": BLOCK_TOKENS, "lora_id": null, "medium": "GPU", "lora_name": null})
}

fn removed(names: &[u64]) -> Value {
    json!({"type": "BlockRemoved", "block_hashes": names, "medium": "GPU"})
}

fn cleared() -> Value {
    json!({"type": "AllBlocksCleared"})
}

/// An event with some fields set.
fn with(mut event: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    event.as_object_mut().unwrap().extend(fields);
    event
}

/// A prompt of 16 tokens from 0 on.
fn prompt() -> Ask {
    Ask::text(0..16)
}

struct Case {
    what: &'static str,
    /// Events by batch.
    batches: Vec<Vec<Value>>,
    /// Prompts with the blocks that may be claimed in device memory, host memory and storage.
    held: Vec<(Ask, [usize; 3])>,
    skipped: u64,
    unreadable: u64,
    complete: bool,
}

impl Case {
    fn new(what: &'static str, batches: Vec<Vec<Value>>, held: Vec<(Ask, [usize; 3])>) -> Self {
        Self { what, batches, held, skipped: 0, unreadable: 0, complete: true }
    }

    fn skips(self, skipped: u64) -> Self {
        Self { skipped, ..self }
    }

    /// Events that cannot be read, and that this costs the history. The batch was read before, when it came live: it was
    /// asked for again because of them.
    fn damages(self, unreadable: u64) -> Self {
        Self { unreadable: unreadable + 1, complete: false, ..self }
    }

    /// History is known whole again after it.
    fn whole(self) -> Self {
        Self { complete: true, ..self }
    }

    async fn check(self) {
        let Self { what, batches, held, skipped, unreadable, complete } = self;
        let mut hand = Hand::start(what).await;
        for batch in batches {
            hand.publish(&Value::Array(batch)).await;
        }
        let counters = hand.applied().await;
        let told = KvCounters { skipped, unreadable, ..counters };
        assert_eq!(counters, told, "{what}");
        assert_eq!((counters.gaps, counters.duplicates, counters.restarts), (0, 0, 0), "{what}");
        if complete {
            // It is said when the replay that told of the last batch has ended.
            hand.until("history to be whole", |hand| hand.target.complete()).await;
        }
        assert_eq!(hand.target.complete(), complete, "{what}: {:?}", hand.target.report());
        for (ask, [gpu, cpu, storage]) in &held {
            let (gpu, cpu, storage) = (*gpu, *cpu, *storage);
            let found = hand.held(ask);
            assert_eq!(found, TierOverlap { gpu, cpu, storage }, "{what}: {ask:?}");
            let strangers = ask.strangers().into_iter();
            for stranger in strangers.filter(|stranger| !held.iter().any(|(ask, _)| ask == stranger)) {
                let found = hand.held(&stranger);
                assert_eq!(found, TierOverlap::default(), "{what}: a stranger: {stranger:?}");
            }
        }
    }
}

#[tokio::test]
async fn events_of_every_shape_claim_what_is_there_and_nothing_else() {
    join_all(cases::all().into_iter().map(Case::check)).await;
}

#[tokio::test]
async fn a_finer_granularity_is_taken_over_and_a_change_of_it_starts_over() {
    let mut hand = Hand::start("granularity").await;
    let of = |size: u32, names: &[u64]| {
        let tokens: Vec<u32> = (0..size * names.len() as u32).collect();
        with(stored(None, names, 0), json!({"token_ids": tokens, "block_size": size}))
    };
    let overlap = |hand: &Hand| hand.held(&prompt()).gpu;
    hand.publish(&json!([of(2, &[1, 2, 3])])).await;
    hand.applied().await;
    assert_eq!((hand.target.block_tokens(), overlap(&hand), hand.target.complete()), (2, 3, true));
    hand.publish(&json!([of(8, &[1, 2])])).await;
    hand.applied().await;
    assert_eq!((hand.target.block_tokens(), overlap(&hand), hand.target.complete()), (8, 2, false));
    hand.publish(&json!([cleared(), of(8, &[1])])).await;
    hand.applied().await;
    assert_eq!((overlap(&hand), hand.target.complete()), (1, true));
}

#[tokio::test]
async fn an_adapter_that_was_loaded_again_starts_cold() {
    let mut hand = Hand::start("adapter").await;
    let adapted = Ask { adapter: Some("ad"), ..prompt() };
    let event = |name: u64| with(stored(None, &[name], 0), json!({"lora_name": "ad", "lora_id": 1}));
    let overlap = |hand: &Hand, ask: &Ask| hand.held(ask).gpu;
    hand.publish(&json!([event(1), stored(None, &[2], 0)])).await;
    hand.applied().await;
    assert_eq!((overlap(&hand, &adapted), overlap(&hand, &prompt())), (1, 1));
    hand.target.adapter_reloaded(&hand.blocks, "ad");
    assert_eq!((overlap(&hand, &adapted), overlap(&hand, &prompt())), (0, 1));
    hand.publish(&json!([event(3)])).await;
    hand.applied().await;
    assert_eq!((overlap(&hand, &adapted), overlap(&hand, &prompt())), (1, 1));
}

/// Frames that are no batches, and batches that are no events.
#[tokio::test]
async fn garbage_never_ends_a_feed_and_never_makes_a_block() {
    let mut hand = Hand::start("garbage").await;
    hand.publish(&json!([stored(None, &[1, 2], 0)])).await;
    hand.applied().await;
    let numbered = u64::to_be_bytes;
    let frames: [&[&[u8]]; 7] = [
        &[b""],
        &[b"kv"],
        &[b"kv", b"\x01\x02\x03", b"payload"],
        &[b"kv", &numbered(1)],
        &[b"kv", b"", b""],
        &[b"kv", &numbered(u64::MAX), b"payload"],
        &[b"kv", &[0; 300], &[0; 300]],
    ];
    for frames in frames {
        hand.raw(frames).await;
    }
    hand.publish(&json!([stored(Some(2), &[3], 8)])).await;
    let counters = hand.applied().await;
    assert_eq!((counters.unreadable, counters.gaps), (7, 0), "{counters:?}");
    hand.until("what has no place in the sequence to be ignored", |hand| hand.target.complete()).await;

    let mut random = Random::new(1);
    let good = tito_engine_vllm::test_util::pack(&json!([1.5, [stored(None, &[4, 5], 50)], 0]));
    let mut bad: Vec<Vec<u8>> = vec![
        Vec::new(),
        vec![0xc1],
        vec![0xdd, 0xff, 0xff, 0xff, 0xff],
        [vec![0x93, 0x01], vec![0xdd, 0xff, 0xff, 0xff, 0xff]].concat(),
        vec![0x91; 100_000],
        [vec![0x93, 0x01, 0x91], vec![0x81; 100_000]].concat(),
        vec![0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1],
    ];
    bad.extend((0..good.len()).map(|cut| good[..cut].to_vec()));
    for _ in 0..300 {
        let mut bytes = good.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u32) as usize;
            bytes[at] = random.next() as u8;
        }
        bad.push(bytes);
    }
    let other = Ask::text(200..216);
    for payload in bad {
        hand.publish_bytes(payload).await;
    }
    hand.applied().await;
    let nothing = TierOverlap::default();
    let found = |hand: &Hand, ask: &Ask| hand.held(ask);
    assert_eq!(found(&hand, &prompt()), nothing, "history was lost: nothing before is believed");
    assert!(!hand.target.complete());
    hand.publish(&json!([cleared(), stored(None, &[6, 7], 200)])).await;
    hand.applied().await;
    assert_eq!((found(&hand, &other).gpu, hand.target.report().blocks), (2, [2, 0, 0]));
    // What could not be read last is still being asked for.
    hand.until("everything to be known again after a clear", |hand| hand.target.complete()).await;
}
