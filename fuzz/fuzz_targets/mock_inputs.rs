//! What the mock takes from a tester is parsed or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tito_mock::{FaultSpec, KvEventsConfig};

fuzz_target!(|json: &str| {
    let _ = FaultSpec::parse(json);
    if let Ok(config) = KvEventsConfig::parse(json) {
        let _ = config.of_rank(3);
    }
});
