//! `tito mock`: one simulated engine.

use std::process::ExitCode;

use tito_mock::Exit;
use tito_runtime::{OnError, ShutdownConfig, Signals, Stage, Tasks, telemetry};
use tokio_util::sync::CancellationToken;

use crate::args::MockArgs;
use crate::process;

pub(crate) fn run(args: MockArgs) -> ExitCode {
    let config = args.into_config();
    if let Err(error) = telemetry::init("info", telemetry::LogFormat::Text) {
        return process::usage(&[error.to_string()]);
    }
    process::block_on(async {
        let mock = config.build().await?;
        // First: whoever has read the addresses may already send a signal.
        let stop = stop_on_signal()?;
        println!("tito mock: gRPC on {}, HTTP on http://{}", mock.grpc_addr(), mock.http_addr());
        println!("attach it with: tito serve --engine vllm://{}", mock.grpc_addr());
        Ok(match mock.run(stop).await? {
            Exit::Stopped => ExitCode::SUCCESS,
            Exit::Died => ExitCode::FAILURE,
        })
    })
}

/// A token that the first SIGTERM or SIGINT cancels.
fn stop_on_signal() -> anyhow::Result<CancellationToken> {
    let at_once = ShutdownConfig { unready: std::time::Duration::ZERO, drain: std::time::Duration::ZERO };
    let (sequence, shutdown, trigger) = at_once.build();
    let tasks = Tasks::new(trigger.clone(), &mut tito_runtime::registry());
    let signals = Signals::install()?;
    let (reload, _) = tito_runtime::reload();
    tasks.spawn("signals", OnError::Stop, async move {
        signals.forward(trigger, reload).await;
        Ok(())
    });
    tasks.spawn("shutdown", OnError::Stop, async move {
        sequence.run().await;
        Ok(())
    });
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tasks.spawn("stop", OnError::Stop, async move {
        shutdown.reached(Stage::Unready).await;
        stopped.cancel();
        Ok(())
    });
    Ok(stop)
}
