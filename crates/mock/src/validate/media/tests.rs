//! Media item by item: what is taken, what is refused and how.

use proptest::prelude::*;
use tonic::Code;
use vllm_proto::media_item::Source;
use vllm_proto::{MediaItem, Modality, PreprocessedMediaFeatures};

use super::kwargs::{self, Error};
use super::{Asked, FEATURES_BYTES_MAX, ITEMS_MAX, check};
use crate::config::Multimodal;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

/// A tensor of `bytes` zeros, one of them per element, batched.
fn tensor(bytes: u8) -> Vec<u8> {
    let head = [b"\x93\xa5uint8\x91", &[bytes, 0xc7, bytes, 3][..]].concat();
    field(&[head, vec![0; bytes.into()]].concat(), BATCHED)
}

const BATCHED: &[u8] = b"\x92\xa7batched\x81\xabkeep_on_cpu\xc3";

fn field(data: &[u8], batching: &[u8]) -> Vec<u8> {
    [b"\x81\xa1x\x82\xa4data", data, b"\xa5field", batching].concat()
}

fn features(edit: impl FnOnce(&mut PreprocessedMediaFeatures)) -> MediaItem {
    let mut features = PreprocessedMediaFeatures {
        kwargs: Some(tensor(3)),
        identifier: "img".to_owned(),
        offset: 2,
        length: 4,
        ..PreprocessedMediaFeatures::default()
    };
    edit(&mut features);
    item(Modality::Image, Source::Features(features))
}

fn item(modality: Modality, source: Source) -> MediaItem {
    MediaItem { modality: modality as i32, source: Some(source), ..MediaItem::default() }
}

fn raw(modality: Modality) -> MediaItem {
    item(modality, Source::RawBytes(PNG.to_vec()))
}

/// A prompt with identifier, offset and length of its media.
type Prompt = (Vec<u32>, Vec<(String, u32, u32)>);

/// Checks media against a prompt of ten ids, with image placeholders at 3 and 6 and one for a video at 5.
fn checked(media: &[MediaItem]) -> Result<Prompt, Code> {
    let asked = Asked { media, by_ids: true, truncated: false, max_model_len: 16 };
    let prompt = vec![0, 1, 2, 1006, 4, 1007, 1006, 7, 8, 9];
    let multimodal = Multimodal { item_tokens: 2, ..Multimodal::default() };
    let (prompt, spans) = check(&asked, prompt, Some(&multimodal)).map_err(|status| status.code())?;
    let spans = spans.iter().map(|span| (span.identifier.to_string(), span.offset, span.length)).collect();
    Ok((prompt, spans))
}

#[test]
fn features_are_sorted_and_leave_the_prompt_as_it_is() {
    let second = features(|features| (features.offset, features.identifier) = (0, "first".to_owned()));
    let (prompt, spans) = checked(&[features(|_| {}), second]).unwrap();
    assert_eq!(prompt.len(), 10);
    assert_eq!(spans, [("first".to_owned(), 0, 4), ("img".to_owned(), 2, 4)]);
}

#[test]
fn a_raw_item_takes_the_next_placeholder_of_its_kind() {
    let named = MediaItem { uuid: "mine".to_owned(), ..raw(Modality::Image) };
    let (prompt, spans) = checked(&[raw(Modality::Video), raw(Modality::Image), named]).unwrap();
    assert_eq!(prompt, [0, 1, 2, 1006, 1006, 4, 1007, 1007, 1006, 1006, 7, 8, 9]);
    let places: Vec<_> = spans.iter().map(|(_, offset, length)| (*offset, *length)).collect();
    assert_eq!(places, [(3, 2), (6, 2), (8, 2)]);
    assert_eq!(spans[2].0, "mine");
    assert_ne!(spans[0].0, spans[1].0, "the same bytes as another kind of media");
    assert_eq!(spans[0].0.len(), 64);
    let again = checked(&[raw(Modality::Image)]).unwrap();
    assert_eq!(again.1[0].0, spans[0].0, "the same content has the same name");
    assert_eq!(again.0.len(), 11, "further placeholders stay");
    let uri = item(Modality::Image, Source::DataUri("data:image/png;base64,iVBORw0KGgpyZXN0".to_owned()));
    assert_eq!(checked(&[uri]).unwrap().1, again.1);
    let url = item(Modality::Image, Source::Url("HTTPS://host/a.png".to_owned()));
    assert_eq!(checked(&[url]).unwrap().1.len(), 1);
}

/// What vLLM was seen to refuse is replayed in `tests/it/replay.rs`.
#[test]
fn what_is_beyond_a_limit_is_refused() {
    use Code::{InvalidArgument, ResourceExhausted};
    let half = Some(vec![0; FEATURES_BYTES_MAX / 2 + 1]);
    for (what, code, media) in [
        ("unknown modality", InvalidArgument, vec![MediaItem { modality: 9, ..raw(Modality::Image) }]),
        ("outside", InvalidArgument, vec![features(|features| features.offset = 7)]),
        ("far outside", InvalidArgument, vec![features(|features| features.offset = u64::MAX)]),
        ("a prompt that grows too long", InvalidArgument, vec![raw(Modality::Image); 6]),
        ("too many", InvalidArgument, vec![features(|_| {}); ITEMS_MAX + 1]),
        ("too large together", ResourceExhausted, vec![features(|features| features.kwargs = half); 2]),
    ] {
        assert_eq!(checked(&media), Err(code), "{what}");
    }
}

#[test]
fn raw_media_that_cannot_be_used_are_refused_in_vllms_words() {
    let uri = |uri: &str| item(Modality::Image, Source::DataUri(uri.to_owned()));
    for (raw, expected) in [
        (item(Modality::Image, Source::RawBytes(b"nope".to_vec())), "image decode error: "),
        (uri("data:image/png;base64,bm9wZQ=="), "image decode error: "),
        (uri("data:image/png;base64,@"), "base64 decode error: "),
        (uri("data:image/png"), "data URL parse error: "),
        (uri("data:,x"), "data URL parse error: "),
        (raw(Modality::Audio), "placeholder token 1008 was not found"),
    ] {
        let asked = Asked { media: &[raw], by_ids: true, truncated: false, max_model_len: 16 };
        let status = check(&asked, vec![1006; 3], Some(&Multimodal::default())).unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{status:?}");
        let expected = format!("multimodal preprocessing error: {expected}");
        assert!(status.message().starts_with(&expected), "{status:?}");
    }
}

#[test]
fn media_need_a_model_that_takes_them_and_a_whole_prompt_of_ids() {
    let media = [features(|_| {})];
    let refuse = |by_ids, truncated, multimodal: Option<Multimodal>| {
        let asked = Asked { media: &media, by_ids, truncated, max_model_len: 16 };
        check(&asked, vec![1; 10], multimodal.as_ref()).map(|_| ()).map_err(|status| status.code())
    };
    let takes = Some(Multimodal::default());
    assert_eq!(refuse(true, false, takes), Ok(()));
    for (by_ids, truncated, multimodal) in [(false, false, takes), (true, true, takes), (true, false, None)] {
        assert_eq!(refuse(by_ids, truncated, multimodal), Err(Code::InvalidArgument));
    }
}

#[test]
fn tensors_are_checked_field_by_field() {
    let flat = |slice: &[u8], dim: u8| {
        [b"\x92\xa4flat\x83\xa6slices\x91", slice, b"\xa3dim", &[dim], b"\xabkeep_on_cpu\xc2"].concat()
    };
    let data = b"\x93\xa5uint8\x91\x01\xc7\x01\x03\x00";
    let batched = |data: &[u8]| field(data, BATCHED);
    let with = |batching: &[u8]| field(data, batching);
    let nested = [vec![0x91; 40], vec![1]].concat();
    for (what, bytes, expected) in [
        ("a tensor", tensor(3), Ok(())),
        ("a scalar tensor", batched(b"\x93\xa5uint8\x90\xd4\x03\x00"), Ok(())),
        ("a number", batched(b"\x05"), Ok(())),
        ("a list of tensors", batched(&[b"\x91", &data[..]].concat()), Ok(())),
        ("shared", with(b"\x92\xa6shared\x82\xaabatch_size\x02\xabkeep_on_cpu\xc2"), Ok(())),
        ("flat", with(&flat(b"\x93\x00\x01\xc0", 0)), Ok(())),
        ("flat in no such dimension", with(&flat(b"\x93\x00\x01\xc0", 1)), Err(Error::Batching)),
        ("a slice of two", with(&flat(b"\x92\x00\x01", 0)), Err(Error::Batching)),
        ("unknown batching", with(b"\x92\xa4flax\x81\xabkeep_on_cpu\xc3"), Err(Error::Batching)),
        ("no attributes", with(b"\x92\xa7batched\x80"), Err(Error::Batching)),
        ("no fields", vec![0x80], Err(Error::Fields)),
        ("no name", b"\x81\xa0\x80".to_vec(), Err(Error::Fields)),
        ("nil", batched(b"\xc0"), Err(Error::Data)),
        ("plain bytes", batched(b"\x93\xa5uint8\x91\x01\xc4\x01\x00"), Err(Error::Data)),
        ("an unknown type", batched(b"\x93\xa5float\x91\x01\xc7\x01\x03\x00"), Err(Error::Data)),
        ("too few bytes", batched(b"\x93\xa5int64\x91\x01\xc7\x01\x03\x00"), Err(Error::TensorBytes)),
        ("bytes behind", [tensor(3), vec![0]].concat(), Err(Error::Encoding)),
        ("cut", tensor(3)[..20].to_vec(), Err(Error::Encoding)),
        ("too deep", batched(&nested), Err(Error::Encoding)),
        ("a length without items", vec![0xdd, 0xff, 0xff, 0xff, 0xff], Err(Error::Encoding)),
    ] {
        assert_eq!(kwargs::check(&bytes), expected, "{what}");
    }
}

proptest! {
    /// Bytes at random, and good ones with one byte changed, are read or refused.
    #[test]
    fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..80), at in 0usize..60, byte: u8) {
        let _ = kwargs::check(&bytes);
        let mut changed = tensor(3);
        let at = at % changed.len();
        changed[at] = byte;
        let _ = kwargs::check(&changed);
    }
}
