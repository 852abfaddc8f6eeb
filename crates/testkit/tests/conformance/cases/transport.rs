//! What the gRPC transport itself takes and refuses.

use bytes::Bytes;
use tonic::Code;
use vllm_proto::media_item::Source;

use crate::ask::{Ask, greedy, prompt, with_media};
use crate::raw::{self, frame, framed};
use crate::target::Target;

const GENERATE: &str = "/vllm.Inference/Generate";
const GENERATE_STREAM: &str = "/vllm.Inference/GenerateStream";

/// A request for one token after 65, 66, 67, as `gzip -9` writes it.
const GZIPPED: [u8; 31] = [
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x53, 0x62, 0xe5, 0x62, 0x76, 0x74, 0x72,
    0x76, 0x62, 0xe2, 0x60, 0x04, 0x00, 0xb6, 0xc8, 0x07, 0x7a, 0x0b, 0x00, 0x00, 0x00,
];

async fn code(target: &Target, path: &str, headers: &[(&str, &str)], body: Bytes) -> Code {
    raw::call(&target.grpc, path, headers, body).await.code
}

pub(crate) async fn a_compressed_request_is_unimplemented(target: &Target) {
    for path in [GENERATE, GENERATE_STREAM, "/vllm.Control/IsPaused"] {
        let found = code(target, path, &[("grpc-encoding", "gzip")], framed(true, &GZIPPED)).await;
        assert_eq!(found, Code::Unimplemented, "{path}");
    }
    let plain = frame(&greedy(&prompt(20, 1), 1));
    let found = code(target, GENERATE, &[("grpc-accept-encoding", "gzip")], plain).await;
    assert_eq!(found, Code::Ok, "a client that would take compressed replies is served");
}

pub(crate) async fn an_unknown_method_or_service_is_unimplemented(target: &Target) {
    for path in ["/vllm.Inference/Nope", "/vllm.Nope/Generate", "/vllm.Control/Generate", "/nope"] {
        let ended = raw::call(&target.grpc, path, &[], frame(&greedy(&prompt(20, 1), 1))).await;
        assert_eq!((ended.code, ended.message.as_str()), (Code::Unimplemented, ""), "{path}");
    }
}

pub(crate) async fn garbage_is_an_internal_error(target: &Target) {
    for path in [GENERATE, GENERATE_STREAM] {
        let found = code(target, path, &[], framed(false, &[0xff; 4])).await;
        assert_eq!(found, Code::Internal, "{path}");
    }
    assert_eq!(target.unary(greedy(&prompt(20, 1), 1)).await.unwrap().tokens().len(), 1, "still serving");
}

/// Beyond gRPC's usual default of 4 MiB.
pub(crate) async fn a_message_of_five_mebibytes_is_taken(target: &Target) {
    let long = vec!["x".repeat(5 << 20)];
    let large = greedy(&prompt(20, 1), 1).with(|request| request.stopping().stop_strings = long);
    assert_eq!(target.both(&large).await.end(), "length");
}

pub(crate) async fn a_message_beyond_32_mebibytes_is_out_of_range(target: &Target) {
    let oversized = with_media(Source::RawBytes(vec![0; (32 << 20) + 1]));
    assert_eq!(target.refusal(oversized).await, Ok(Code::OutOfRange));
    assert_eq!(target.unary(greedy(&prompt(20, 1), 1)).await.unwrap().tokens().len(), 1, "still serving");
}

pub(crate) async fn there_is_no_reflection(target: &Target) {
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        assert_eq!(code(target, &path, &[], framed(false, &[])).await, Code::Unimplemented, "{version}");
    }
}
