//! Starting mocks and talking to them.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tito_mock::{Exit, MockConfig, MockHandle, RequestState, RunError, Timing};
use tito_test_support::http::Call;
use tito_test_support::wait::{wait_until, within};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, IntoRequest, Status, Streaming};
use tonic_health::pb::health_client::HealthClient;
use vllm_proto::control_client::ControlClient;
use vllm_proto::generate_request::Prompt;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::{
    FinishInfo, GenerateRequest, GenerateResponse, ResponseOptions, SequenceOutput, StoppingCriteria,
    TokenIds,
};

/// A mock that serves.
pub(crate) struct Running {
    pub(crate) handle: MockHandle,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    stop: CancellationToken,
    task: JoinSet<Result<Exit, RunError>>,
}

impl Running {
    pub(crate) async fn start(config: MockConfig) -> Self {
        let mock = config.build().await.unwrap();
        let (handle, grpc, http) = (mock.handle(), mock.grpc_addr(), mock.http_addr());
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(mock.run(stop.clone()));
        Self { handle, grpc, http, stop, task }
    }

    /// Asks it to stop and waits until it has.
    pub(crate) async fn stop(mut self) -> Exit {
        self.stop.cancel();
        self.exit().await
    }

    /// Waits until it ends by itself.
    pub(crate) async fn exit(&mut self) -> Exit {
        within("the mock to end", self.task.join_next()).await.unwrap().unwrap().unwrap()
    }

    pub(crate) fn ask_to_stop(&self) {
        self.stop.cancel();
    }

    pub(crate) async fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn inference(&self) -> InferenceClient<Channel> {
        InferenceClient::new(self.channel().await).max_decoding_message_size(64 << 20)
    }

    pub(crate) async fn control(&self) -> ControlClient<Channel> {
        ControlClient::new(self.channel().await)
    }

    pub(crate) async fn health(&self) -> HealthClient<Channel> {
        HealthClient::new(self.channel().await)
    }

    /// The reply to one unary request.
    pub(crate) async fn generate(&self, request: impl IntoRequest<GenerateRequest>) -> SequenceOutput {
        outputs(self.inference().await.generate(request).await.unwrap().into_inner())
    }

    /// The beginning of a stream.
    pub(crate) async fn open(&self, request: GenerateRequest) -> Streaming<GenerateResponse> {
        self.inference().await.generate_stream(request).await.unwrap().into_inner()
    }

    /// Everything a stream sends, and how it fails if it does.
    pub(crate) async fn stream(&self, request: GenerateRequest) -> (Vec<GenerateResponse>, Option<Status>) {
        drain(self.open(request).await).await
    }

    /// The code of a unary reply.
    pub(crate) async fn code(&self, request: impl IntoRequest<GenerateRequest>) -> Code {
        self.inference().await.generate(request).await.map_or_else(|status| status.code(), |_| Code::Ok)
    }

    /// What the journal says of a request.
    pub(crate) fn state(&self, request_id: &str) -> RequestState {
        let entries = self.handle.requests();
        entries.iter().find(|entry| entry.request_id == request_id).unwrap().state()
    }

    /// One HTTP exchange: status and body.
    pub(crate) async fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let reply = Call::get(self.http, path).method(method).body(body.to_owned()).send().await;
        (reply.status, reply.text().to_owned())
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let (status, body) = self.http("GET", path, "").await;
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Waits until the journal says of a request that it is in a state.
    pub(crate) async fn wait_for_state(&self, request_id: &str, state: &str) {
        let is = || {
            let entries = self.handle.requests();
            entries.iter().any(|entry| entry.request_id == request_id && entry.state().name() == state)
        };
        wait_until(&format!("request {request_id} {state}"), is).await;
    }
}

/// Slow enough for requests to be caught while they run.
pub(crate) fn slow() -> MockConfig {
    let timing = Timing { step: Duration::from_millis(4), speed: 1.0, ..Timing::INSTANT };
    MockConfig { timing, ..MockConfig::new() }
}

/// A request for `max_new_tokens` tokens, ids and text.
pub(crate) fn request(request_id: &str, ids: &[u32], max_new_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        request_id: request_id.to_owned(),
        prompt: Some(Prompt::TokenIds(TokenIds { ids: ids.to_vec() })),
        stopping: Some(StoppingCriteria { max_new_tokens, ..StoppingCriteria::default() }),
        response: Some(ResponseOptions { output_token_ids: true, ..ResponseOptions::default() }),
        ..GenerateRequest::default()
    }
}

/// A prompt of some length that no other number shares a prefix with.
pub(crate) fn prompt(number: u32, length: u32) -> Vec<u32> {
    (0..length).map(|index| (number * 31 + index * 7) % 1000).collect()
}

pub(crate) fn outputs(response: GenerateResponse) -> SequenceOutput {
    response.outputs.unwrap()
}

pub(crate) fn finish(output: &SequenceOutput) -> &FinishInfo {
    output.finish_info.as_ref().unwrap()
}

/// Everything a stream sends, and how it fails if it does.
pub(crate) async fn drain(
    mut stream: Streaming<GenerateResponse>,
) -> (Vec<GenerateResponse>, Option<Status>) {
    let mut messages = Vec::new();
    loop {
        match within("the end of a stream", stream.message()).await {
            Ok(Some(message)) => messages.push(message),
            Ok(None) => return (messages, None),
            Err(status) => return (messages, Some(status)),
        }
    }
}

/// Ids of all messages.
pub(crate) fn ids(messages: &[GenerateResponse]) -> Vec<u32> {
    let outputs = messages.iter().filter_map(|message| message.outputs.as_ref());
    outputs.flat_map(|output| output.token_ids.iter().copied()).collect()
}

/// The code of a refusal.
#[track_caller]
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, Status>) -> Code {
    result.unwrap_err().code()
}
