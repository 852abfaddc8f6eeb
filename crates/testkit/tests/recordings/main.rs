//! Recorded answers of vLLM 0.32 held against the adapter: its messages become the recorded deltas, and the requests
//! it sends are the recorded ones.
//!
//! Every Generate call of fixtures/vllm-0.32/{grpc-generate,light} is replayed by its wire bytes from a server that
//! knows nothing of protobuf. What the adapter cannot or need not do has its reason in a table, and a reason that no
//! recording needs is a failure.

mod exceptions;
mod expected;
mod fixture;
mod message;
mod replay;
mod waist;

use std::collections::BTreeSet;

use tito_engine::{Connector, Engine};
use tito_test_support::grpc::Call;
use tito_test_support::wait::within;
use tito_testkit::connector;
use tito_types::{Delta, EngineError, GenerateRequest};

use crate::exceptions::Exception;
use crate::fixture::Fixture;
use crate::replay::Replay;

/// Recordings there must be at least; fewer means that a folder is missing.
const RECORDINGS_MIN: usize = 180;

/// One thing in which a recording and the adapter differ.
struct Difference {
    /// Which part of the call it is; an exception covers only its own parts.
    part: &'static str,
    text: String,
}

impl Difference {
    fn new(part: &'static str, text: String) -> Self {
        Self { part, text }
    }
}

/// What the adapter made of one recording.
struct Outcome {
    deltas: Vec<Delta>,
    error: Option<EngineError>,
    /// The call as the server saw it; absent when the adapter refused to send it.
    seen: Option<Call>,
}

async fn run(fixture: &Fixture, request: GenerateRequest) -> (Outcome, Replay) {
    let replay = Replay::start(fixture.replies.clone(), fixture.status.clone()).await;
    let connector = connector(replay.address(), 1).expect("a loopback address");
    let engine = connector.connect().await.expect("the replay server looks like an engine").engine;
    let mut outcome = Outcome { deltas: Vec::new(), error: None, seen: None };
    match engine.generate(request).await {
        Err(error) => outcome.error = Some(error),
        Ok(mut stream) => {
            while let Some(item) = stream.next().await {
                match item {
                    Ok(delta) => outcome.deltas.push(delta),
                    Err(error) => outcome.error = Some(error),
                }
            }
        }
    }
    outcome.seen = replay.seen();
    (outcome, replay)
}

/// Replays every recording, and fails with every one that `check` finds something in.
#[expect(clippy::print_stdout, reason = "shown on demand: how much was compared")]
async fn check(
    what: &str,
    exceptions: &[Exception],
    check: impl Fn(&Fixture, &Outcome, &Replay) -> Vec<Difference>,
) {
    let fixtures = fixture::generate_calls();
    assert!(fixtures.len() >= RECORDINGS_MIN, "only {} recordings", fixtures.len());
    let (mut wrong, mut used, mut exact) = (Vec::new(), BTreeSet::new(), 0);
    for fixture in &fixtures {
        let (request, lost) = waist::request_of(fixture);
        let apart: Vec<&str> = lost.into_iter().chain(exceptions::of_reply(fixture)).collect();
        let exception = exceptions.iter().find(|exception| apart.contains(&exception.what));
        used.extend(exception.map(|exception| exception.what));
        let (outcome, replay) = within(&fixture.name, run(fixture, request)).await;
        let found = check(fixture, &outcome, &replay);
        match exception {
            None if found.is_empty() => exact += 1,
            Some(exception) if found.is_empty() => {
                wrong.push(format!("{}: equal although {}", fixture.name, exception.reason));
            }
            None | Some(_) => {}
        }
        let unexcused =
            found.iter().filter(|found| !exception.is_some_and(|it| it.parts.contains(&found.part)));
        wrong.extend(unexcused.map(|found| format!("{}: {}: {}", fixture.name, found.part, found.text)));
    }
    let unused = exceptions.iter().filter(|exception| !used.contains(exception.what));
    wrong.extend(unused.map(|exception| format!("no recording needs the exception {}", exception.what)));
    let (all, excused) = (fixtures.len(), fixtures.len() - exact);
    println!("{what}: {all} recordings, {exact} equal, {excused} with a reason");
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn every_recorded_reply_becomes_the_recorded_deltas() {
    check("replies", exceptions::OF_REPLIES, |fixture, outcome, replay| {
        let worker = replay.address().to_string();
        expected::compare(fixture, &outcome.deltas, outcome.error.as_ref(), &worker)
    })
    .await;
}

#[tokio::test]
async fn every_recorded_request_is_what_the_adapter_sends() {
    check("requests", exceptions::OF_REQUESTS, |fixture, outcome, _| match &outcome.seen {
        Some(seen) => message::compare(fixture, seen),
        None => vec![Difference::new("call", "nothing was sent".to_owned())],
    })
    .await;
}
