//! A client that leaves takes its request with it: out of the engine, or out of the queue.

use serde_json::json;

use crate::harness::{COMPLETIONS, GENERATE, Serve, generate, served};

/// Where the request is when its client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// In the engine's batch, with nothing delivered.
    BeforeTheFirstToken,
    /// In the engine's batch, with one token made.
    Running,
    /// In the engine's queue, behind another.
    QueuedInTheEngine,
    /// In our queue, behind another.
    QueuedInAdmission,
}

/// How the reply was asked for. A unary reply is a unary call at the engine while its budget is small.
const DELIVERIES: [(bool, u32); 3] = [(false, 64), (false, 1024), (true, 1024)];

/// The client's own id of the request that is given up.
const VICTIM: &str = "victim";
/// The one that keeps the engine busy meanwhile.
const HOLDER: &str = "holder";

async fn check(moment: Moment) {
    let admission = moment == Moment::QueuedInAdmission;
    let limit: &[&str] = if admission { &["--max-in-flight", "1"] } else { &[] };
    let (engine, serve) = served(&["--max-num-seqs", "1"], limit).await;
    let after = u32::from(moment != Moment::BeforeTheFirstToken);
    engine.fault(&json!({ "kind": "stall", "at_token": after, "request": VICTIM })).await;
    engine.fault(&json!({ "kind": "stall", "at_token": 1, "request": HOLDER })).await;
    for (gone, (stream, max_tokens)) in (1_u32..).zip(DELIVERIES) {
        let about = format!("{moment:?}, stream {stream}, {max_tokens} tokens");
        engine.forget().await;
        let held = matches!(moment, Moment::QueuedInTheEngine | Moment::QueuedInAdmission);
        let holder = held.then(|| serve.generate(HOLDER, 8, true).begin());
        if held {
            engine.wait_tokens(HOLDER, 1).await;
        }
        let victim = serve.generate(VICTIM, max_tokens, stream).begin();
        match moment {
            Moment::BeforeTheFirstToken => drop(engine.wait_tokens(VICTIM, 0).await),
            Moment::Running => drop(engine.wait_tokens(VICTIM, 1).await),
            Moment::QueuedInTheEngine => drop(engine.wait_state(VICTIM, "queued").await),
            Moment::QueuedInAdmission => serve.wait_metric("tito_admission_queued_requests", &[], 1.0).await,
        }

        drop(victim);
        if moment == Moment::QueuedInAdmission {
            serve.wait_metric("tito_admission_queued_requests", &[], 0.0).await;
            assert!(engine.entries(VICTIM).await.is_empty(), "{about}: it reached the engine");
        } else {
            let ended = engine.wait_state(VICTIM, "aborted").await;
            assert_eq!(ended.cause(), Some("disconnected"), "{about}");
        }

        drop(holder);
        serve.assert_serves("next").await;
        assert_all_released(&serve).await;
        let all_gone = f64::from(gone * if held { 2 } else { 1 });
        let labels = ["route=\"generate\"", "status=\"4xx\"", "code=\"client_gone\""];
        serve.wait_metric("tito_frontend_requests_total", &labels, all_gone).await;
    }
}

/// Nothing counts as in flight or queued any more.
async fn assert_all_released(serve: &Serve) {
    for gauge in
        ["tito_frontend_requests_in_flight", "tito_admission_in_flight", "tito_admission_queued_requests"]
    {
        serve.wait_metric(gauge, &[], 0.0).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_request_wherever_it_is() {
    for moment in
        [Moment::BeforeTheFirstToken, Moment::Running, Moment::QueuedInTheEngine, Moment::QueuedInAdmission]
    {
        check(moment).await;
    }
}

#[tokio::test]
async fn every_continuation_and_every_prompt_ends_with_its_client() {
    let (engine, serve) = served(&[], &[]).await;
    engine.fault(&json!({ "kind": "stall", "at_token": 1, "request": VICTIM })).await;
    for stream in [false, true] {
        let mut several = generate(VICTIM, 64, stream);
        several["sampling_params"]["n"] = json!(3);
        let prompts = [[1, 2], [3, 4], [5, 6]];
        let batch = json!({ "prompt": prompts, "max_tokens": 64, "request_id": VICTIM, "stream": stream });
        for (path, body) in [(GENERATE, several), (COMPLETIONS, batch)] {
            engine.forget().await;
            let victim = serve.post(path, &body).begin();
            engine.wait_count(VICTIM, "running", 3).await;
            drop(victim);
            engine.wait_count(VICTIM, "aborted", 3).await;
            assert_all_released(&serve).await;
        }
    }
    serve.assert_serves("next").await;
}

#[tokio::test]
async fn a_client_that_leaves_harms_no_other() {
    let (engine, serve) = served(&["--speed", "1", "--step-time", "5ms"], &[]).await;
    engine.fault(&json!({ "kind": "stall", "at_token": 2, "request": VICTIM })).await;
    let mut stays = serve.generate("stays", 100, true).open().await;
    stays.event().await.unwrap();
    let victims: Vec<_> = (0..8).map(|_| serve.generate(VICTIM, 64, true).begin()).collect();
    engine.wait_count(VICTIM, "running", 8).await;
    drop(victims);
    engine.wait_count(VICTIM, "aborted", 8).await;
    let reply = stays.whole().await;
    assert_eq!(reply.finish_reason().as_deref(), Some("length"));
    assert_eq!(reply.tokens().len(), 99, "the first of a hundred was read before");
}
