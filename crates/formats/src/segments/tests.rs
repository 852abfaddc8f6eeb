use super::*;

#[test]
fn pieces_join_to_what_was_written_and_large_ones_are_moved() {
    let large = vec![b'x'; OWN_SEGMENT_BYTES_MIN];
    let address = large.as_ptr();
    let mut out = Segments::default();
    assert!(out.is_empty());
    out.tail().extend_from_slice(b"{\"a\":");
    out.append(large);
    out.append(b"1".to_vec());
    out.tail().push(b'}');
    assert_eq!(out.len(), 5 + OWN_SEGMENT_BYTES_MIN + 2);
    let parts = out.into_parts();
    assert_eq!(parts.len(), 3);
    assert_eq!(parts[1].as_ptr(), address);
    assert_eq!(parts[2], b"1}");
}
