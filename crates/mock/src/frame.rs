//! What goes over the wire: a message, or bytes that are none.

use bytes::{BufMut, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use vllm_proto::{GenerateRequest, GenerateResponse};

/// One frame of a reply.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every frame is a message: a box would cost one per token"
)]
pub(crate) enum Frame {
    /// A message.
    Message(GenerateResponse),
    /// Bytes as they are.
    Raw(Bytes),
}

impl Frame {
    /// A frame that no decoder takes: a varint without an end.
    pub(crate) fn malformed() -> Self {
        Self::Raw(Bytes::from_static(&[0xff; 11]))
    }
}

/// Decodes requests and encodes frames.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FrameCodec;

impl Codec for FrameCodec {
    type Encode = Frame;
    type Decode = GenerateRequest;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self::Encoder {
        *self
    }

    fn decoder(&mut self) -> Self::Decoder {
        *self
    }
}

impl Encoder for FrameCodec {
    type Item = Frame;
    type Error = Status;

    fn encode(&mut self, frame: Frame, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        match frame {
            Frame::Message(message) => message.encode(buffer).expect("the buffer grows as needed"),
            Frame::Raw(bytes) => buffer.put(bytes),
        }
        Ok(())
    }
}

impl Decoder for FrameCodec {
    type Item = GenerateRequest;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<GenerateRequest>, Status> {
        let decoded = GenerateRequest::decode(buffer);
        decoded.map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
