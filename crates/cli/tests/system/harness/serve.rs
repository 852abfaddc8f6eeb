use std::net::SocketAddr;

use serde_json::Value;
use tito_test_support::http::{Call, Reply, Tls};
use tito_test_support::wait::wait_for;

use super::process::Tito;
use super::{GENERATE, MockEngine, generate};

/// Every metric has a row there.
const METRICS: &str = include_str!("../../../../../docs/metrics.md");

/// `tito serve` in a process of its own.
pub(crate) struct Serve {
    pub(crate) process: Tito,
    pub(crate) address: SocketAddr,
    /// How its clients speak TLS, where they do.
    pub(crate) tls: Option<Tls>,
}

/// An engine and a server in front of it, each with these arguments.
pub(crate) async fn served(engine: &[&str], args: &[&str]) -> (MockEngine, Serve) {
    let engine = MockEngine::start(engine).await;
    let serve = Serve::ready(&[&engine.url()], args).await;
    (engine, serve)
}

impl Serve {
    /// Starts it in front of these engines and waits until it is ready.
    pub(crate) async fn ready(engines: &[&str], args: &[&str]) -> Self {
        let serve = Self::start(engines, args).await;
        serve.wait_status("/ready", 200).await;
        serve
    }

    /// Starts it in front of these engines and waits until it listens.
    pub(crate) async fn start(engines: &[&str], args: &[&str]) -> Self {
        Self::start_with(engines, args, &[]).await
    }

    /// The same with an environment.
    pub(crate) async fn start_with(engines: &[&str], args: &[&str], env: &[(&str, &str)]) -> Self {
        let engines = engines.iter().flat_map(|engine| ["--engine", *engine]);
        let all: Vec<&str> =
            ["serve", "--port", "0"].into_iter().chain(engines).chain(args.iter().copied()).collect();
        let mut process = Tito::spawn(&all, env);
        let line = process.line("tito serve listens on ").await;
        let address = line.rsplit_once("://").unwrap().1.parse().unwrap();
        Self { process, address, tls: None }
    }

    pub(crate) fn get(&self, path: &str) -> Call {
        self.dressed(Call::get(self.address, path))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Call {
        self.dressed(Call::post(self.address, path, body))
    }

    fn dressed(&self, call: Call) -> Call {
        match &self.tls {
            Some(tls) => call.tls(tls),
            None => call,
        }
    }

    /// A request on the generate route.
    pub(crate) fn generate(&self, id: &str, max_tokens: u32, stream: bool) -> Call {
        self.post(GENERATE, &generate(id, max_tokens, stream))
    }

    /// Sends a small request that must succeed.
    pub(crate) async fn assert_serves(&self, id: &str) -> Reply {
        let reply = self.generate(id, 4, false).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.tokens().len(), 4);
        reply
    }

    /// What `/workers` says of each worker.
    pub(crate) async fn workers(&self) -> Vec<Value> {
        let told = self.get("/workers").send().await.json();
        told["workers"].as_array().unwrap().clone()
    }

    /// What it says of the worker that is this engine.
    pub(crate) async fn worker(&self, address: &str) -> Value {
        let mut workers = self.workers().await;
        workers.retain(|worker| worker["id"] == address);
        workers.pop().unwrap()
    }

    /// Waits until so many workers are ready, and what each of their targets holds is known.
    pub(crate) async fn wait_complete(&self, workers: usize) {
        let complete = |target: &Value| target["index"]["state"] == "complete";
        let known = |worker: &Value| {
            worker["state"] == "ready" && worker["targets"].as_array().unwrap().iter().all(complete)
        };
        wait_for("every target to be known completely", async || {
            (self.workers().await.iter().filter(|worker| known(worker)).count() == workers).then_some(())
        })
        .await;
    }

    /// Waits until a path answers with a status, and returns the reply.
    pub(crate) async fn wait_status(&self, path: &str, status: u16) -> Reply {
        wait_for(&format!("{status} from {path}"), async || {
            Some(self.get(path).send().await).filter(|reply| reply.status == status)
        })
        .await
    }

    /// Waits until `/ready` gives a reason or a note that holds `mark`.
    pub(crate) async fn wait_note(&self, mark: &str) -> Reply {
        wait_for(&format!("`{mark}` from /ready"), async || {
            Some(self.get("/ready").send().await).filter(|reply| reply.text().contains(mark))
        })
        .await
    }

    /// The sum of the series of a metric that have all these labels. Nothing where there is none: a counter with labels
    /// has no series before its first event. So that no name is mistaken for such a one, it must be in the page of metrics.
    pub(crate) async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let family = name.strip_suffix("_count").unwrap_or(name);
        assert!(METRICS.contains(&format!("\n| `{family}` |")), "{name} is in no row of docs/metrics.md");
        let text = self.get("/metrics").send().await;
        sum(text.text(), name, labels)
    }

    /// Waits until a metric has a value.
    pub(crate) async fn wait_metric(&self, name: &str, labels: &[&str], value: f64) {
        wait_for(&format!("{name} {labels:?} at {value}"), async || {
            (self.metric(name, labels).await.to_bits() == value.to_bits()).then_some(())
        })
        .await;
    }
}

/// Adds up the lines of a metric that hold every label, such as `route="generate"`.
fn sum(text: &str, name: &str, labels: &[&str]) -> f64 {
    let series = text
        .lines()
        .filter_map(|line| line.strip_prefix(name))
        .filter(|rest| rest.starts_with([' ', '{']) && labels.iter().all(|label| rest.contains(label)));
    let values = series.map(|rest| rest.rsplit(' ').next().unwrap().parse::<f64>().unwrap());
    // Not `sum`: that of nothing is −0.
    values.fold(0.0, |sum, value| sum + value)
}
