//! Whatever a ZeroMQ peer says is read within the bounds of a message, or refused, however its bytes are cut.
//!
//! The first byte chooses our part, the second the length of the pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tito_engine_vllm::test_util::read_zmtp;

fuzz_target!(|input: &[u8]| {
    let [part, piece_bytes, said @ ..] = input else { return };
    let subscriber = part & 1 == 0;
    let messages = read_zmtp(said, subscriber, usize::from(*piece_bytes));
    assert_eq!(messages, read_zmtp(said, subscriber, 4 << 10));
    for message in messages.unwrap_or_default() {
        assert!((1..=8).contains(&message.len()));
        assert!(message.iter().map(|frame| frame.len()).sum::<usize>() <= said.len());
    }
});
