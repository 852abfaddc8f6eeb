//! Block tables, the index, and what engines report of their caches.

use serde_json::{Value, json};

use super::Sheet;
use crate::exact::{Engines, ask, cached, wait_held};
use crate::harness::{Call, GENERATE, MockEngine, Serve, three_blocks};

pub(super) const FAMILIES: &[&str] = &[
    "fleet_index_blocks",
    "fleet_index_bytes_max",
    "fleet_index_memberships",
    "fleet_index_private_lanes",
    "fleet_kv_batches_total",
    "fleet_kv_blocks",
    "fleet_kv_complete",
    "fleet_kv_duplicates_total",
    "fleet_kv_gaps_total",
    "fleet_kv_partials_total",
    "fleet_kv_replays_total",
    "fleet_kv_unreadable_total",
    "router_cache_reports_total",
    "router_overlap_tokens_total",
    "router_predicted_cached_tokens_total",
    "router_prompt_tokens_total",
    "router_reported_cached_tokens_total",
    "router_token_only_requests_total",
];

fn rank(worker: &str) -> [String; 2] {
    [format!("worker=\"{worker}\""), "rank=\"0\"".to_owned()]
}

#[tokio::test]
async fn blocks_events_and_cached_tokens_are_counted() {
    let mut sheet = Sheet::default();
    hits(&mut sheet).await;
    feeds(&mut sheet).await;
    losses(&mut sheet).await;
    names(&mut sheet).await;
    media(&mut sheet).await;
    sheet.end(FAMILIES);
}

/// A prompt that is sent three times.
async fn hits(sheet: &mut Sheet) {
    let engines = Engines::simulated(&[&[]]).await;
    let serve = engines.served(&["--index-limit", "64MiB"]).await;
    let worker = engines.mocks[0].grpc.to_string();
    let of = format!("worker=\"{worker}\"");
    sheet.hold(&serve, "fleet_index_bytes_max", &[], f64::from(64 << 20)).await;
    for (times, cached_tokens) in [(1.0, 0.0), (2.0, 96.0), (3.0, 192.0)] {
        let (reply, told) = ask(&serve, &three_blocks(0)).await;
        assert_eq!(cached(&reply), told.overlap);
        wait_held(&serve, &three_blocks(0), &worker, 96).await;
        sheet.hold(&serve, "router_prompt_tokens_total", &[], 100.0 * times).await;
        sheet.hold(&serve, "router_overlap_tokens_total", &[], cached_tokens).await;
        sheet.hold(&serve, "router_predicted_cached_tokens_total", &[&of], cached_tokens).await;
        sheet.hold(&serve, "router_reported_cached_tokens_total", &[&of], cached_tokens).await;
        sheet.hold(&serve, "router_cache_reports_total", &["result=\"equal\""], times).await;
    }
    let [of, zero] = rank(&worker);
    for (tier, blocks) in [("gpu", 3.0), ("cpu", 0.0), ("storage", 0.0)] {
        let tier = format!("tier=\"{tier}\"");
        sheet.hold(&serve, "fleet_kv_blocks", &[&of, &zero, &tier], blocks).await;
    }
    sheet.hold(&serve, "fleet_index_blocks", &[], 3.0).await;
    sheet.hold(&serve, "fleet_index_memberships", &[], 3.0).await;
}

/// One batch that is lost, one that comes twice, one that cannot be read.
async fn feeds(sheet: &mut Sheet) {
    for (frame, gaps, replays, duplicates, unreadable) in [
        ("drop", 1.0, 2.0, Some(1.0), 0.0),
        ("duplicate", 0.0, 1.0, Some(1.0), 0.0),
        ("corrupt", 0.0, 2.0, None, 1.0),
    ] {
        let engines = Engines::simulated(&[&[]]).await;
        let serve = engines.served(&[]).await;
        let [of, zero] = rank(&engines.mocks[0].grpc.to_string());
        let labels = [&of[..], &zero];
        let fault = json!({ "kind": "kv_frame", "frame": frame, "at_seq": 1, "count": 1 });
        engines.mocks[0].fault(&fault).await;
        for number in 0..3 {
            ask(&serve, &three_blocks(number)).await;
        }
        sheet.hold(&serve, "fleet_kv_batches_total", &labels, 3.0).await;
        sheet.hold(&serve, "fleet_kv_gaps_total", &labels, gaps).await;
        sheet.hold(&serve, "fleet_kv_replays_total", &labels, replays).await;
        sheet.hold(&serve, "fleet_kv_unreadable_total", &labels, unreadable).await;
        sheet.hold(&serve, "fleet_kv_complete", &labels, 1.0).await;
        // How often one comes again that could not be read depends on how soon the replay is answered.
        if let Some(duplicates) = duplicates {
            sheet.hold(&serve, "fleet_kv_duplicates_total", &labels, duplicates).await;
        }
    }
}

/// A batch that is lost for good.
async fn losses(sheet: &mut Sheet) {
    let engines = Engines::simulated(&[&[]]).await;
    let serve = engines.served(&[]).await;
    let engine = &engines.mocks[0];
    sheet.hold(&serve, "fleet_kv_partials_total", &[], 0.0).await;
    engine.fault(&json!({ "kind": "kv_replay_silent" })).await;
    engine.fault(&json!({ "kind": "kv_frame", "frame": "drop", "at_seq": 0, "count": 1 })).await;
    ask(&serve, &three_blocks(0)).await;
    ask(&serve, &three_blocks(1)).await;
    sheet.hold(&serve, "fleet_kv_partials_total", &[], 1.0).await;
    sheet.hold(&serve, "fleet_kv_complete", &[], 0.0).await;
    // The clear is told of with the next block, and from there on everything is known.
    assert_eq!(Call::get(engine.http, "/reset_prefix_cache").method("POST").send().await.status, 200);
    ask(&serve, &three_blocks(2)).await;
    sheet.hold(&serve, "fleet_kv_complete", &[], 1.0).await;
    sheet.hold(&serve, "fleet_kv_blocks", &["tier=\"gpu\""], 3.0).await;
}

/// Engines without a common hash seed.
async fn names(sheet: &mut Sheet) {
    let engines = Engines::simulated(&[&["--hash-seed", "1"], &["--hash-seed", "2"]]).await;
    let serve = engines.served(&[]).await;
    for (engine, lanes) in engines.mocks.iter().zip([0.0, 1.0]) {
        pin(&serve, engine, &three_blocks(0)).await;
        sheet.hold(&serve, "fleet_index_private_lanes", &[], lanes).await;
        sheet.hold(&serve, "fleet_index_blocks", &[], 3.0).await;
        sheet.hold(&serve, "fleet_index_memberships", &[], 3.0 + 3.0 * lanes).await;
    }
}

async fn pin(serve: &Serve, engine: &MockEngine, body: &Value) {
    let worker = engine.grpc.to_string();
    let reply = serve.post(GENERATE, body).header("X-Tito-Worker", &worker).send().await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    wait_held(serve, body, &worker, 96).await;
}

/// An image that only its engine expands.
async fn media(sheet: &mut Sheet) {
    let engines = Engines::simulated(&[&["--multimodal"]]).await;
    let serve = engines.served(&[]).await;
    let mut with_image = three_blocks(0);
    with_image["token_ids"][50] = json!(crate::exact::IMAGE_PAD);
    with_image["content_parts"] =
        json!([{ "type": "image_url", "url": "data:image/png;base64,iVBORw0KGgox" }]);
    ask(&serve, &three_blocks(1)).await;
    sheet.hold(&serve, "router_token_only_requests_total", &[], 0.0).await;
    for times in [1.0, 2.0] {
        ask(&serve, &with_image).await;
        sheet.hold(&serve, "router_token_only_requests_total", &[], times).await;
    }
}
