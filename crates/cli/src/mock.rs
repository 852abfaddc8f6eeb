//! `tito mock`: one simulated engine.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tito_mock::Exit;
use tito_runtime::{OnError, Shutdown, ShutdownConfig, Signals, Stage, Tasks, telemetry};
use tokio_util::sync::CancellationToken;

use crate::args::MockArgs;
use crate::{process, units};

pub(crate) fn run(args: MockArgs) -> ExitCode {
    let config = args.into_config();
    let (model, scheme) =
        (config.primary_name().to_owned(), if config.tls.is_some() { "vllms" } else { "vllm" });
    if let Err(error) = telemetry::init("info", telemetry::LogFormat::Text) {
        return process::usage(&[error.to_string()]);
    }
    process::block_on(async {
        let mock = config.build().await?;
        // First: whoever has read the addresses may already send a signal.
        let signalled = Signalled::install()?;
        println!("tito mock: gRPC on {}, HTTP on http://{}", mock.grpc_addr(), mock.http_addr());
        println!("it serves {model}; attach it with: tito serve --engine {scheme}://{}", mock.grpc_addr());
        let exit = tokio::select! {
            biased;
            exit = mock.run(signalled.first) => match exit {
                Ok(Exit::Stopped) => Ok(ExitCode::SUCCESS),
                Ok(Exit::Died) => {
                    eprintln!("tito mock: a `die` fault ended it");
                    Ok(ExitCode::FAILURE)
                }
                Err(error) => Err(error.into()),
            },
            () = signalled.shutdown.reached(Stage::Draining) => Ok(ExitCode::FAILURE),
        };
        signalled.tasks.stop().await;
        exit
    })
}

/// What SIGTERM and SIGINT do: the first asks for an orderly end, the second ends the mock at once.
struct Signalled {
    first: CancellationToken,
    /// At [`Stage::Draining`] from the second signal on.
    shutdown: Shutdown,
    tasks: Tasks,
}

impl Signalled {
    fn install() -> anyhow::Result<Self> {
        // The mock times its own end; the stage after the first signal only ends by the second.
        let stages = ShutdownConfig { unready: units::TIME_MAX, drain: Duration::ZERO };
        let (sequence, shutdown, trigger) = stages.build();
        let tasks = Tasks::new(trigger.clone(), &mut tito_runtime::registry());
        let signals = Signals::install().context("install signal handlers")?;
        let (reload, _) = tito_runtime::reload();
        tasks.spawn("signals", OnError::Stop, async move {
            signals.forward(trigger, reload).await;
            Ok(())
        });
        tasks.spawn("shutdown", OnError::Stop, async move {
            sequence.run().await;
            Ok(())
        });
        let first = CancellationToken::new();
        let (stop, stage) = (first.clone(), shutdown.clone());
        tasks.spawn("stop", OnError::Stop, async move {
            stage.reached(Stage::Unready).await;
            stop.cancel();
            Ok(())
        });
        Ok(Self { first, shutdown, tasks })
    }
}
