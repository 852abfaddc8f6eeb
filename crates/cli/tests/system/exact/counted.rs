//! What the metrics say of block tables and cached tokens, by value.

use serde_json::{Value, json};

use super::{Engines, ask, cached, wait_held};
use crate::harness::{Call, GENERATE, MockEngine, Serve, wait_for};

/// Engines that publish events and replay none.
const NO_REPLAY: &[&str] =
    &["--kv-events-config", r#"{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:0"}"#];

/// Three full blocks and a bit, unlike those of another number.
fn body(number: u32) -> Value {
    let tokens: Vec<u32> = (0..100).map(|at| 1 + (number * 37 + at * 11) % 900).collect();
    json!({"token_ids": tokens, "sampling_params": {"max_tokens": 1, "temperature": 0.0}})
}

/// Lets the first batch of events from `seq` on go wrong on its way.
async fn spoil(engine: &MockEngine, frame: &str, seq: u32) {
    let fault = json!({"kind": "kv_frame", "frame": frame, "at_seq": seq, "count": 1});
    engine.fault(&fault).await;
}

/// Waits until each family is at its value: what a feed says of itself follows its batches.
async fn wait_values(serve: &Serve, values: &[(&str, f64)]) {
    for (family, value) in values {
        serve.wait_metric(&format!("tito_{family}"), &[], *value).await;
    }
}

#[tokio::test]
async fn each_wrong_frame_of_events_is_counted_and_repaired() {
    // The first replay is asked for when the engine is met. Whether the batch after an unreadable one comes twice depends
    // on how soon the replay is answered.
    for (frame, gaps, replays, duplicates, unreadable) in [
        ("drop", 1.0, 2.0, Some(1.0), 0.0),
        ("duplicate", 0.0, 1.0, Some(1.0), 0.0),
        ("reorder", 1.0, 2.0, Some(2.0), 0.0),
        ("corrupt", 0.0, 2.0, None, 1.0),
        ("truncate_seq", 0.0, 2.0, None, 1.0),
    ] {
        let engines = Engines::simulated(&[&[]]).await;
        let serve = engines.served(&[]).await;
        let worker = engines.mocks[0].grpc.to_string();
        spoil(&engines.mocks[0], frame, 1).await;
        for number in 0..3 {
            ask(&serve, &body(number)).await;
        }
        for number in 0..3 {
            wait_held(&serve, &body(number), &worker, 96).await;
        }
        wait_values(
            &serve,
            &[
                ("fleet_kv_batches_total", 3.0),
                ("fleet_kv_gaps_total", gaps),
                ("fleet_kv_replays_total", replays),
                ("fleet_kv_unreadable_total", unreadable),
                ("fleet_kv_restarts_total", 0.0),
                ("fleet_kv_partials_total", 0.0),
                ("fleet_kv_complete", 1.0),
            ],
        )
        .await;
        if let Some(duplicates) = duplicates {
            wait_values(&serve, &[("fleet_kv_duplicates_total", duplicates)]).await;
        }
    }
}

#[tokio::test]
async fn a_gap_that_nobody_fills_leaves_what_came_after_until_the_cache_is_cleared() {
    let engine = MockEngine::of_model("vl", NO_REPLAY).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    let worker = engine.grpc.to_string();
    let cleared_before = async |number| {
        let reset = Call::get(engine.http, "/reset_prefix_cache").method("POST").send().await;
        assert_eq!(reset.json()["success"], true);
        ask(&serve, &body(number)).await;
    };
    // The subscription may come after the first batches, and nobody replays them.
    wait_for("a clearing that is heard", async || {
        cleared_before(0).await;
        (serve.metric("tito_fleet_kv_complete", &[]).await > 0.0).then_some(())
    })
    .await;
    wait_held(&serve, &body(0), &worker, 96).await;
    let gaps = serve.metric("tito_fleet_kv_gaps_total", &[]).await;
    let partials = serve.metric("tito_fleet_kv_partials_total", &[]).await;

    spoil(&engine, "drop", 0).await;
    ask(&serve, &body(1)).await;
    ask(&serve, &body(2)).await;
    let broken = [
        ("fleet_kv_gaps_total", gaps + 1.0),
        ("fleet_kv_partials_total", partials + 1.0),
        ("fleet_kv_complete", 0.0),
        ("fleet_kv_blocks", 3.0),
    ];
    wait_values(&serve, &broken).await;
    wait_held(&serve, &body(2), &worker, 96).await;

    cleared_before(3).await;
    let whole = [
        ("fleet_kv_complete", 1.0),
        ("fleet_kv_blocks", 3.0),
        ("fleet_kv_gaps_total", gaps + 1.0),
        ("fleet_kv_partials_total", partials + 1.0),
    ];
    wait_values(&serve, &whole).await;
    wait_held(&serve, &body(3), &worker, 96).await;
}

#[tokio::test]
async fn what_was_expected_of_a_warm_engine_is_what_it_reports() {
    let engines = Engines::simulated(&[&[], &[]]).await;
    let serve = engines.served(&["--index-limit", "64MiB"]).await;
    let (_, told) = ask(&serve, &body(0)).await;
    wait_held(&serve, &body(0), &told.worker, 96).await;
    let (reply, told) = ask(&serve, &body(0)).await;
    assert_eq!((told.overlap, cached(&reply)), (96, 96));
    wait_values(
        &serve,
        &[
            ("router_prompt_tokens_total", 200.0),
            ("router_overlap_tokens_total", 96.0),
            ("router_predicted_cached_tokens_total", 96.0),
            ("router_reported_cached_tokens_total", 96.0),
            ("router_cache_reports_total", 2.0),
            ("router_token_only_requests_total", 0.0),
            ("fleet_kv_complete", 2.0),
            ("fleet_kv_gaps_total", 0.0),
            ("fleet_index_blocks", 3.0),
            ("fleet_index_memberships", 3.0),
            ("fleet_index_private_lanes", 0.0),
            ("fleet_index_evicted_blocks_total", 0.0),
            ("fleet_index_bytes_max", 67_108_864.0),
        ],
    )
    .await;
    let bytes = serve.metric("tito_fleet_index_bytes", &[]).await;
    assert!(bytes > 0.0 && bytes <= 67_108_864.0, "{bytes}");
}

#[tokio::test]
async fn an_engine_that_names_blocks_otherwise_has_a_lane_of_its_own() {
    let engines = Engines::simulated(&[&["--hash-seed", "1"], &["--hash-seed", "2"]]).await;
    let serve = engines.served(&[]).await;
    for (engine, lanes) in engines.mocks.iter().zip([0.0, 1.0]) {
        let worker = engine.grpc.to_string();
        let reply = serve.post(GENERATE, &body(0)).header("X-Tito-Worker", &worker).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        wait_held(&serve, &body(0), &worker, 96).await;
        let memberships = 3.0 + 3.0 * lanes;
        wait_values(
            &serve,
            &[
                ("fleet_index_private_lanes", lanes),
                ("fleet_index_blocks", 3.0),
                ("fleet_index_memberships", memberships),
            ],
        )
        .await;
    }
}
