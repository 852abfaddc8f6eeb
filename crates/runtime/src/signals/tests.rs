use std::time::Duration;

use nix::sys::signal::{Signal as Sent, raise};
use tito_test_support::wait::within;

use super::*;
use crate::{ShutdownConfig, Stage, reload};

#[tokio::test]
async fn signals_become_triggers() {
    let signals = Signals::install().unwrap();
    let hour = Duration::from_secs(3600);
    let (sequence, shutdown, trigger) = ShutdownConfig { unready: hour, drain: hour }.build();
    let (reload_trigger, mut reload) = reload();
    let checks = async {
        raise(Sent::SIGHUP).unwrap();
        within("SIGHUP asks for a reload", reload.requested()).await;
        assert_eq!(shutdown.stage(), Stage::Serving);
        for (sent, stage) in
            [(Sent::SIGTERM, Stage::Unready), (Sent::SIGINT, Stage::Draining), (Sent::SIGTERM, Stage::Forced)]
        {
            raise(sent).unwrap();
            within("each signal moves one stage", shutdown.reached(stage)).await;
            assert_eq!(shutdown.stage(), stage);
        }
    };
    tokio::select! {
        () = checks => {}
        () = signals.forward(trigger, reload_trigger) => panic!("signals never end"),
        () = async { sequence.run().await; std::future::pending().await } => {}
    }
}
