//! One engine behind one gRPC address.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{FutureExt, Stream, stream};
use prost::Message;
use tito_engine::{Engine, TokenStream};
use tito_types::{Delivery, EngineError, GenerateRequest, WorkerId};
use tokio::time::{Instant, sleep, timeout};
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use vllm_proto::control_client::ControlClient;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::{GenerateResponse, IsPausedRequest};

use crate::convert;
use crate::output::Reader;
use crate::status::{Progress, engine_error};

/// Largest request message vLLM 0.32 takes, in bytes.
const REQUEST_BYTES_MAX: usize = 32 << 20;
/// Replies with a larger budget are read as deltas when a stall timeout watches them: a whole reply shows no progress.
const WHOLE_TOKENS_MAX: u32 = 256;
/// How often a silent request's engine is asked within a stall timeout whether it is paused: a shorter pause than
/// the time between two questions may count as silence.
const STALL_LOOKS: u32 = 4;
/// How long the question whether the engine is paused may take.
const PAUSED_TIMEOUT: Duration = Duration::from_secs(5);

/// Requests to one engine, spread over its channels.
pub(crate) struct Vllm {
    shared: Arc<Shared>,
}

struct Shared {
    worker: WorkerId,
    channels: Vec<InferenceClient<Channel>>,
    next_channel: AtomicUsize,
    control: ControlClient<Channel>,
    stall_timeout: Option<Duration>,
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
        instance: u32,
    ) -> Self {
        let shared = Shared {
            worker,
            channels,
            next_channel: AtomicUsize::new(0),
            control,
            stall_timeout,
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
        let mut client = shared.client();
        if shared.whole(&request) {
            let reply = shared.watch(Box::pin(client.generate(message))).await?;
            return whole(
                reader,
                reply.map_err(|status| shared.error(&status, Progress::Unanswered))?.into_inner(),
            );
        }
        let accepted = shared.watch(Box::pin(client.generate_stream(message))).await?;
        let messages = accepted.map_err(|status| shared.error(&status, Progress::Unanswered))?.into_inner();
        Ok(TokenStream::new(1, deltas(Arc::clone(shared), messages, reader)))
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
        let message = convert::message(request, engine_id)?;
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

    fn error(&self, status: &Status, progress: Progress) -> EngineError {
        engine_error(&self.worker, status, progress)
    }

    /// Waits for progress. Silence beyond the stall timeout is a failure; the time until the engine was last seen
    /// paused is none.
    async fn watch<T>(&self, progress: impl Future<Output = T>) -> Result<T, EngineError> {
        let Some(stall_timeout) = self.stall_timeout else { return Ok(progress.await) };
        let mut progress = std::pin::pin!(progress);
        let mut silence = Duration::ZERO;
        loop {
            let look = async {
                let began = Instant::now();
                sleep(stall_timeout / STALL_LOOKS).await;
                (self.paused().await, began.elapsed())
            };
            tokio::select! {
                biased;
                done = progress.as_mut() => return Ok(done),
                (paused, elapsed) = look => silence = if paused { Duration::ZERO } else { silence + elapsed },
            }
            if silence >= stall_timeout {
                return Err(EngineError::Stalled(self.worker.clone()));
            }
        }
    }

    /// An engine that does not answer counts as not paused.
    async fn paused(&self) -> bool {
        let mut control = self.control.clone();
        let asked = timeout(PAUSED_TIMEOUT, control.is_paused(IsPausedRequest {})).await;
        matches!(asked, Ok(Ok(reply)) if reply.get_ref().paused)
    }
}

fn whole(mut reader: Reader, reply: GenerateResponse) -> Result<TokenStream, EngineError> {
    let delta = reader.read(reply)?.ok_or_else(|| EngineError::Protocol("a reply without output".into()))?;
    if delta.finish.is_none() {
        return Err(EngineError::Truncated);
    }
    Ok(TokenStream::whole(delta))
}

/// What one read of the call yields; dropping the stream cancels the call, and vLLM aborts the request.
fn deltas(
    shared: Arc<Shared>,
    messages: Streaming<GenerateResponse>,
    reader: Reader,
) -> impl Stream<Item = Result<tito_types::Delta, EngineError>> + Send {
    stream::unfold((shared, messages, reader, Progress::Unanswered), |state| async move {
        let (shared, mut messages, mut reader, mut progress) = state;
        loop {
            let message = match shared.watch(messages.message()).await {
                Ok(Ok(Some(message))) => message,
                Ok(Ok(None)) => return None,
                Ok(Err(status)) => {
                    let error = shared.error(&status, progress);
                    return Some((Err(error), (shared, messages, reader, progress)));
                }
                Err(error) => return Some((Err(error), (shared, messages, reader, progress))),
            };
            progress = Progress::Answered;
            let Some(delta) = reader.read(message).transpose() else { continue };
            if delta.as_ref().is_ok_and(|delta| delta.finish.is_some()) {
                // The trailers usually follow in the same packet; taking them ends the call without a reset.
                let _ = messages.trailers().now_or_never();
            }
            return Some((delta, (shared, messages, reader, progress)));
        }
    })
}
