//! Any payload and metadata of a media item are taken or refused; what is taken reaches the engine byte for byte.
//!
//! The first two bytes are the length of the metadata, most significant first; the rest is the payload.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::fuzz_target;
use tito_formats::VllmGenerate;
use tito_types::Media;

fuzz_target!(|input: &[u8]| {
    let [high, low, rest @ ..] = input else { return };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    let Some((metadata, payload)) = rest.split_at_checked(length) else { return };
    let entry = |bytes: &[u8]| format!("{{\"image\":[\"{}\"]}}", STANDARD.encode(bytes));
    let metadata = if metadata.is_empty() { "null".to_owned() } else { entry(metadata) };
    let body = format!(
        "{{\"token_ids\":[0,1,2],\"sampling_params\":{{}},\"features\":{{\"mm_hashes\":{{\"image\":[\"a\"]}},\
         \"mm_placeholders\":{{\"image\":[{{\"offset\":1,\"length\":2}}]}},\"kwargs_data\":{},\
         \"mm_metadata\":{metadata}}}}}",
        entry(payload)
    );
    let Ok(bound) = tito_fuzz::bind(&VllmGenerate, body.as_bytes()) else { return };
    let Media::Features(items) = &bound.requests[0].media else { panic!("the item is lost") };
    assert_eq!(&*items[0].payload, payload);
});
