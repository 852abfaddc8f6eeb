//! Any published batch is read or refused; what is passed on adds up.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tito_types::KvEvent;

fuzz_target!(|payload: &[u8]| {
    for event in tito_engine_vllm::test_util::read_kv_batch(payload).unwrap_or_default() {
        if let KvEvent::Stored(blocks) = event {
            assert!(blocks.block_tokens >= 1 && !blocks.hashes.is_empty());
            assert_eq!(blocks.tokens.len(), blocks.hashes.len() * blocks.block_tokens as usize);
            assert!(blocks.extras.is_empty() || blocks.extras.len() == blocks.hashes.len());
        }
    }
});
