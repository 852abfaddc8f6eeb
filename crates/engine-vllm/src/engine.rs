//! One engine behind one gRPC address.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{FutureExt, Stream, stream};
use prost::Message;
use tito_engine::{Engine, TokenStream};
use tito_types::{Delivery, Delta, EngineError, GenerateRequest, ModelInfo, RequestId, WorkerId};
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tracing::info;
use vllm_proto::GenerateResponse;
use vllm_proto::control_client::ControlClient;
use vllm_proto::inference_client::InferenceClient;

use crate::convert;
use crate::output::Reader;
use crate::stall::{PauseProbe, Silence};
use crate::status::{Carried, Progress, engine_error, raw_media_words, without_secrets};

/// Largest request message vLLM 0.32 takes, in bytes.
const REQUEST_BYTES_MAX: usize = 32 << 20;
/// Replies with a larger budget are read as deltas when a stall timeout watches them: a whole reply shows no progress.
const WHOLE_TOKENS_MAX: u32 = 256;

/// Requests to one engine, spread over its channels.
pub(crate) struct Vllm {
    shared: Arc<Shared>,
}

struct Shared {
    worker: WorkerId,
    channels: Vec<InferenceClient<Channel>>,
    next_channel: AtomicUsize,
    probe: Arc<PauseProbe>,
    stall_timeout: Option<Duration>,
    /// What it serves.
    model: ModelInfo,
    /// Makes engine ids unique: this part per connection, the counter per request.
    instance: u32,
    requests: AtomicU64,
}

impl Vllm {
    /// `channels` is not empty; `instance` differs between all connections that lead to one engine.
    pub(crate) fn new(
        worker: WorkerId,
        channels: Vec<InferenceClient<Channel>>,
        control: ControlClient<Channel>,
        stall_timeout: Option<Duration>,
        model: ModelInfo,
        instance: u32,
    ) -> Self {
        let shared = Shared {
            worker,
            channels,
            next_channel: AtomicUsize::new(0),
            probe: Arc::new(PauseProbe::new(control)),
            stall_timeout,
            model,
            instance,
            requests: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl Engine for Vllm {
    async fn generate(&self, request: GenerateRequest) -> Result<TokenStream, EngineError> {
        let shared = &self.shared;
        let message = shared.message(&request)?;
        let reader = Reader::new(&request);
        let sent = Sent { id: request.id.clone(), carried: Carried::of(&request.media) };
        let mut client = shared.client();
        let mut silence =
            Silence::begin(shared.worker.clone(), Arc::clone(&shared.probe), shared.stall_timeout);
        if shared.whole(&request) {
            let reply = silence.until(Box::pin(client.generate(message))).await?;
            return whole(
                reader,
                reply.map_err(|status| shared.error(&status, Progress::Unanswered, &sent))?.into_inner(),
            );
        }
        let accepted = silence.until(Box::pin(client.generate_stream(message))).await?;
        let messages =
            accepted.map_err(|status| shared.error(&status, Progress::Unanswered, &sent))?.into_inner();
        let shared = Arc::clone(shared);
        let call = Call { shared, messages, reader, silence, progress: Progress::Unanswered, sent };
        Ok(TokenStream::new(1, deltas(call)))
    }
}

impl Shared {
    fn client(&self) -> InferenceClient<Channel> {
        let at = self.next_channel.fetch_add(1, Ordering::Relaxed) % self.channels.len();
        self.channels[at].clone()
    }

    /// Whole replies halve the work; one that is large and watched for progress must come in parts.
    fn whole(&self, request: &GenerateRequest) -> bool {
        let small = request.stopping.max_tokens.is_some_and(|tokens| tokens <= WHOLE_TOKENS_MAX);
        request.delivery == Delivery::Whole && (small || self.stall_timeout.is_none())
    }

    fn message(
        &self,
        request: &GenerateRequest,
    ) -> Result<Request<vllm_proto::GenerateRequest>, EngineError> {
        let count = self.requests.fetch_add(1, Ordering::Relaxed);
        let engine_id = format!("{}-{:08x}{count:x}", request.id, self.instance);
        let message = convert::message(request, engine_id, &self.model)?;
        let bytes = message.encoded_len();
        if bytes > REQUEST_BYTES_MAX {
            let limit =
                format!("the engine takes {REQUEST_BYTES_MAX} bytes, the encoded request has {bytes}");
            return Err(EngineError::TooLarge(limit));
        }
        let mut message = Request::new(message);
        if let Some(rank) = request.rank {
            message.metadata_mut().insert("x-data-parallel-rank", MetadataValue::from(rank));
        }
        Ok(message)
    }

    fn error(&self, status: &Status, progress: Progress, sent: &Sent) -> EngineError {
        if let Some(words) = raw_media_words(status, progress, sent.carried) {
            info!(request = %sent.id, worker = %self.worker, error = without_secrets(words), "engine cannot use the media");
        }
        engine_error(&self.worker, status, progress, sent.carried)
    }
}

fn whole(mut reader: Reader, reply: GenerateResponse) -> Result<TokenStream, EngineError> {
    let delta = reader.read(reply)?.ok_or_else(|| EngineError::Protocol("a reply without output".into()))?;
    if delta.finish.is_none() {
        return Err(EngineError::Truncated);
    }
    Ok(TokenStream::whole(delta))
}

/// What must be known of a request to read why it failed.
struct Sent {
    id: RequestId,
    carried: Carried,
}

/// The call as it is read.
struct Call {
    shared: Arc<Shared>,
    messages: Streaming<GenerateResponse>,
    reader: Reader,
    silence: Silence,
    progress: Progress,
    sent: Sent,
}

/// Dropping the stream cancels the call, and vLLM aborts the request.
fn deltas(call: Call) -> impl Stream<Item = Result<Delta, EngineError>> + Send {
    stream::unfold(call, |mut call| async move { call.next().await.map(|delta| (delta, call)) })
}

impl Call {
    async fn next(&mut self) -> Option<Result<Delta, EngineError>> {
        loop {
            let message = match self.silence.until(self.messages.message()).await {
                Ok(Ok(Some(message))) => message,
                Ok(Ok(None)) => return None,
                Ok(Err(status)) => {
                    return Some(Err(self.shared.error(&status, self.progress, &self.sent)));
                }
                Err(error) => return Some(Err(error)),
            };
            let Some(delta) = self.reader.read(message).transpose() else { continue };
            self.progress = Progress::Answered;
            if delta.as_ref().is_ok_and(|delta| delta.finish.is_some()) {
                // The trailers usually follow in the same packet; taking them ends the call without a reset.
                let _ = self.messages.trailers().now_or_never();
            }
            return Some(delta);
        }
    }
}
