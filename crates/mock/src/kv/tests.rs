//! Names, encodings and the record of a rank. The sockets are tested over loopback in `tests/it/kv.rs`.

use std::sync::Arc;

use bytes::Bytes;
use tito_engine_sim::{BlockHash, KvEvent, RequestId, StoredBlocks};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::batch::{Event, Names, Stored};
use super::digest::{Digest, Digester, Key};
use super::log::Log;
use super::msgpack::Writer;
use super::publisher::{Message, Publisher};
use super::{Lora, MediaSpan, Origin, encode, endpoint};
use crate::config::{EventEncoding, HashAlgorithm, KvStyle, MockConfig};
use crate::faults::{Fault, FaultSpec, FrameFault};
use crate::instance::Instance;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn digester(algorithm: HashAlgorithm) -> Digester {
    Digester::new(algorithm, None)
}

/// Digests that vLLM 0.32 computes, by their last eight bytes.
#[test]
fn digests_are_vllms() {
    use HashAlgorithm::{Sha256, Sha256Cbor};
    let media = |identifier, offset| Key::Media { identifier, offset };
    let (lora, salt) = (Key::Lora { name: "ad", path: "/p" }, Key::Salt("s"));
    let long = "i".repeat(300);
    let large: &[u32] = &[1, 300, 70_000, 1 << 31, u32::MAX];
    let cases: [(HashAlgorithm, &[u32], &[Key<'_>], &str); 8] = [
        (Sha256Cbor, &[1, 2, 3, 4], &[], "84b146b151d55111"),
        (Sha256Cbor, &[1, 2, 3, 4], &[salt], "9679178595884d02"),
        (Sha256Cbor, &[1, 2, 3, 4], &[lora, media("img", 2), salt], "274c9d76f1e0e046"),
        // 83 5820… 85 01 19012c 1a00011170 1a80000000 1affffffff 81 83 626d6d 63696d67 39012b
        (Sha256Cbor, large, &[media("img", -300)], "d4a495c63232da8e"),
        (Sha256, &[1, 2, 3, 4], &[], "1a1eb4e3edd9361a"),
        (Sha256, large, &[lora, media("img", -2), media("img2", 3), salt], "583a1f85f844a089"),
        (Sha256, &[1, 2], &[media(&long, 2)], "bf918283ffe81b7e"),
        (Sha256, &[1], &[], "8f11ed7ff290cbf0"),
    ];
    for (algorithm, ids, keys, expected) in cases {
        let mut digester = digester(algorithm);
        let none = digester.none();
        assert_eq!(
            hex(&digester.block(&none, ids, keys).0[24..]),
            expected,
            "{algorithm:?} {ids:?} {keys:?}"
        );
    }
}

#[test]
fn blocks_are_chained_and_named_by_their_last_eight_bytes() {
    let mut digester = digester(HashAlgorithm::Sha256Cbor);
    let none = digester.none();
    assert_eq!(none.name(), 10_672_167_085_007_826_672);
    let first = digester.block(&none, &[1, 2, 3, 4], &[]);
    assert_eq!(first.name(), 9_561_501_211_280_363_793);
    let child = digester.block(&first, &[5, 6, 7, 8], &[]);
    assert_eq!(child.name(), 15_292_913_576_410_714_033);
    let prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    let both = super::names(digester, 4, &prompt, &Origin::default());
    assert_eq!(both, [first.name(), child.name()], "what is not full has no name");
}

#[test]
fn a_seed_renames_every_block() {
    let none = |algorithm, seed| hex(&Digester::new(algorithm, seed).none().0);
    let zero = "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e";
    assert_eq!(none(HashAlgorithm::Sha256Cbor, Some("0")), zero);
    let default = "066b1e8987e027138e98701c46128929378935f9b6cd1549105ae6b4f0d71198";
    assert_eq!(none(HashAlgorithm::Sha256, None), default);
}

#[test]
fn values_are_written_in_their_shortest_form() {
    let check = |write: &dyn Fn(&mut Writer), expected: &str| {
        let mut writer = Writer::default();
        write(&mut writer);
        let bytes = hex(&writer.bytes);
        assert!(bytes.starts_with(expected), "{} is not {expected}", &bytes[..bytes.len().min(20)]);
    };
    for (value, expected) in [
        (0, "00"),
        (127, "7f"),
        (128, "cc80"),
        (256, "cd0100"),
        (65_536, "ce00010000"),
        (1 << 32, "cf0000000100000000"),
        (-1, "ff"),
        (-32, "e0"),
        (-33, "d0df"),
        (-129, "d1ff7f"),
        (-32_769, "d2ffff7fff"),
        (i64::MIN, "d38000000000000000"),
    ] {
        check(&|writer| writer.integer(value), expected);
    }
    for (length, text, binary, array, map) in [
        (0, "a0", "c400", "90", "80"),
        (15, "af", "c40f", "9f", "8f"),
        (16, "b0", "c410", "dc0010", "de0010"),
        (32, "d920", "c420", "dc0020", "de0020"),
        (256, "da0100", "c50100", "dc0100", "de0100"),
        (65_536, "db00010000", "c600010000", "dd00010000", "df00010000"),
    ] {
        check(&|writer| writer.text(&"x".repeat(length)), text);
        check(&|writer| writer.binary(&vec![0; length]), binary);
        check(&|writer| writer.array(length), array);
        check(&|writer| writer.map(length), map);
    }
}

/// An adapter, a salt, and an image at positions 3 and 4.
fn origin() -> Origin {
    let media =
        |identifier: &str, offset, length| MediaSpan { identifier: identifier.into(), offset, length };
    Origin {
        lora: Some(Lora { id: 7, name: "ad".into(), path: "/p".into() }),
        salt: Some("s".into()),
        session_id: Some("me".into()),
        media: vec![media("img", 3, 2), media("later", 9, 1)],
    }
}

#[test]
fn a_block_has_the_keys_of_what_overlaps_it() {
    let origin = origin();
    let image = |offset| Key::Media { identifier: "img", offset };
    let lora = Key::Lora { name: "ad", path: "/p" };
    assert_eq!(origin.keys(0, 3), [lora, Key::Salt("s")], "the image begins with the next block");
    assert_eq!(origin.keys(0, 4), [lora, image(3), Key::Salt("s")]);
    assert_eq!(origin.keys(4, 4), [lora, image(-1)]);
    assert_eq!(origin.keys(5, 4), [lora], "the image has ended, the next one has not begun");
    assert_eq!(Origin::default().keys(0, 4), []);
}

fn digest(byte: u8) -> Digest {
    Digest([byte; 32])
}

fn events() -> Vec<Event> {
    let stored = |parent, blocks: &[u8], start, token_ids: &[u32], origin| {
        let blocks = blocks.iter().map(|&byte| digest(byte)).collect();
        Event::Stored(Stored {
            parent,
            blocks,
            start,
            token_ids: token_ids.to_vec(),
            origin: Arc::new(origin),
        })
    };
    vec![
        Event::Cleared,
        stored(None, &[1, 2], 0, &[1, 2, 3, 300], origin()),
        stored(Some(digest(2)), &[3], 4, &[5, 6], Origin::default()),
        Event::Removed(digest(3)),
    ]
}

/// Reads a batch back with the mock's own reader and writes it as text.
fn shown(style: &KvStyle) -> String {
    let mut bytes = encode::batch(&events(), 5, 2, style);
    encode::set_time(&mut bytes, 1.5);
    assert_eq!(bytes[1..10], [0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0]);
    String::from_utf8_lossy(&bytes).replace(|letter: char| !letter.is_ascii_graphic(), "~")
}

#[test]
fn events_are_maps_or_arrays() {
    let map = shown(&KvStyle::default());
    let keys = "type BlockStored block_hashes parent_block_hash token_ids block_size lora_id medium GPU lora_name \
        extra_keys group_idx kv_cache_spec_kind full_attention session_id me";
    let mut at = 0;
    for key in keys.split(' ') {
        let found = map[at..].find(key);
        at += found.unwrap_or_else(|| panic!("no {key} after {}", &map[at..])) + key.len();
    }
    assert_eq!(map.matches("type").count(), 4);
    assert_eq!(map.matches("session_id").count(), 1, "only where there is one");
    let array = shown(&KvStyle { encoding: EventEncoding::Array, ..KvStyle::default() });
    assert!(!array.contains("type") && array.contains("BlockRemoved"));
    assert!(array.len() < map.len());
    let whole = encode::batch(&events(), 5, 2, &KvStyle { whole_digests: true, ..KvStyle::default() });
    assert!(whole.windows(32).any(|window| window == [2; 32]));
}

#[test]
fn removals_are_told_one_by_one_and_a_clear_forgets_all_names() {
    let mut names = Names::new(digester(HashAlgorithm::Sha256Cbor), 4);
    let stored = |parent: Option<u64>, blocks: &[u64]| {
        let offset_tokens = if parent.is_some() { 8 } else { 0 };
        let token_ids = (1..=blocks.len() as u32 * 4).collect();
        let blocks = blocks.iter().map(|&block| BlockHash(block)).collect();
        let parent = parent.map(BlockHash);
        KvEvent::Stored(StoredBlocks { request: RequestId(1), parent, blocks, offset_tokens, token_ids })
    };
    let mut take = |mut events: Vec<KvEvent>| -> Vec<String> {
        let taken = names.take(&mut events, |_| Arc::default());
        let show = |event: &Event| match event {
            Event::Stored(stored) => format!("stored {}", stored.blocks.len()),
            Event::Removed(digest) => format!("removed {}", digest.name()),
            Event::Cleared => "cleared".to_owned(),
        };
        taken.iter().map(show).collect()
    };
    assert_eq!(take(vec![stored(None, &[11, 12]), stored(Some(12), &[13])]), ["stored 2", "stored 1"]);
    let removed = KvEvent::Removed(vec![BlockHash(13), BlockHash(12), BlockHash(11)]);
    assert_eq!(take(vec![removed]).last().unwrap(), "removed 9561501211280363793");
    assert_eq!(take(vec![KvEvent::Cleared, stored(None, &[11])]), ["cleared", "stored 1"]);
}

#[test]
fn the_record_keeps_the_last_batches_and_what_is_resident() {
    let log = Log::new(3);
    let now = Instant::now();
    assert_eq!((log.last_seq(), log.since(0, now)), (None, vec![]));
    for seq in 0..5 {
        assert_eq!(log.add(&events(), Bytes::from(vec![seq as u8]), now), seq);
    }
    let kept = |from| log.since(from, now).iter().map(|(seq, _)| *seq).collect::<Vec<_>>();
    assert_eq!((kept(0), kept(3), kept(4), kept(9)), (vec![2, 3, 4], vec![3, 4], vec![4], vec![]));
    let state = log.state();
    assert_eq!(state.last_seq, Some(4));
    assert_eq!(state.resident.into_iter().collect::<Vec<_>>(), [digest(1).name(), digest(2).name()]);
}

#[test]
fn only_wildcards_are_bound_and_only_tcp_is_served() {
    let any = "127.0.0.7".parse().unwrap();
    let bind = |port| Ok(endpoint::Place::Bind(std::net::SocketAddr::new(any, port)));
    assert_eq!(endpoint::publish("tcp://*:5557", any), bind(5557));
    assert_eq!(endpoint::publish("tcp://[::]:0", any), bind(0));
    let there = "tcp://10.0.0.1:5557";
    assert_eq!(endpoint::publish(there, any), Ok(endpoint::Place::Connect(there.to_owned())));
    assert_eq!(endpoint::replay("tcp://*:1", any).unwrap().to_string(), "127.0.0.7:1");
    assert_eq!(endpoint::replay("tcp://localhost:1", any).unwrap().to_string(), "127.0.0.1:1");
    assert_eq!(endpoint::replay("tcp://[::1]:1", any).unwrap().to_string(), "[::1]:1");
    for bad in ["ipc:///run/kv", "inproc://kv", "tcp://*", "tcp://:1", "tcp://*:70000", ""] {
        assert!(endpoint::publish(bad, any).is_err(), "{bad}");
        assert!(endpoint::replay(bad, any).is_err(), "{bad}");
    }
    assert!(endpoint::publish("tcp://10.0.0.1:0", any).is_err(), "nothing to connect to");
    assert!(endpoint::replay("tcp://name.example:1", any).is_err(), "names are not looked up");
    for host in ["*", "[::]"] {
        let bound = endpoint::with_port(&format!("tcp://{host}:0"), u16::MAX);
        assert_eq!(bound, format!("tcp://{host}:{}", u16::MAX));
    }
}

/// Publishes six batches under faults and says which sequence numbers arrive, each with its first byte.
fn arrivals(faults: &[(FrameFault, u64, u32)]) -> Vec<String> {
    let config = MockConfig { block_size: 2, ..MockConfig::new() };
    let instance = Arc::new(Instance::new(config, Vec::new(), Vec::new()));
    for &(frame, at_seq, count) in faults {
        let fault = Fault::KvFrame { rank: Some(0), at_seq, frame };
        instance.faults.add(FaultSpec { count: Some(count), ..FaultSpec::new(fault) }).unwrap();
    }
    let (outbox, mut queue) = mpsc::channel(16);
    let mut publisher = Publisher::new(instance, 0, Arc::new(Log::new(10)), outbox);
    for block in 0..6 {
        let (request, blocks, token_ids) = (RequestId(1), vec![BlockHash(block)], vec![block as u32, 1]);
        let stored = StoredBlocks { request, parent: None, blocks, offset_tokens: 0, token_ids };
        let batch = publisher.encode(&mut vec![KvEvent::Stored(stored)], |_| Arc::default()).unwrap();
        publisher.publish(batch);
    }
    let mut arrived = Vec::new();
    while let Ok(Message { frames: [_, seq, batch], due: _ }) = queue.try_recv() {
        arrived.push(format!("{}:{:02x}", hex(&seq).trim_start_matches('0'), batch[0]));
    }
    arrived
}

#[test]
fn batches_go_wrong_as_told() {
    let check = |faults: &[_], expected: &[&str]| assert_eq!(arrivals(faults), expected, "{faults:?}");
    check(&[], &[":93", "1:93", "2:93", "3:93", "4:93", "5:93"]);
    check(&[(FrameFault::Drop, 1, 3)], &[":93", "4:93", "5:93"]);
    check(&[(FrameFault::Duplicate, 5, 1)], &[":93", "1:93", "2:93", "3:93", "4:93", "5:93", "5:93"]);
    check(&[(FrameFault::Reorder, 1, 1)], &[":93", "2:93", "1:93", "3:93", "4:93", "5:93"]);
    check(&[(FrameFault::Reorder, 4, 2)], &[":93", "1:93", "2:93", "3:93", "4:93"]);
    check(&[(FrameFault::Corrupt, 2, 1)], &[":93", "1:93", "2:6c", "3:93", "4:93", "5:93"]);
    check(&[(FrameFault::TruncateSeq, 1, 1)], &[":93", ":93", "2:93", "3:93", "4:93", "5:93"]);
    let both = [(FrameFault::Drop, 1, 1), (FrameFault::Duplicate, 1, 1)];
    check(&both, &[":93", "2:93", "2:93", "3:93", "4:93", "5:93"]);
}
