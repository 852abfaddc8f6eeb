use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message as _;
use serde_json::Value;
use vllm_proto::media_item::Source;

/// The tensors of a recorded image, as vLLM 0.32 takes them.
pub(crate) fn tensors(recording: &str) -> Vec<u8> {
    let path = format!("{}/../../fixtures/vllm-0.32/grpc-media/{recording}.json", env!("CARGO_MANIFEST_DIR"));
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let wire = STANDARD.decode(recorded["request"]["wire_b64"].as_str().unwrap()).unwrap();
    let request = vllm_proto::GenerateRequest::decode(wire.as_slice()).unwrap();
    let Some(Source::Features(features)) = request.media[0].source.clone() else {
        panic!("{recording} holds no tensors");
    };
    features.kwargs.unwrap()
}
