use std::net::SocketAddr;

use serde_json::Value;
use tito_test_support::http::Call;
use tito_test_support::wait::{wait_for, within};
use tonic::transport::{Channel, Endpoint};
use vllm_proto::control_client::ControlClient;
use vllm_proto::{
    IsPausedRequest, LoadLoraRequest, PauseGenerationRequest, PauseMode, ResumeGenerationRequest,
    UnloadLoraRequest,
};

use super::process::Tito;

/// A simulated engine in a process of its own.
pub(crate) struct MockEngine {
    pub(crate) process: Tito,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
}

/// What the engine's journal says of one request.
#[derive(Debug, Clone)]
pub(crate) struct Entry(pub(crate) Value);

impl Entry {
    /// `queued`, `running`, `finished` or `aborted`.
    pub(crate) fn state(&self) -> &str {
        self.0["state"].as_str().unwrap()
    }

    pub(crate) fn cause(&self) -> Option<&str> {
        self.0["cause"].as_str()
    }

    pub(crate) fn output_tokens(&self) -> u64 {
        self.0["output_tokens"].as_u64().unwrap()
    }

    /// The decoded message without the id, which is the engine's own.
    pub(crate) fn message(&self) -> Value {
        let mut message = self.0["request"].clone();
        message.as_object_mut().unwrap().shift_remove("request_id");
        message
    }

    fn is_of(&self, id: &str) -> bool {
        let known = self.0["request_id"].as_str().unwrap();
        known.strip_prefix(id).is_some_and(|suffix| suffix.starts_with('-'))
    }
}

impl MockEngine {
    pub(crate) async fn start(args: &[&str]) -> Self {
        Self::of_model("m", args).await
    }

    /// Starts an engine of that model on free ports.
    pub(crate) async fn of_model(model: &str, args: &[&str]) -> Self {
        let all = [&["mock", model, "--grpc-port", "0", "--port", "0"], args].concat();
        let mut process = Tito::spawn(&all, &[]);
        let line = process.line("tito mock: gRPC on ").await;
        let (grpc, http) = line["tito mock: gRPC on ".len()..].split_once(", HTTP on http://").unwrap();
        Self { process, grpc: grpc.parse().unwrap(), http: http.parse().unwrap() }
    }

    /// What `--engine` takes.
    pub(crate) fn url(&self) -> String {
        format!("vllm://{}", self.grpc)
    }

    /// Sets a fault and returns its number.
    pub(crate) async fn fault(&self, fault: &Value) -> u64 {
        let reply = Call::post(self.http, "/mock/faults", fault).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.json()["id"].as_u64().unwrap()
    }

    /// Removes all faults.
    pub(crate) async fn clear_faults(&self) {
        let reply = Call::get(self.http, "/mock/faults").method("DELETE").send().await;
        assert_eq!(reply.status, 204);
    }

    /// Removes one fault.
    pub(crate) async fn unset(&self, id: u64) {
        let path = format!("/mock/faults?id={id}");
        assert_eq!(Call::get(self.http, &path).method("DELETE").send().await.status, 204);
    }

    async fn control(&self) -> ControlClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap();
        ControlClient::new(within("the engine's control service", endpoint.connect()).await.unwrap())
    }

    /// Freezes the engine with everything in it, as trainers do before they change weights.
    pub(crate) async fn pause(&self) {
        let request = PauseGenerationRequest { mode: PauseMode::Keep as i32, clear_cache: None };
        self.control().await.pause_generation(request).await.unwrap();
    }

    /// Lets a frozen engine go on.
    pub(crate) async fn resume(&self) {
        self.control().await.resume_generation(ResumeGenerationRequest {}).await.unwrap();
    }

    /// Waits until the engine is frozen, or goes on.
    pub(crate) async fn wait_paused(&self, paused: bool) {
        let control = self.control().await;
        wait_for(&format!("paused is {paused}"), async || {
            let state = control.clone().is_paused(IsPausedRequest {}).await.unwrap();
            (state.get_ref().paused == paused).then_some(())
        })
        .await;
    }

    /// Loads an adapter.
    pub(crate) async fn load_adapter(&self, name: &str, source: &str) {
        let request = LoadLoraRequest { lora_name: name.to_owned(), source_path: source.to_owned() };
        self.control().await.load_lora(request).await.unwrap();
    }

    /// Unloads an adapter.
    pub(crate) async fn unload_adapter(&self, name: &str) {
        let request = UnloadLoraRequest { lora_name: name.to_owned() };
        self.control().await.unload_lora(request).await.unwrap();
    }

    /// The requests that reached the engine, oldest first.
    pub(crate) async fn journal(&self) -> Vec<Entry> {
        let body = Call::get(self.http, "/mock/requests").send().await.json();
        body["requests"].as_array().unwrap().iter().cloned().map(Entry).collect()
    }

    /// Empties the journal.
    pub(crate) async fn forget(&self) {
        let reply = Call::get(self.http, "/mock/requests").method("DELETE").send().await;
        assert_eq!(reply.status, 204);
    }

    /// The requests that a client's id led to.
    pub(crate) async fn entries(&self, id: &str) -> Vec<Entry> {
        self.journal().await.into_iter().filter(|entry| entry.is_of(id)).collect()
    }

    /// Waits until a client's request is in a state, and returns its entry.
    pub(crate) async fn wait_state(&self, id: &str, state: &str) -> Entry {
        self.wait_entry(id, state, |entry| entry.state() == state).await
    }

    /// Waits until a client's request runs and has so many output tokens.
    pub(crate) async fn wait_tokens(&self, id: &str, tokens: u64) -> Entry {
        let ready = |entry: &Entry| entry.state() == "running" && entry.output_tokens() == tokens;
        self.wait_entry(id, &format!("with {tokens} tokens"), ready).await
    }

    async fn wait_entry(&self, id: &str, what: &str, ready: impl Fn(&Entry) -> bool) -> Entry {
        let what = format!("request {id} {what} in the engine's journal");
        wait_for(&what, async || self.entries(id).await.into_iter().find(&ready)).await
    }

    /// Waits until so many requests of a client's id are in a state.
    pub(crate) async fn wait_count(&self, id: &str, state: &str, count: usize) {
        wait_for(&format!("{count} requests {id} {state} in the engine's journal"), async || {
            let entries = self.entries(id).await;
            (entries.iter().filter(|entry| entry.state() == state).count() == count).then_some(())
        })
        .await;
    }
}
