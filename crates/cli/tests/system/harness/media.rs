use prost::Message as _;
use tito_test_support::fixtures;
use vllm_proto::media_item::Source;

/// The tensors of a recorded image, as vLLM 0.32 takes them.
pub(crate) fn tensors(recording: &str) -> Vec<u8> {
    let call = fixtures::grpc("grpc-media", recording).unwrap();
    let request = vllm_proto::GenerateRequest::decode(call.request.unwrap()).unwrap();
    let Some(Source::Features(features)) = request.media[0].source.clone() else {
        panic!("{recording} holds no tensors");
    };
    features.kwargs.unwrap()
}
