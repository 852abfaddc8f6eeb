//! Events as other engines and other releases shape them: what may be claimed after them, tier by tier.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tito_kv_index::TierOverlap;
use tito_types::{KvCounters, Modality};

use crate::ask::{Ask, Item};
use crate::hand::{BLOCK_TOKENS, Hand};
use crate::random::Random;

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

/// The same event as an array, as older releases wrote it.
fn positional(event: &Value) -> Value {
    let order = ["type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"];
    let removed = ["type", "block_hashes", "medium"];
    let order = if event["type"] == "BlockRemoved" { &removed[..] } else { &order[..] };
    order.iter().filter_map(|field| event.get(field)).cloned().collect()
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

    /// Events that cannot be read, and that this costs the history.
    fn damages(self, unreadable: u64) -> Self {
        Self { unreadable, complete: false, ..self }
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
        assert_eq!(hand.target.complete(), complete, "{what}: {:?}", hand.target.report());
        for (ask, [gpu, cpu, storage]) in &held {
            let (gpu, cpu, storage) = (*gpu, *cpu, *storage);
            let found = hand.target.overlap(&hand.blocks, &ask.chain(&hand.blocks, &hand.target));
            assert_eq!(found, TierOverlap { gpu, cpu, storage }, "{what}: {ask:?}");
            let strangers = ask.strangers().into_iter();
            for stranger in strangers.filter(|stranger| !held.iter().any(|(ask, _)| ask == stranger)) {
                let chain = stranger.chain(&hand.blocks, &hand.target);
                let found = hand.target.overlap(&hand.blocks, &chain);
                assert_eq!(found, TierOverlap::default(), "{what}: a stranger: {stranger:?}");
            }
        }
    }
}

fn encodings() -> Vec<Case> {
    let all = || vec![stored(None, &[1, 2], 0), stored(Some(2), &[3, 4], 8), removed(&[4])];
    let digest = |last: u8| json!({"$bin": [9, 9, 9, 9, 9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, last]});
    let digests = vec![
        with(stored(None, &[0, 0], 0), json!({"block_hashes": [digest(1), digest(2)]})),
        with(stored(None, &[0], 8), json!({"block_hashes": [digest(3)], "parent_block_hash": digest(2)})),
        with(removed(&[]), json!({"block_hashes": [digest(3)]})),
    ];
    vec![
        Case::new("maps", vec![all()], vec![(prompt(), [3, 0, 0])]),
        Case::new("arrays", vec![all().iter().map(positional).collect()], vec![(prompt(), [3, 0, 0])]),
        Case::new(
            "one event a batch",
            all().into_iter().map(|event| vec![event]).collect(),
            vec![(prompt(), [3, 0, 0])],
        ),
        Case::new("digests are named by their end", vec![digests], vec![(prompt(), [2, 0, 0])]),
        Case::new(
            "negative names",
            vec![vec![
                with(stored(None, &[0], 0), json!({"block_hashes": [-7]})),
                with(stored(None, &[5], 4), json!({"parent_block_hash": u64::MAX - 6})),
            ]],
            vec![(prompt(), [2, 0, 0])],
        ),
        Case::new(
            "fields and kinds of the future",
            vec![vec![
                with(stored(None, &[1, 2], 0), json!({"colour": {"deep": [1, [2]]}, "session_id": "me"})),
                json!({"type": "BlockPondered", "block_hashes": [1]}),
                json!(["BlockMoved", [1], 3]),
            ]],
            vec![(prompt(), [2, 0, 0])],
        )
        .skips(2),
    ]
}

fn groups() -> Vec<Case> {
    let of =
        |event, group: u32, kind: &str| with(event, json!({"group_idx": group, "kv_cache_spec_kind": kind}));
    let window = |event| of(event, 0, "sliding_window");
    vec![
        Case::new(
            "a window holds no prefix",
            vec![vec![window(stored(None, &[1, 2], 0))]],
            vec![(prompt(), [0, 0, 0])],
        )
        .skips(1),
        Case::new(
            "nor does a state",
            vec![vec![of(stored(None, &[1, 2], 0), 0, "mamba")]],
            vec![(prompt(), [0, 0, 0])],
        )
        .skips(1),
        Case::new(
            "what a window drops, full attention keeps",
            vec![
                vec![window(stored(None, &[1, 2], 0)), of(stored(None, &[1, 2], 0), 1, "full_attention")],
                vec![with(removed(&[1]), json!({"group_idx": 0}))],
            ],
            vec![(prompt(), [2, 0, 0])],
        )
        .skips(2),
        Case::new(
            "what full attention drops is gone, whatever a window keeps",
            vec![
                vec![window(stored(None, &[1, 2], 0)), of(stored(None, &[1, 2], 0), 1, "full_attention")],
                vec![with(removed(&[2]), json!({"group_idx": 1}))],
            ],
            vec![(prompt(), [1, 0, 0])],
        )
        .skips(1),
    ]
}

fn tiers() -> Vec<Case> {
    let on = |event, medium: &str| with(event, json!({"medium": medium}));
    let spread = || {
        vec![
            stored(None, &[1, 2], 0),
            on(stored(None, &[1, 2, 3], 0), "CPU"),
            on(stored(Some(3), &[4], 12), "STORAGE"),
        ]
    };
    vec![
        Case::new("every tier continues the one before", vec![spread()], vec![(prompt(), [2, 1, 1])]),
        Case::new(
            "a block that leaves one tier stays on the others",
            vec![spread(), vec![removed(&[2])]],
            vec![(prompt(), [1, 2, 1])],
        ),
        Case::new(
            "a hole in a lower tier ends the run there",
            vec![spread(), vec![on(removed(&[3]), "CPU")]],
            vec![(prompt(), [2, 0, 0])],
        ),
        Case::new("a clear is of all tiers", vec![spread(), vec![cleared()]], vec![(prompt(), [0, 0, 0])]),
        Case::new(
            "names without content, unknown media and other places are left out",
            vec![vec![
                stored(None, &[1], 0),
                with(on(stored(Some(1), &[2], 4), "CPU"), json!({"token_ids": [], "block_size": 0})),
                on(stored(Some(1), &[2], 4), "MOON"),
                with(stored(Some(1), &[2], 4), json!({"locality": "REMOTE"})),
                with(removed(&[1]), json!({"locality": "REMOTE"})),
                on(removed(&[1]), "MOON"),
            ]],
            vec![(prompt(), [1, 0, 0])],
        )
        .skips(5),
    ]
}

fn identities() -> Vec<Case> {
    let salted = Ask { salt: Some("s"), ..prompt() };
    let adapted = Ask { adapter: Some("ad"), ..prompt() };
    let both = Ask { salt: Some("s"), adapter: Some("ad"), ..prompt() };
    let picture = Item { modality: Modality::Image, identifier: "picture", offset: 2, length: 4 };
    let pictured = Ask { media: vec![picture], ..prompt() };
    let pairs = json!({"extra_keys": [[["picture", 2]], [["picture", -2]]]});
    vec![
        Case::new(
            "each name space is its own",
            vec![vec![
                stored(None, &[1, 2], 0),
                with(stored(None, &[11], 0), json!({"extra_keys": [["s"]]})),
                with(
                    stored(None, &[21, 22, 23], 0),
                    json!({"lora_name": "ad", "lora_id": 1,
                    "extra_keys": [["ad"], ["ad"], ["ad"]]}),
                ),
                with(
                    stored(None, &[31, 32, 33, 34], 0),
                    json!({"lora_name": "ad", "lora_id": 1,
                    "extra_keys": [["ad", "s"], ["ad"], ["ad"], ["ad"]]}),
                ),
            ]],
            vec![(prompt(), [2, 0, 0]), (salted, [1, 0, 0]), (adapted, [3, 0, 0]), (both, [4, 0, 0])],
        ),
        Case::new(
            "an adapter without a name names no content",
            vec![vec![with(stored(None, &[1, 2], 0), json!({"lora_id": 3}))]],
            vec![(prompt(), [0, 0, 0])],
        )
        .skips(1),
        Case::new(
            "media by identifier and place",
            vec![vec![with(stored(None, &[1, 2], 0), pairs), stored(Some(2), &[3], 8)]],
            vec![(pictured, [3, 0, 0]), (prompt(), [0, 0, 0])],
        ),
    ]
}

fn histories() -> Vec<Case> {
    vec![
        Case::new(
            "stored twice and removed once is gone",
            vec![vec![stored(None, &[1, 2], 0)], vec![stored(None, &[1, 2], 0), removed(&[2])]],
            vec![(prompt(), [1, 0, 0])],
        ),
        Case::new(
            "removals of what was never there are no mistake",
            vec![vec![removed(&[8, 9]), stored(None, &[1], 0), removed(&[8])]],
            vec![(prompt(), [1, 0, 0])],
        ),
        Case::new(
            "the beginning goes first and comes back",
            vec![vec![stored(None, &[1, 2, 3], 0), removed(&[1])], vec![stored(None, &[1], 0)]],
            vec![(prompt(), [3, 0, 0])],
        ),
        Case::new(
            "without its beginning nothing is a prefix",
            vec![vec![stored(None, &[1, 2, 3], 0), removed(&[1])]],
            vec![(prompt(), [0, 0, 0])],
        ),
        Case::new(
            "a clear alone",
            vec![vec![stored(None, &[1], 0)], vec![cleared()]],
            vec![(prompt(), [0, 0, 0])],
        ),
        Case::new(
            "a clear amid other events",
            vec![vec![stored(None, &[1, 2], 0), cleared(), stored(None, &[3], 0)]],
            vec![(prompt(), [1, 0, 0])],
        ),
        Case::new(
            "after an event that cannot be read only what follows is believed",
            vec![vec![
                stored(None, &[1, 2], 0),
                json!({"type": "BlockRemoved", "block_hashes": "all of them"}),
                stored(None, &[1], 0),
            ]],
            vec![(prompt(), [1, 0, 0])],
        )
        .damages(1),
        Case::new(
            "after damage a clear makes history whole",
            vec![vec![json!({"type": "BlockRemoved"})], vec![cleared(), stored(None, &[1], 0)]],
            vec![(prompt(), [1, 0, 0])],
        )
        .damages(1)
        .whole(),
    ]
}

impl Case {
    fn whole(self) -> Self {
        Self { complete: true, ..self }
    }
}

#[tokio::test]
async fn events_of_every_shape_claim_what_is_there_and_nothing_else() {
    let cases = [encodings(), groups(), tiers(), identities(), histories()];
    join_all(cases.into_iter().flatten().map(Case::check)).await;
}

#[tokio::test]
async fn a_finer_granularity_is_taken_over_and_a_change_of_it_starts_over() {
    let mut hand = Hand::start("granularity").await;
    let of = |size: u32, names: &[u64]| {
        let tokens: Vec<u32> = (0..size * names.len() as u32).collect();
        with(stored(None, names, 0), json!({"token_ids": tokens, "block_size": size}))
    };
    let overlap =
        |hand: &Hand| hand.target.overlap(&hand.blocks, &prompt().chain(&hand.blocks, &hand.target)).gpu;
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
    let overlap = |hand: &Hand, ask: &Ask| {
        hand.target.overlap(&hand.blocks, &ask.chain(&hand.blocks, &hand.target)).gpu
    };
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
    assert!(hand.target.complete(), "what has no place in the sequence can be ignored");

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
    let found =
        |hand: &Hand, ask: &Ask| hand.target.overlap(&hand.blocks, &ask.chain(&hand.blocks, &hand.target));
    assert_eq!(found(&hand, &prompt()), nothing, "history was lost: nothing before is believed");
    assert!(!hand.target.complete());
    hand.publish(&json!([cleared(), stored(None, &[6, 7], 200)])).await;
    hand.applied().await;
    assert_eq!((found(&hand, &other).gpu, hand.target.report().blocks), (2, [2, 0, 0]));
    assert!(hand.target.complete(), "a clear makes everything known again");
}
