//! An engine that answers Generate calls with recorded bytes and the adapter's other questions as a healthy one would.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use prost::Message;
use tito_test_support::grpc::{Answer, Call, Server};
use vllm_proto::{ModelInfo, ParallelismInfo, ServerInfo};

/// A server for one recording; it ends when this is dropped.
pub(crate) struct Replay {
    server: Server,
    seen: Arc<Mutex<Option<Call>>>,
}

impl Replay {
    pub(crate) async fn start(messages: Vec<Bytes>, status: (i32, String)) -> Self {
        let seen = Arc::<Mutex<Option<Call>>>::default();
        let shown = Arc::clone(&seen);
        let recorded = Answer { messages, status: Some(status) };
        let answer = move |call: Call| match call.path.as_str() {
            "/vllm.Control/GetServerInfo" => Answer::one(server_info().encode_to_vec()),
            "/vllm.Control/GetKvEventSources" => Answer::one(Bytes::new()),
            "/vllm.Control/GetModelInfo" => Answer::one(model_info().encode_to_vec()),
            _ => {
                *shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
                recorded.clone()
            }
        };
        Self { server: Server::start(answer).await, seen }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The Generate call, if there was one.
    pub(crate) fn seen(&self) -> Option<Call> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn server_info() -> ServerInfo {
    let parallelism = ParallelismInfo {
        tensor_parallel_size: 1,
        pipeline_parallel_size: 1,
        data_parallel_size: 1,
        data_parallel_size_local: 1,
        ..ParallelismInfo::default()
    };
    ServerInfo {
        engine_version: "0.32.0".to_owned(),
        instance_id: "recorded".to_owned(),
        parallelism: Some(parallelism),
        max_model_len: 2048,
        kv_block_size: 32,
        max_running_requests: 128,
        ..ServerInfo::default()
    }
}

fn model_info() -> ModelInfo {
    let (served_model_name, supports_token_ids_input) = ("recorded".to_owned(), true);
    ModelInfo { served_model_name, supports_token_ids_input, ..ModelInfo::default() }
}
