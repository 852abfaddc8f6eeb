//! An engine that answers the questions of a connector, and nothing else.

use std::sync::Mutex;

use prost::Message;
use tito_test_support::grpc::{Answer, Call, Server};
use vllm_proto::{
    GetKvEventSourcesResponse, KvEventSource, ListLorasResponse, LoraAdapter, ModelInfo, ServerInfo,
};

/// What it says.
pub(crate) struct Answers {
    /// About itself, one after the other; the last one from then on.
    pub servers: Vec<ServerInfo>,
    /// About its event sources; `None` when it does not know the question.
    pub sources: Option<Vec<KvEventSource>>,
    /// About its adapters, or the status that the question is answered with.
    pub adapters: Result<Vec<LoraAdapter>, i32>,
}

/// Serves on a free port until the server is dropped.
pub(crate) async fn serve(answers: Answers) -> (u16, Server) {
    let answers = Mutex::new(answers);
    let server = Server::start(move |call| answer(&call, &mut answers.lock().expect("no panic"))).await;
    (server.address().port(), server)
}

fn answer(call: &Call, answers: &mut Answers) -> Answer {
    match call.path.as_str() {
        "/vllm.Control/GetServerInfo" => {
            let more = answers.servers.len() > 1;
            one(&if more { answers.servers.remove(0) } else { answers.servers[0].clone() })
        }
        "/vllm.Control/GetModelInfo" => {
            let (served_model_name, supports_token_ids_input) = ("m".to_owned(), true);
            one(&ModelInfo { served_model_name, supports_token_ids_input, ..ModelInfo::default() })
        }
        "/vllm.Control/GetKvEventSources" => match &answers.sources {
            Some(sources) => one(&GetKvEventSourcesResponse { sources: sources.clone() }),
            None => Answer::failed(12),
        },
        "/vllm.Control/ListLoras" => match &answers.adapters {
            Ok(adapters) => one(&ListLorasResponse { adapters: adapters.clone() }),
            Err(code) => Answer::failed(*code),
        },
        _ => Answer::failed(12),
    }
}

fn one(message: &impl Message) -> Answer {
    Answer::one(message.encode_to_vec())
}
