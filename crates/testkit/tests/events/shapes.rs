//! Events as other engines and other releases shape them, from their bytes to what may be claimed of a prompt, tier by tier.
//!
//! How each spelling is read is tested in `tito-engine-vllm`, and what each event does to a table in `tito-kv-index`.

use serde_json::{Value, json};
use tito_engine_vllm::test_util::{pack, read_kv_batch};
use tito_kv_index::{Hasher, Index, IndexConfig, Table, TierOverlap};
use tito_types::Modality;

use crate::ask::{Ask, Item};

/// Tokens per block.
const BLOCK_TOKENS: u32 = 4;

/// Blocks stored on the GPU, named as told, with the tokens from `first` on, and these other fields.
fn stored(parent: Option<u64>, names: &[u64], first: u32, fields: Value) -> Value {
    let tokens: Vec<u32> = (first..first + BLOCK_TOKENS * names.len() as u32).collect();
    let event = json!({"type": "BlockStored", "block_hashes": names, "parent_block_hash": parent, "token_ids": tokens,
        "block_size": BLOCK_TOKENS, "lora_id": null, "medium": "GPU", "lora_name": null});
    with(event, fields)
}

fn removed(names: &[u64], fields: Value) -> Value {
    with(json!({"type": "BlockRemoved", "block_hashes": names, "medium": "GPU"}), fields)
}

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

/// After a batch of events these prompts, and none that nearly are these, have as many leading blocks in device memory,
/// host memory and storage.
#[track_caller]
fn check(what: &str, events: &[Value], held: &[(Ask, [usize; 3])]) {
    let (index, hasher) = (Index::new(IndexConfig { bytes_max: 8 << 20 }), Hasher::new(7));
    let mut table = Table::new(BLOCK_TOKENS);
    for event in read_kv_batch(&pack(&json!([1.5, events, 0]))).expect("a batch") {
        table.apply(&index, &hasher, &event);
    }
    let found = |ask: &Ask| {
        let chain = ask.chain(&hasher, table.generations(), BLOCK_TOKENS);
        let TierOverlap { gpu, cpu, storage } = table.overlap(&index, &chain);
        [gpu, cpu, storage]
    };
    for (ask, blocks) in held {
        assert_eq!(found(ask), *blocks, "{what}: {ask:?}");
        for stranger in ask.strangers().iter().filter(|stranger| held.iter().all(|(ask, _)| ask != *stranger))
        {
            assert_eq!(found(stranger), [0; 3], "{what}: a stranger: {stranger:?}");
        }
    }
}

#[test]
fn older_and_newer_spellings_say_the_same() {
    let none = || json!({});
    let arrays =
        [stored(None, &[1, 2], 0, none()), stored(Some(2), &[3, 4], 8, none()), removed(&[4], none())];
    check("arrays", &arrays.each_ref().map(positional), &[(prompt(), [3, 0, 0])]);
    let future = stored(None, &[1, 2], 0, json!({"colour": {"deep": [1, [2]]}, "session_id": "me"}));
    let unknown = json!({"type": "BlockPondered", "block_hashes": [1]});
    check("fields and kinds of the future", &[future, unknown], &[(prompt(), [2, 0, 0])]);
    let of = |group: u32, kind: &str| json!({"group_idx": group, "kv_cache_spec_kind": kind});
    let window = stored(None, &[1, 2], 0, of(0, "sliding_window"));
    let full = stored(None, &[1, 2], 0, of(1, "full_attention"));
    let events = [window, full, removed(&[1], json!({"group_idx": 0}))];
    check("what a window drops, full attention keeps", &events, &[(prompt(), [2, 0, 0])]);
    let cleared = json!({"type": "AllBlocksCleared"});
    let events = [stored(None, &[1, 2], 0, none()), cleared, stored(None, &[3], 0, none())];
    check("a clear amid other events", &events, &[(prompt(), [1, 0, 0])]);
}

#[test]
fn what_leaves_one_tier_is_looked_for_on_the_next() {
    let on = |medium: &str| json!({"medium": medium});
    let spread = [
        stored(None, &[1, 2], 0, json!({})),
        stored(None, &[1, 2, 3], 0, on("CPU")),
        stored(Some(3), &[4], 12, on("STORAGE")),
        removed(&[2], json!({})),
    ];
    check("a block that leaves one tier stays on the others", &spread, &[(prompt(), [1, 2, 1])]);
    let named = json!({"medium": "CPU", "token_ids": [], "block_size": 0, "block_hashes": [1, 2, 99]});
    let copied = [
        stored(None, &[1, 2, 3], 0, json!({"extra_keys": [["s"], null, null]})),
        stored(None, &[1, 2], 0, named),
        removed(&[3, 2], json!({})),
    ];
    let salted = Ask { salt: Some("s"), ..prompt() };
    check("a copy is of what the engine has by those names", &copied, &[(salted, [1, 1, 0])]);
    let elsewhere = [
        stored(None, &[1], 0, json!({})),
        stored(Some(1), &[2], 4, on("MOON")),
        stored(Some(1), &[2], 4, json!({"locality": "REMOTE"})),
        removed(&[1], json!({"locality": "REMOTE"})),
        removed(&[1], on("MOON")),
    ];
    check("unknown media and other places are left out", &elsewhere, &[(prompt(), [1, 0, 0])]);
}

#[test]
fn salts_adapters_and_media_are_prefixes_of_their_own() {
    let adapter = |keys: Value| json!({"lora_name": "ad", "lora_id": 1, "extra_keys": keys});
    let events = [
        stored(None, &[1, 2], 0, json!({})),
        stored(None, &[11], 0, json!({"extra_keys": [["s"]]})),
        stored(None, &[21, 22, 23], 0, adapter(json!([["ad"], ["ad"], ["ad"]]))),
        stored(None, &[31, 32, 33, 34], 0, adapter(json!([["ad", "s"], ["ad"], ["ad"], ["ad"]]))),
    ];
    let salted = Ask { salt: Some("s"), ..prompt() };
    let adapted = Ask { adapter: Some("ad"), ..prompt() };
    let both = Ask { adapter: Some("ad"), ..salted.clone() };
    let held = [(prompt(), [2, 0, 0]), (salted, [1, 0, 0]), (adapted, [3, 0, 0]), (both, [4, 0, 0])];
    check("each name space is its own", &events, &held);
    let unnamed = [stored(None, &[1, 2], 0, json!({"lora_id": 3}))];
    check("an adapter without a name names no content", &unnamed, &[(prompt(), [0; 3])]);
    let picture = Item { modality: Modality::Image, identifier: "picture", offset: 2, length: 4 };
    let pictured = Ask { media: vec![picture], ..prompt() };
    let pairs = json!({"extra_keys": [[["picture", 2]], [["picture", -2]]]});
    let events = [stored(None, &[1, 2], 0, pairs), stored(Some(2), &[3], 8, json!({}))];
    check("media by identifier and place", &events, &[(pictured, [3, 0, 0]), (prompt(), [0; 3])]);
}
