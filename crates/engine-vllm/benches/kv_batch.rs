//! How fast batches of KV events are read: `cargo bench -p tito-engine-vllm --features test-util`.
#![expect(clippy::print_stdout, reason = "the numbers are what it is for")]

use std::hint::black_box;
use std::time::Instant;

use tito_engine_vllm::test_util::read_kv_batch;
use tito_types::KvEvent;

/// Batches read per measurement.
const ROUNDS: u32 = 20_000;

fn main() {
    for (block_tokens, blocks) in [(16, 1), (16, 64), (32, 64), (512, 8)] {
        let payload = batch(block_tokens, blocks);
        let started = Instant::now();
        for _ in 0..ROUNDS {
            let events = read_kv_batch(black_box(&payload)).expect("a batch");
            assert!(matches!(&events[..], [KvEvent::Stored(stored)] if stored.hashes.len() == blocks));
        }
        let seconds = started.elapsed().as_secs_f64();
        let read = f64::from(ROUNDS);
        println!(
            "{blocks:3} blocks of {block_tokens:3} tokens, {:6} bytes: {:6.2} M blocks/s, {:5.0} MB/s",
            payload.len(),
            read * blocks as f64 / seconds / 1e6,
            read * payload.len() as f64 / seconds / 1e6,
        );
    }
}

/// A batch as vLLM 0.32 encodes it, with one event that stores `blocks` blocks.
fn batch(block_tokens: usize, blocks: usize) -> Vec<u8> {
    let mut bytes = vec![0x93, 0xcb, 0x41, 0xda, 0xc3, 0x05, 0x8e, 0x42, 0x7c, 0x5e, 0x91, 0x8a];
    text(&mut bytes, "type", Some("BlockStored"));
    text(&mut bytes, "block_hashes", None);
    array(&mut bytes, blocks);
    for block in 0..blocks {
        bytes.push(0xcf);
        bytes.extend((u64::MAX / 3 * 2 + block as u64).to_be_bytes());
    }
    text(&mut bytes, "parent_block_hash", None);
    bytes.push(0xc0);
    text(&mut bytes, "token_ids", None);
    array(&mut bytes, blocks * block_tokens);
    for token in 0..blocks * block_tokens {
        // A vocabulary of 150,000: most ids need four bytes.
        bytes.push(0xce);
        bytes.extend((token as u32 * 7919 % 150_000).to_be_bytes());
    }
    text(&mut bytes, "block_size", None);
    bytes.push(0xcd);
    bytes.extend((block_tokens as u16).to_be_bytes());
    text(&mut bytes, "medium", Some("GPU"));
    text(&mut bytes, "lora_name", None);
    bytes.push(0xc0);
    text(&mut bytes, "extra_keys", None);
    array(&mut bytes, blocks);
    bytes.extend(std::iter::repeat_n(0xc0, blocks));
    text(&mut bytes, "group_idx", None);
    bytes.push(0);
    text(&mut bytes, "kv_cache_spec_kind", Some("full_attention"));
    bytes.push(0);
    bytes
}

fn text(bytes: &mut Vec<u8>, key: &str, value: Option<&str>) {
    for text in std::iter::once(key).chain(value) {
        bytes.push(0xa0 | text.len() as u8);
        bytes.extend(text.as_bytes());
    }
}

fn array(bytes: &mut Vec<u8>, length: usize) {
    bytes.push(0xdc);
    bytes.extend((length as u16).to_be_bytes());
}
