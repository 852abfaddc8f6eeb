use tito_types::Modality;

use super::*;

#[test]
fn an_identifier_is_a_digest_of_modality_and_payload_and_nothing_else() {
    // Computed apart from this code, from the words of the documentation.
    let known = "tito-mm:dd52500fa2e248f06ae074a9688769fa88f696e512a8485fa44074142abe7d8f";
    assert_eq!(media_identifier(Modality::Image, b"payload-a"), known);
    let others = [
        media_identifier(Modality::Image, b"payload-b"),
        media_identifier(Modality::Video, b"payload-a"),
        media_identifier(Modality::Audio, b"payload-a"),
        media_identifier(Modality::Image, b""),
        media_identifier(Modality::Image, b"payload-a\0"),
    ];
    for (at, other) in others.iter().enumerate() {
        assert_ne!(other, known);
        assert!(!others[..at].contains(other));
        assert_eq!(other.len(), known.len());
    }
}
