//! Features that the engine was started without say so.

use tonic::Code;
use vllm_proto::media_item::Source;
use vllm_proto::{
    ListLorasRequest, LoadLoraRequest, PreprocessedMediaFeatures, SleepRequest, UnloadLoraRequest,
    WakeUpRequest,
};

use crate::ask::{Ask, greedy, prompt, with_media};
use crate::reply::code_of;
use crate::target::Target;

pub(crate) async fn adapters_are_refused(target: &Target) {
    let mut control = target.control();
    assert_eq!(code_of(control.list_loras(ListLorasRequest {})).await, Code::FailedPrecondition, "list");
    let load = LoadLoraRequest { lora_name: "a".to_owned(), source_path: "/nowhere".to_owned() };
    assert_eq!(code_of(control.load_lora(load)).await, Code::FailedPrecondition, "load");
    let unload = |name: &str| UnloadLoraRequest { lora_name: name.to_owned() };
    assert_eq!(code_of(control.unload_lora(unload("a"))).await, Code::FailedPrecondition, "unload");
    // This one check comes before the question whether adapters are on.
    assert_eq!(code_of(control.unload_lora(unload(" "))).await, Code::InvalidArgument, "unload a blank name");
    let named = greedy(&prompt(20, 1), 2).with(|request| request.lora_name = "a".into());
    assert_eq!(target.refusal(named).await, Ok(Code::FailedPrecondition), "generate");
}

pub(crate) async fn sleep_is_refused(target: &Target) {
    let mut control = target.control();
    for level in [None, Some(0), Some(1), Some(2), Some(9)] {
        let found = code_of(control.sleep(SleepRequest { level, mode: 0 })).await;
        assert_eq!(found, Code::FailedPrecondition, "level {level:?}");
    }
    for tags in [vec![], vec!["weights".to_owned()], vec!["scheduling".to_owned()]] {
        let found = code_of(control.wake_up(WakeUpRequest { tags: tags.clone() })).await;
        assert_eq!(found, Code::FailedPrecondition, "tags {tags:?}");
    }
}

/// The size is looked at before anything else about media.
pub(crate) async fn features_beyond_16_mebibytes_exhaust_a_resource(target: &Target) {
    let features = PreprocessedMediaFeatures {
        kwargs: Some(vec![0; (16 << 20) + 1]),
        identifier: "image".to_owned(),
        length: 1,
        ..Default::default()
    };
    let source = Source::Features(features);
    assert_eq!(target.refusal(with_media(source)).await, Ok(Code::ResourceExhausted));
}

pub(crate) async fn media_are_refused(target: &Target) {
    for (what, source) in [
        ("bytes", Source::RawBytes(vec![1])),
        ("a data URI", Source::DataUri("data:image/png;base64,AA==".to_owned())),
        ("a URL", Source::Url("http://127.0.0.1/image.png".to_owned())),
    ] {
        assert_eq!(target.refusal(with_media(source)).await, Ok(Code::InvalidArgument), "{what}");
    }
}
