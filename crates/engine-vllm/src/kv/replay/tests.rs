use super::*;

#[test]
fn both_layouts_of_an_answer_are_read() {
    let message =
        |frames: &[&'static [u8]]| frames.iter().copied().map(Bytes::from_static).collect::<Message>();
    let (seq, end) = (&[0, 0, 0, 0, 0, 0, 1, 2][..], &[0xff; 8][..]);
    let batch = Answer::Batch(258, Bytes::from_static(b"payload"));
    assert_eq!(answer_of(&message(&[b"", b"kv", seq, b"payload"])), batch);
    assert_eq!(answer_of(&message(&[b"", seq, b"payload"])), batch);
    assert_eq!(answer_of(&message(&[b"", b"", end, b""])), Answer::Ended);
    assert_eq!(answer_of(&message(&[b"", end, b""])), Answer::Ended);
    for broken in [message(&[]), message(&[b""]), message(&[b"", &[1, 2, 3], b"payload"])] {
        assert_eq!(answer_of(&broken), Answer::Unreadable);
    }
}
