mod recordings;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kv::batch::pack::pack;

/// What comes of a batch on a rank whose groups are these: one line per event, and what was left out.
fn shown(payload: &[u8], groups: &mut Groups) -> String {
    let Ok(Batch { events, unreadable, skipped, damaged, media_inexact, not_compared }) =
        Batch::read(payload)
    else {
        return "malformed".to_owned();
    };
    let (events, left_out) = groups.admit(events);
    let mut lines: Vec<String> = events.iter().map(shown_event).collect();
    let counted = [("unreadable", unreadable), ("skipped", skipped + left_out)];
    lines.extend(
        counted.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{what} {count}")),
    );
    lines.extend(damaged.then(|| "damaged".to_owned()));
    lines.extend(media_inexact.map(ToOwned::to_owned));
    lines.extend(not_compared.map(|why| format!("not compared: {why}")));
    lines.join("; ")
}

fn shown_event(event: &KvEvent) -> String {
    match event {
        KvEvent::Cleared => "cleared".to_owned(),
        KvEvent::Copied { hashes, tier } => format!("copied {:?} {tier:?}", plain(hashes)),
        KvEvent::Removed { hashes, tier } => format!("removed {:?} {tier:?}", plain(hashes)),
        KvEvent::Stored(blocks) => {
            let StoredBlocks {
                parent,
                hashes,
                tokens,
                block_tokens,
                tier,
                adapter,
                adapter_id,
                salt,
                extras,
            } = blocks;
            let mut words = vec![format!("stored {:?} {tokens:?}/{block_tokens} {tier:?}", plain(hashes))];
            words.extend(parent.map(|parent| format!("after {}", parent.0)));
            words.extend(adapter.as_ref().map(|adapter| format!("adapter={adapter}")));
            words.extend(adapter_id.map(|id| format!("load={id}")));
            words.extend(salt.as_ref().map(|salt| format!("salt={salt}")));
            for (at, extras) in extras.iter().enumerate() {
                let media =
                    extras.media.iter().map(|item| format!("{at}:{}@{}", item.identifier, item.offset));
                words.extend(media.chain(extras.opaque.iter().map(|opaque| format!("{at}:{opaque:?}"))));
            }
            words.join(" ")
        }
    }
}

fn plain(hashes: &[EngineHash]) -> Vec<u64> {
    hashes.iter().map(|hash| hash.0).collect()
}

/// What comes of events on a rank that saw nothing before.
#[track_caller]
fn check(events: &Value, expected: &str) {
    let payload = pack(&json!([1.5, events, 0]));
    assert_eq!(shown(&payload, &mut Groups::default()), expected);
}

fn stored(change: Value) -> Value {
    let event = json!({"type": "BlockStored", "block_hashes": [10, 11], "parent_block_hash": null,
        "token_ids": [1, 2, 3, 4], "block_size": 2, "lora_id": null, "medium": "GPU", "lora_name": null});
    changed(event, change)
}

fn removed(change: Value) -> Value {
    changed(json!({"type": "BlockRemoved", "block_hashes": [10], "medium": "GPU"}), change)
}

fn changed(mut event: Value, mut change: Value) -> Value {
    event.as_object_mut().expect("an object").append(change.as_object_mut().expect("an object"));
    event
}

/// What comes of one block pair that is stored with this change.
#[track_caller]
fn check_stored(change: Value, expected: &str) {
    check(&json!([stored(change)]), expected);
}

/// What comes of one block that is removed with this change.
#[track_caller]
fn check_removed(change: Value, expected: &str) {
    check(&json!([removed(change)]), expected);
}

const PLAIN: &str = "stored [10, 11] [1, 2, 3, 4]/2 Gpu";

#[test]
fn maps_and_positional_arrays_of_any_length_say_the_same() {
    check_stored(json!({}), PLAIN);
    check_stored(json!({"new_field": {"a": [1]}, "session_id": "s"}), PLAIN);
    for tail in 0..=7 {
        let mut event = json!([
            "BlockStored",
            [10, 11],
            null,
            [1, 2, 3, 4],
            2,
            null,
            "GPU",
            null,
            [null, null],
            0,
            "full_attention",
            7
        ]);
        event.as_array_mut().expect("a list").truncate(5 + tail);
        let told =
            if tail > 3 { PLAIN.to_owned() } else { format!("{PLAIN}; {UNTOLD}; not compared: {UNTOLD}") };
        check(&json!([event]), &told);
    }
    check(&json!([["BlockRemoved", [7]]]), "removed [7] Gpu");
    check(&json!([["BlockRemoved", [7], "CPU"]]), "removed [7] Cpu");
    check(&json!([["AllBlocksCleared"], {"type": "AllBlocksCleared"}]), "cleared; cleared");
    let payload = pack(&json!({"ts": 1, "data_parallel_rank": 1, "events": [{"type": "AllBlocksCleared"}]}));
    assert_eq!(shown(&payload, &mut Groups::default()), "cleared");
    let payload = pack(&json!([1, [{"type": "AllBlocksCleared"}], 0, "more"]));
    assert_eq!(shown(&payload, &mut Groups::default()), "cleared");
}

#[test]
fn hashes_are_integers_or_the_tail_of_a_digest() {
    let digest = json!({"$bin": [9, 9, 0, 0, 0, 0, 0, 0, 1, 2]});
    let told = "removed [18446744073709551615, 18446744073709551615, 258] Gpu";
    check_removed(json!({"block_hashes": [u64::MAX, -1, digest]}), told);
    let unread = "unreadable 1; damaged";
    check_removed(json!({"block_hashes": [{"$bin": [1, 2, 3]}]}), unread);
    check_removed(json!({"block_hashes": ["text"]}), unread);
}

#[test]
fn only_the_first_group_of_full_attention_feeds() {
    let left_out = format!("skipped 1; not compared: {GROUPS}");
    let fed = "full_attention mla_attention sink_full_attention".split(' ').map(|kind| (kind, PLAIN));
    let others = "sliding_window sliding_window_mla mamba chunked_local_attention cross_attention \
        encoder_only_attention unknown of_tomorrow";
    for (kind, told) in fed.chain(others.split(' ').map(|kind| (kind, left_out.as_str()))) {
        check_stored(json!({"kv_cache_spec_kind": kind, "group_idx": 0}), told);
    }
    let full = |group: u32| stored(json!({"kv_cache_spec_kind": "full_attention", "group_idx": group}));
    let window = stored(json!({"kv_cache_spec_kind": "sliding_window", "group_idx": 0}));
    let gone = |group: u32| removed(json!({"group_idx": group}));
    let hybrid = |text: &str| format!("{PLAIN}; {text}; not compared: {GROUPS}");
    check(&json!([window, full(1), full(2), gone(2), gone(0)]), &hybrid("skipped 4"));
    check(&json!([window, full(1), full(2), gone(1)]), &hybrid("removed [10] Gpu; skipped 2"));
    check(&json!([full(1), full(2)]), &format!("{PLAIN}; skipped 1"));
    check(&json!([gone(3)]), "removed [10] Gpu");
    check(&json!([stored(json!({})), gone(0), gone(1)]), &format!("{PLAIN}; removed [10] Gpu; skipped 1"));
}

#[test]
fn tiers_are_kept_apart_and_unknown_places_left_out() {
    for (medium, tier) in [("gpu", "Gpu"), ("CPU", "Cpu"), ("Storage", "Storage")] {
        check_removed(json!({"medium": medium}), &format!("removed [10] {tier}"));
        check_stored(json!({"medium": medium}), &PLAIN.replace("Gpu", tier));
    }
    check_removed(json!({"medium": null}), "removed [10] Gpu");
    check_removed(json!({"medium": "TAPE"}), "skipped 1");
    check_stored(json!({"locality": "LOCAL"}), PLAIN);
    check_stored(json!({"locality": "REMOTE"}), "skipped 1");
    check_removed(json!({"locality": "MOON"}), "skipped 1");
    check_stored(json!({"token_ids": [], "block_size": 0, "medium": "CPU"}), "copied [10, 11] Cpu");
    check_stored(json!({"token_ids": [], "block_size": 0}), "skipped 1");
}

#[test]
fn extra_keys_become_adapter_media_salt_and_opaque_bytes() {
    let untagged = "extra keys hold strings that tell no media offset";
    for (keys, told) in [
        (json!([["s"], null]), " salt=s".to_owned()),
        (json!([[""], null]), String::new()),
        (json!([[["img", 1]], [["img", -1], ["vid", 0]]]), " 0:img@1 1:img@-1 1:vid@0".to_owned()),
        (json!([[["img", 1], "s"], null]), " salt=s 0:img@1".to_owned()),
        (json!([[{"$bin": [1, 2]}], null]), " 0:[1, 2]".to_owned()),
        (json!([null, ["h"]]), format!(" 1:[104]; {untagged}")),
        (json!([["h", "s"], null]), format!(" 0:[104] 0:[115]; {untagged}")),
        (json!([[[1, 2, 3]], null]), " 0:[220, 0, 3, 1, 2, 3]; extra keys have an unknown shape".to_owned()),
    ] {
        check_stored(json!({"extra_keys": keys}), &format!("{PLAIN}{told}"));
    }
    let child = json!({"parent_block_hash": 9, "extra_keys": [["s"], null]});
    check_stored(child, &format!("{PLAIN} after 9 0:[115]; {untagged}"));
    let ambiguous =
        "a string alone in the keys of a first block may be a salt or a media item without its offset";
    for (keys, told) in [
        (json!([["s"], null]), format!("{PLAIN} salt=s; {ambiguous}")),
        (json!([[""], null]), PLAIN.to_owned()),
        (json!([[["img", 1]], null]), format!("{PLAIN} 0:img@1")),
    ] {
        check(&json!([["BlockStored", [10, 11], null, [1, 2, 3, 4], 2, null, "GPU", null, keys]]), &told);
    }
    for (keys, told) in [
        (json!([["k"], ["k"]]), ""),
        (json!([["k", "k"], ["k"]]), " salt=k"),
        (json!([["k", ["i", 0], "s"], ["k"]]), " salt=s 0:i@0"),
    ] {
        let adapted = json!({"lora_id": 1, "lora_name": "k", "extra_keys": keys});
        check_stored(adapted, &format!("{PLAIN} adapter=k load=1{told}"));
    }
    check_stored(json!({"lora_name": "k"}), &format!("{PLAIN} adapter=k"));
    check_stored(json!({"lora_name": ""}), PLAIN);
    check_stored(json!({"lora_id": 4}), "skipped 1");
}

#[test]
fn an_event_that_cannot_be_read_leaves_the_others() {
    let fine = stored(json!({}));
    for broken in [
        stored(json!({"token_ids": [1, 2, 3]})),
        stored(json!({"token_ids": []})),
        stored(json!({"block_size": u32::MAX})),
        stored(json!({"block_size": -1})),
        stored(json!({"token_ids": [1, 2, 3, -4]})),
        stored(json!({"token_ids": "text"})),
        stored(json!({"block_hashes": null})),
        stored(json!({"extra_keys": [null]})),
        json!(["BlockStored", [1]]),
    ] {
        check(&json!([broken, fine]), &format!("{PLAIN}; unreadable 1; not compared: {UNREADABLE}"));
    }
    check(&json!([fine, {"type": "BlockPinned", "x": 1}, ["BlockPinned"]]), &format!("{PLAIN}; skipped 2"));
    let no_event = [json!(7), json!(null), json!([]), json!([1]), json!({}), json!({"type": 1})];
    for broken in no_event.into_iter().chain([removed(json!({"block_hashes": 1}))]) {
        check(&json!([fine, broken, fine]), &format!("{PLAIN}; unreadable 1; damaged"));
    }
}

#[test]
fn bytes_that_are_no_batch_are_said_to_be_none() {
    for payload in [json!(null), json!([]), json!([1]), json!([1, 2]), json!({"ts": 1}), json!("text")] {
        assert_eq!(Batch::read(&pack(&payload)), Err(Malformed), "{payload}");
    }
    let whole = pack(&json!([1.5, [stored(json!({}))], 0]));
    for length in 0..whole.len() - 1 {
        assert_eq!(Batch::read(&whole[..length]), Err(Malformed), "{length}");
    }
    let claim = [0x92, 0x01, 0xdd, 0xff, 0xff, 0xff, 0xff, 0x80];
    assert_eq!(Batch::read(&claim), Err(Malformed));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = Batch::read(&bytes);
    }

    #[test]
    fn what_is_read_adds_up_however_a_batch_was_damaged(at in 0_usize..300, byte: u8) {
        let event = stored(json!({"extra_keys": [["s"], [["img", -3]]], "group_idx": 0}));
        let mut payload = pack(&json!([1.5, [event, removed(json!({}))], 0]));
        if let Some(damaged) = payload.get_mut(at) {
            *damaged = byte;
        }
        for (_, event) in Batch::read(&payload).unwrap_or_default().events {
            if let KvEvent::Stored(blocks) = event {
                prop_assert!(blocks.block_tokens >= 1 && !blocks.hashes.is_empty());
                prop_assert_eq!(blocks.tokens.len(), blocks.hashes.len() * blocks.block_tokens as usize);
                prop_assert!(blocks.extras.is_empty() || blocks.extras.len() == blocks.hashes.len());
            }
        }
    }
}
