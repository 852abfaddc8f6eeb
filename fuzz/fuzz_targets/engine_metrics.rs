//! Any metrics of an engine are read without harm; what is taken from them can be true.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let loads = tito_engine_vllm::test_util::read_loads(text, 2..6);
    assert!(loads.is_sorted_by(|one, next| one.rank < next.rank));
    for load in loads {
        assert!((2..6).contains(&load.rank) && (0.0..=1.0).contains(&load.kv_usage));
    }
});
