//! Any messages of an engine are read or refused; what is passed on adds up.
//!
//! Each message stands after its length in two bytes, most significant first; the last may be shorter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tito_types::{
    Candidates, Delivery, GenerateRequest, KvOptions, Media, Outputs, RequestId, Sampling, Stopping,
};

fuzz_target!(|input: &[u8]| {
    let logprobs = Some(Candidates::Top(2));
    let request = GenerateRequest {
        id: RequestId::parse("r").expect("visible ASCII"),
        model: "m".into(),
        prompt: [1, 2, 3].into(),
        media: Media::None,
        n: 1,
        sampling: Sampling::default(),
        stopping: Stopping::default(),
        native_sampling: None,
        outputs: Outputs { logprobs: logprobs.clone(), prompt_logprobs: logprobs, ..Outputs::default() },
        kv: KvOptions::default(),
        priority: 0,
        session: None,
        rank: None,
        worker: None,
        reasoning: None,
        delivery: Delivery::Deltas,
    };
    let (mut rest, mut wire) = (input, Vec::new());
    while let [high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (message, next) = after.split_at(length);
        wire.push(message);
        rest = next;
    }
    if let Ok(deltas) = tito_engine_vllm::test_util::read_wire(&request, &wire) {
        assert!(deltas.iter().all(|delta| delta.logprobs.len() == delta.token_ids.len()));
    }
});
