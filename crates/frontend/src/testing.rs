//! What the tests of this crate share: a toy format, and engines that do as told.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use http_body_util::BodyExt;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tito_engine::{BoxEngine, Engine};
use tito_runtime::{
    OnError, ReloadTrigger, Shutdown, ShutdownConfig, Stage, Tasks, Trigger, registry, reload,
};
use tito_test_support::http::{Raw, Reply, check_envelope};
use tito_test_support::wait::{wait_until, within};
use tito_types::{Catalog, CatalogModel};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::{Exit, FormatRoute, Frontend, FrontendConfig, KeyConfig, Parts, Route, Secret};

pub(crate) mod engines;
pub(crate) mod frames;
pub(crate) mod operator;
pub(crate) mod toy;

/// Longer than any test.
pub(crate) const NEVER: Duration = Duration::from_secs(3_600);

/// The generation routes that are served.
pub(crate) const FORMATS: [(&str, Route); 2] =
    [("/inference/v1/generate", Route::Generate), ("/v1/completions", Route::Completions)];

/// A frontend that does not run yet, and every handle to it.
pub(crate) struct Setup {
    pub(crate) frontend: Frontend,
    pub(crate) registry: Arc<Registry>,
    pub(crate) catalog: watch::Sender<Arc<Catalog>>,
    pub(crate) trigger: Trigger,
    pub(crate) shutdown: Shutdown,
    pub(crate) reload: ReloadTrigger,
    pub(crate) tasks: Tasks,
}

/// A frontend over `engine` with the toy format as both generation routes.
pub(crate) async fn setup(engine: impl Engine) -> Setup {
    setup_with(engine, |_| {}).await.expect("the defaults can be built")
}

pub(crate) async fn setup_with(
    engine: impl Engine,
    configure: impl FnOnce(&mut FrontendConfig),
) -> Result<Setup, crate::Error> {
    setup_at(engine, &FORMATS, configure).await
}

/// A frontend that serves, with this changed of its configuration.
pub(crate) async fn run_with(engine: impl Engine, configure: impl FnOnce(&mut FrontendConfig)) -> Running {
    setup_with(engine, configure).await.expect("the configuration is good").run()
}

/// A frontend that serves, over an engine that the test speaks for.
pub(crate) async fn run_held() -> (Running, mpsc::UnboundedReceiver<engines::Accepted>) {
    let (engine, requests) = engines::held();
    (setup(engine).await.run(), requests)
}

/// The same with the toy format at these paths.
pub(crate) async fn setup_at(
    engine: impl Engine,
    formats: &[(&'static str, Route)],
    configure: impl FnOnce(&mut FrontendConfig),
) -> Result<Setup, crate::Error> {
    let mut registry = registry();
    let (sequence, shutdown, trigger) = ShutdownConfig { unready: NEVER, drain: NEVER }.build();
    let tasks = Tasks::new(trigger.clone(), &mut registry);
    tasks.spawn("shutdown", OnError::Log, async {
        sequence.run().await;
        Ok(())
    });
    let (reload_trigger, reload) = reload();
    let (catalog, catalog_view) = watch::channel(Arc::new(one_model()));
    let format = |&(path, route)| FormatRoute { path, route, format: Box::new(toy::Toy) };
    let parts = Parts {
        engine: BoxEngine::new(engine),
        operator: Arc::new(operator::ToyOperator),
        catalog: catalog_view,
        formats: formats.iter().map(format).collect(),
        shutdown: shutdown.clone(),
        reload,
        tasks: tasks.clone(),
    };
    let mut config = FrontendConfig::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    configure(&mut config);
    let frontend = config.build(parts, &mut registry)?;
    let registry = Arc::new(registry);
    Ok(Setup { frontend, registry, catalog, trigger, shutdown, reload: reload_trigger, tasks })
}

pub(crate) fn one_model() -> Catalog {
    let model = CatalogModel {
        names: vec!["toy".to_owned(), "org/alias".to_owned()],
        source: "org/toy".to_owned(),
        parent: None,
        max_model_len: 64,
        n_max: 4,
        routable: true,
    };
    Catalog { models: vec![model], reasons: Vec::new() }
}

impl Setup {
    pub(crate) fn router(&self) -> Router {
        self.frontend.router(&self.registry)
    }

    /// The same where orders are taken.
    pub(crate) async fn order(&self, request: Request<Body>) -> Response<Body> {
        let router = self.frontend.control_router().expect("it takes orders");
        let answered = within("an answer", router.oneshot(request)).await;
        answered.expect("the router has no errors of its own")
    }

    /// One request without a socket.
    pub(crate) async fn ask(&self, request: Request<Body>) -> Response<Body> {
        let answered = within("an answer", self.router().oneshot(request)).await;
        answered.expect("the router has no errors of its own")
    }

    /// The status and code of a refusal.
    pub(crate) async fn refusal(&self, request: Request<Body>) -> (u16, String) {
        refusal_of(self.ask(request).await).await
    }

    /// Runs it on its socket.
    pub(crate) fn run(self) -> Running {
        let Self { frontend, registry, trigger, shutdown, tasks, .. } = self;
        let addr = frontend.local_addr();
        let exit = tasks.spawn_owned("frontend", frontend.run(Arc::clone(&registry)));
        Running { addr, registry, trigger, shutdown, tasks, exit }
    }
}

/// A frontend that serves.
pub(crate) struct Running {
    pub(crate) addr: SocketAddr,
    pub(crate) registry: Arc<Registry>,
    pub(crate) trigger: Trigger,
    pub(crate) shutdown: Shutdown,
    pub(crate) tasks: Tasks,
    pub(crate) exit: JoinHandle<Exit>,
}

impl Running {
    /// A new client that has sent this.
    pub(crate) async fn client(&self, text: impl AsRef<[u8]>) -> Raw {
        let mut client = Raw::connect(self.addr).await;
        client.send(text).await;
        client
    }

    /// What a new client is answered that sends this.
    pub(crate) async fn reply(&self, text: impl AsRef<[u8]>) -> Reply {
        self.client(text).await.reply().await
    }

    /// Moves one stage of the shutdown and waits until the frontend sees it.
    pub(crate) async fn next_stage(&self, stage: Stage) {
        self.trigger.fire("test");
        within("the stage is reached", self.shutdown.reached(stage)).await;
    }

    /// Waits until a line of the metrics says so.
    pub(crate) async fn wait_for_metric(&self, line: &str) {
        wait_until(line, || metrics_text(&self.registry).lines().any(|found| found == line)).await;
    }

    /// How it ended, and that nothing of it is left.
    pub(crate) async fn ended(self) -> Exit {
        let exit = within("it ends", self.exit).await.expect("it does not panic");
        within("every task ends", self.tasks.stop()).await;
        assert!(metrics_text(&self.registry).contains("tito_frontend_connections_open 0\n"));
        exit
    }
}

/// These keys, without a file.
pub(crate) fn keys(keys: &[&str]) -> KeyConfig {
    let keys = keys.iter().map(|key| Secret::new((*key).to_owned())).collect();
    KeyConfig { keys, ..KeyConfig::default() }
}

pub(crate) fn metrics_text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

pub(crate) fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path).header("content-type", "application/json").body(body.into()).unwrap()
}

pub(crate) fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).unwrap()
}

/// The same request with one more header, or another value of it.
pub(crate) fn with(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

pub(crate) async fn bytes_of(response: Response<Body>) -> Vec<u8> {
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

pub(crate) async fn json_of(response: Response<Body>) -> Value {
    serde_json::from_slice(&bytes_of(response).await).expect("a JSON body")
}

/// Waits until the engine's stream is dropped that holds the other end.
pub(crate) async fn is_dropped(guard: oneshot::Receiver<()>) {
    within("the engine's stream is dropped", guard).await.expect_err("nothing is sent");
}

/// The status and code of an error answer, after checking that it is in the envelope.
pub(crate) async fn refusal_of(response: Response<Body>) -> (u16, String) {
    let status = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "application/json");
    assert!(response.headers().contains_key("x-request-id"));
    let body = json_of(response).await;
    let error = check_envelope("a failure", &body);
    (status, error["code"].as_str().unwrap().to_owned())
}

/// Checks that the metrics have these lines.
#[track_caller]
pub(crate) fn check_metrics(registry: &Registry, lines: &[&str]) {
    check_lines(&metrics_text(registry), lines);
}

#[track_caller]
pub(crate) fn check_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "no {line} in {text}");
    }
}
