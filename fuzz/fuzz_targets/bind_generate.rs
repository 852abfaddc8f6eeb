//! Any body is bound or refused; nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tito_formats::VllmGenerate;

fuzz_target!(|body: &[u8]| {
    let _ = tito_fuzz::bind(&VllmGenerate, body);
});
