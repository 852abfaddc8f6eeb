//! What vLLM 0.32 published, byte for byte, against the same batches as its recorder decoded them.

use tito_test_support::fixtures;

use super::*;

/// Batches the recordings hold at least; fewer means that files are missing.
const BATCHES_MIN: usize = 36;

#[test]
fn every_recorded_batch_is_read_as_it_was_recorded() {
    let mut batches = 0;
    for name in fixtures::names("kv-events") {
        let recording = fixtures::json("kv-events", &name);
        let mut groups = Groups::default();
        for frames in recording["frames"].as_array().expect("a list") {
            let Some(decoded) = frames.get("decoded") else { continue };
            let payload = frames["frames_hex"].as_array().expect("a list").last().expect("a payload");
            let found = shown(&fixtures::hex(payload.as_str().expect("hex")), &mut groups);
            let expected: Vec<String> =
                decoded[1].as_array().expect("events").iter().map(expected_event).collect();
            assert_eq!(found, expected.join("; "), "{name}");
            batches += 1;
        }
    }
    assert!(batches >= BATCHES_MIN, "only {batches} batches");
}

/// The line of [`shown_event`], made from the recorder's JSON.
fn expected_event(event: &Value) -> String {
    let tier = event["medium"].as_str().map(|_| "Gpu").unwrap_or_default();
    match event["type"].as_str().expect("a tag") {
        "AllBlocksCleared" => "cleared".to_owned(),
        "BlockRemoved" => format!("removed {} {tier}", list(&event["block_hashes"])),
        "BlockStored" => {
            let (tokens, size) = (list(&event["token_ids"]), &event["block_size"]);
            let mut words = vec![format!("stored {} {tokens}/{size} {tier}", list(&event["block_hashes"]))];
            words.extend(event["parent_block_hash"].as_u64().map(|parent| format!("after {parent}")));
            let adapter = event["lora_name"].as_str();
            words.extend(adapter.map(|adapter| format!("adapter={adapter} load={}", event["lora_id"])));
            let (mut salt, mut media) = (None, Vec::new());
            for (at, keys) in event["extra_keys"].as_array().expect("a list").iter().enumerate() {
                let keys = keys.as_array().map(Vec::as_slice).unwrap_or_default();
                for key in keys.iter().skip(usize::from(adapter.is_some())) {
                    match key {
                        Value::String(key) => salt = Some(format!("salt={key}")),
                        pair => media.push(format!("{at}:{}@{}", pair[0].as_str().expect("a name"), pair[1])),
                    }
                }
            }
            words.into_iter().chain(salt).chain(media).collect::<Vec<_>>().join(" ")
        }
        other => panic!("a recorded {other}"),
    }
}

fn list(numbers: &Value) -> String {
    let numbers = numbers.as_array().expect("a list").iter().map(|number| number.as_u64().expect("unsigned"));
    format!("{:?}", numbers.collect::<Vec<_>>())
}
