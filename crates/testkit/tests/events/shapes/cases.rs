//! The shapes, by what they are about.

use serde_json::{Value, json};
use tito_types::Modality;

use super::{Case, cleared, prompt, removed, stored, with};
use crate::ask::{Ask, Item};

pub(super) fn all() -> Vec<Case> {
    [encodings(), groups(), tiers(), identities(), histories()].into_iter().flatten().collect()
}

/// The same event as an array, as older releases wrote it.
fn positional(event: &Value) -> Value {
    let order = ["type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"];
    let removed = ["type", "block_hashes", "medium"];
    let order = if event["type"] == "BlockRemoved" { &removed[..] } else { &order[..] };
    order.iter().filter_map(|field| event.get(field)).cloned().collect()
}

/// What each spelling of an event is read as is tested in `tito-engine-vllm`.
fn encodings() -> Vec<Case> {
    let all = [stored(None, &[1, 2], 0), stored(Some(2), &[3, 4], 8), removed(&[4])];
    let future = with(stored(None, &[1, 2], 0), json!({"colour": {"deep": [1, [2]]}, "session_id": "me"}));
    let unknown = json!({"type": "BlockPondered", "block_hashes": [1]});
    vec![
        Case::new("arrays", vec![all.iter().map(positional).collect()], vec![(prompt(), [3, 0, 0])]),
        Case::new("fields and kinds of the future", vec![vec![future, unknown]], vec![(prompt(), [2, 0, 0])])
            .skips(1),
    ]
}

fn groups() -> Vec<Case> {
    let of =
        |event, group: u32, kind: &str| with(event, json!({"group_idx": group, "kv_cache_spec_kind": kind}));
    let both = vec![
        of(stored(None, &[1, 2], 0), 0, "sliding_window"),
        of(stored(None, &[1, 2], 0), 1, "full_attention"),
    ];
    vec![
        Case::new(
            "what a window drops, full attention keeps",
            vec![both, vec![with(removed(&[1]), json!({"group_idx": 0}))]],
            vec![(prompt(), [2, 0, 0])],
        )
        .skips(2),
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
        Case::new(
            "a lower tier that leaves out the salt is the salted one's",
            vec![vec![
                with(stored(None, &[1, 2], 0), json!({"extra_keys": [["s"], null]})),
                on(stored(None, &[1, 2, 3], 0), "CPU"),
                removed(&[2]),
            ]],
            vec![(Ask { salt: Some("s"), ..prompt() }, [1, 2, 0])],
        ),
        Case::new(
            "a copy that only names its blocks is of what the engine has by those names",
            vec![vec![
                with(stored(None, &[1, 2, 3], 0), json!({"extra_keys": [["s"], null, null]})),
                with(
                    on(stored(None, &[1, 2, 99], 0), "CPU"),
                    json!({"token_ids": [], "block_size": 0, "parent_block_hash": null}),
                ),
                removed(&[3, 2]),
            ]],
            vec![(Ask { salt: Some("s"), ..prompt() }, [1, 1, 0])],
        ),
        Case::new("a clear is of all tiers", vec![spread(), vec![cleared()]], vec![(prompt(), [0, 0, 0])]),
        Case::new(
            "names that stand for nothing, unknown media and other places are left out",
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
        .skips(4),
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
            "stored twice and removed once is there",
            vec![vec![stored(None, &[1, 2], 0)], vec![stored(None, &[1, 2], 0), removed(&[2])]],
            vec![(prompt(), [2, 0, 0])],
        ),
        Case::new(
            "stored twice and removed twice is gone",
            vec![
                vec![stored(None, &[1, 2], 0), stored(Some(1), &[2], 4)],
                vec![removed(&[2]), removed(&[2])],
            ],
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
