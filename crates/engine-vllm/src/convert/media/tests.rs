use std::sync::Arc;

use super::*;

fn features(modality: Modality, is_embed: Option<&[bool]>) -> Media {
    let item = MediaFeatures {
        modality,
        identifier: "tito-1".into(),
        offset: 3,
        length: 2,
        is_embed: is_embed.map(Arc::from),
        payload: [1, 2, 3].into(),
    };
    Media::Features([item].into())
}

fn raw(url: &str, identifier: Option<&str>) -> Media {
    let identifier = identifier.map(Arc::from);
    Media::Raw([RawMedia { modality: Modality::Image, url: url.into(), identifier }].into())
}

#[test]
fn features_go_as_they_are_and_name_no_processor_cache_entry() {
    for (modality, number) in [(Modality::Image, 1), (Modality::Video, 2), (Modality::Audio, 3)] {
        let expected = PreprocessedMediaFeatures {
            kwargs: Some(vec![1, 2, 3]),
            identifier: "tito-1".into(),
            offset: 3,
            length: 2,
            mm_hash: None,
            is_embed: vec![true, false],
        };
        let found = media_of(&features(modality, Some(&[true, false])), true).expect("converts");
        assert_eq!(found[0].modality, number);
        assert_eq!(found[0].source, Some(Source::Features(expected.clone())));
        let all = media_of(&features(modality, None), true).expect("converts");
        let expected = PreprocessedMediaFeatures { is_embed: vec![], ..expected };
        assert_eq!(all[0].source, Some(Source::Features(expected)));
    }
}

#[test]
fn raw_media_go_by_address_or_inline_with_their_identity() {
    for (url, identifier, source) in [
        ("https://host/a.png", None, Source::Url("https://host/a.png".into())),
        ("data:image/png;base64,AA==", Some("u"), Source::DataUri("data:image/png;base64,AA==".into())),
        ("DATA:,x", None, Source::DataUri("DATA:,x".into())),
        ("http:", Some("u"), Source::Url("http:".into())),
    ] {
        let found = media_of(&raw(url, identifier), true).expect("converts");
        assert_eq!(found[0].source.as_ref(), Some(&source));
        assert_eq!((found[0].uuid.as_str(), found[0].modality), (identifier.unwrap_or_default(), 1));
    }
}

#[test]
fn a_text_model_is_sent_no_media() {
    let image = features(Modality::Image, None);
    for (media, param) in [(image, "features"), (raw("data:,", None), "content_parts")] {
        let message = "the model takes no media".into();
        assert_eq!(media_of(&media, false), Err(EngineError::Invalid { param: param.into(), message }));
    }
    assert_eq!(media_of(&Media::None, false), Ok(vec![]));
}
