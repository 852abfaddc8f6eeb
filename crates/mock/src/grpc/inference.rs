//! `vllm.Inference`, dispatched by hand so that frames may be wrong on purpose.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tower::Service;
use vllm_proto::GenerateRequest;

use super::REQUEST_BYTES_MAX;
use crate::call::Call;
use crate::engine::Delivery;
use crate::frame::{Frame, FrameCodec};
use crate::instance::Instance;

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct InferenceService {
    instance: Arc<Instance>,
}

impl InferenceService {
    pub(crate) fn new(instance: Arc<Instance>) -> Self {
        Self { instance }
    }
}

impl NamedService for InferenceService {
    const NAME: &'static str = "vllm.Inference";
}

impl Service<http::Request<Body>> for InferenceService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let instance = Arc::clone(&self.instance);
        Box::pin(async move {
            let mut grpc = Grpc::new(FrameCodec).max_decoding_message_size(REQUEST_BYTES_MAX);
            Ok(match request.uri().path() {
                "/vllm.Inference/Generate" => grpc.unary(Generate(instance), request).await,
                "/vllm.Inference/GenerateStream" => {
                    grpc.server_streaming(GenerateStream(instance), request).await
                }
                _ => Status::unimplemented("").into_http(),
            })
        })
    }
}

#[derive(Debug)]
struct Generate(Arc<Instance>);

impl UnaryService<GenerateRequest> for Generate {
    type Response = Frame;
    type Future = BoxFuture<'static, Result<Response<Frame>, Status>>;

    fn call(&mut self, request: Request<GenerateRequest>) -> Self::Future {
        let instance = Arc::clone(&self.0);
        Box::pin(async move {
            let (metadata, _, message) = request.into_parts();
            let call = Call::begin(&instance, message, &metadata, Delivery::Whole).await?;
            call.whole().await.map(Response::new)
        })
    }
}

#[derive(Debug)]
struct GenerateStream(Arc<Instance>);

impl ServerStreamingService<GenerateRequest> for GenerateStream {
    type Response = Frame;
    type ResponseStream = Call;
    type Future = BoxFuture<'static, Result<Response<Call>, Status>>;

    fn call(&mut self, request: Request<GenerateRequest>) -> Self::Future {
        let instance = Arc::clone(&self.0);
        Box::pin(async move {
            let (metadata, _, message) = request.into_parts();
            Call::begin(&instance, message, &metadata, Delivery::Deltas).await.map(Response::new)
        })
    }
}
