//! `tito serve`: the parts of one server, and the order in which they start and stop.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use prometheus_client::registry::Registry;
use tito_engine_vllm::VllmConnector;
use tito_fleet::{Blocks, Fleet, FleetMetrics};
use tito_formats::{OpenAiCompletions, VllmGenerate};
use tito_frontend::{Exit, FormatRoute, Frontend, Parts, Route};
use tito_router::Route as RouteLayer;
use tito_runtime::{OnError, Sequence, Shutdown, Signals, Stage, Tasks, Trigger, telemetry};
use tokio_util::sync::CancellationToken;

use crate::args::{LogFormat, ServeArgs};
use crate::operator::FleetOperator;
use crate::settings::{Settings, settings};
use crate::{data_plane, process};

pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    let settings = match settings(args) {
        Ok(settings) => settings,
        Err(problems) => return process::usage(&problems),
    };
    let format = match args.log_format {
        LogFormat::Text => telemetry::LogFormat::Text,
        LogFormat::Json => telemetry::LogFormat::Json,
    };
    if let Err(error) = telemetry::init(&args.log_level, format) {
        return process::usage(&[format!("--log-level: {:#}", anyhow::Error::from(error))]);
    }
    process::block_on(async {
        let server = Server::build(settings)?.ended_by_signals()?;
        println!("tito serve listens on {}", server.url());
        if let Some(url) = server.control_url() {
            println!("tito serve takes orders on {url}");
        }
        server.run().await
    })
}

/// A server whose socket is bound and whose engines are not connected yet.
pub(crate) struct Server {
    frontend: Frontend,
    fleet: Fleet<VllmConnector>,
    route: RouteLayer,
    registry: Registry,
    tasks: Tasks,
    sequence: Sequence,
    shutdown: Shutdown,
    trigger: Trigger,
    reload: tito_runtime::ReloadTrigger,
    draining: CancellationToken,
    scheme: &'static str,
}

impl Server {
    /// Puts the parts together; every address and file is checked, and the socket is bound.
    pub(crate) fn build(settings: Settings) -> anyhow::Result<Self> {
        let Settings { frontend, engines, fleet, index, routing, admission, shutdown } = settings;
        let mut registry = tito_runtime::registry();
        let (sequence, shutdown, trigger) = shutdown.build();
        let (reload_trigger, reload) = tito_runtime::reload();
        let tasks = Tasks::new(trigger.clone(), &mut registry);

        // Engines see ids with a suffix of ours; two ways to one engine must not make the same.
        let suffix = || uuid::Uuid::new_v4().as_fields().0;
        let connectors = engines.into_iter().map(|engine| VllmConnector::try_new(engine, suffix()));
        let connectors = connectors.collect::<Result<Vec<_>, _>>()?;
        let fleet_metrics = FleetMetrics::register(registry.sub_registry_with_prefix("fleet"));
        // Block identities are this process's own: who does not know the secret cannot make two prompts look alike.
        let blocks = Arc::new(Blocks::new(index, uuid::Uuid::new_v4().as_u128()));
        blocks.register(registry.sub_registry_with_prefix("fleet"));
        let per_engine = data_plane::per_engine();
        let fleet = Fleet::new(fleet, connectors, per_engine, Arc::clone(&blocks), fleet_metrics);

        let draining = CancellationToken::new();
        let (engine, route) = data_plane::data_plane(
            fleet.snapshot(),
            blocks,
            routing,
            admission,
            draining.clone(),
            &mut registry,
        );
        let parts = Parts {
            engine,
            operator: Arc::new(FleetOperator(route.clone())),
            catalog: fleet.catalog(),
            formats: formats(),
            shutdown: shutdown.clone(),
            reload,
            tasks: tasks.clone(),
        };
        let scheme = if frontend.tls.is_some() { "https" } else { "http" };
        let frontend = frontend.build(parts, &mut registry)?;
        Ok(Self {
            frontend,
            fleet,
            route,
            registry,
            tasks,
            sequence,
            shutdown,
            trigger,
            reload: reload_trigger,
            draining,
            scheme,
        })
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.frontend.local_addr())
    }

    /// Where it takes orders, if anywhere.
    fn control_url(&self) -> Option<String> {
        self.frontend.control_addr().map(|address| format!("{}://{address}", self.scheme))
    }

    /// Ends it, as a signal would.
    pub(crate) fn trigger(&self) -> Trigger {
        self.trigger.clone()
    }

    /// The models as they become ready.
    pub(crate) fn catalog(&self) -> tokio::sync::watch::Receiver<Arc<tito_types::Catalog>> {
        self.fleet.catalog()
    }

    /// Lets signals end it. Done before anyone is told its address: whoever knows it may already send one.
    pub(crate) fn ended_by_signals(self) -> anyhow::Result<Self> {
        let signals = Signals::install().context("install signal handlers")?;
        let (trigger, reload) = (self.trigger.clone(), self.reload.clone());
        self.tasks.spawn("signals", OnError::Stop, async move {
            signals.forward(trigger, reload).await;
            Ok(())
        });
        Ok(self)
    }

    /// Serves until triggered, and then as long as the shutdown sequence takes.
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let Self { frontend, fleet, route, registry, tasks, sequence, shutdown, draining, .. } = self;
        let fleet_stop = CancellationToken::new();
        let stop = fleet_stop.clone();
        let (loads, stop_loads) = (fleet.loads(), fleet_stop.clone());
        tasks.spawn("loads", OnError::Stop, async move {
            stop_loads.run_until_cancelled(route.follow_loads(loads)).await;
            Ok(())
        });
        tasks.spawn("fleet", OnError::Stop, async move {
            fleet.run(stop).await;
            Ok(())
        });
        tasks.spawn("shutdown", OnError::Stop, async move {
            sequence.run().await;
            Ok(())
        });
        tasks.spawn("drain", OnError::Stop, async move {
            shutdown.reached(Stage::Draining).await;
            draining.cancel();
            Ok(())
        });
        let exit = frontend.run(Arc::new(registry)).await;
        fleet_stop.cancel();
        tasks.stop().await;
        Ok(match exit {
            Exit::Clean if !tasks.failed() => ExitCode::SUCCESS,
            Exit::Clean | Exit::Forced { .. } => ExitCode::FAILURE,
        })
    }
}

/// Every way of asking for tokens.
fn formats() -> Vec<FormatRoute> {
    vec![
        FormatRoute {
            path: "/inference/v1/generate",
            route: Route::Generate,
            format: Box::new(VllmGenerate),
        },
        FormatRoute {
            path: "/v1/completions",
            route: Route::Completions,
            format: Box::new(OpenAiCompletions),
        },
    ]
}

#[cfg(test)]
mod tests;
