//! Engines that are reached, lost, paused and chosen.

use serde_json::json;

use super::Sheet;
use crate::control::{controlled, pinned, slow};
use crate::harness::{Call, GENERATE, MockEngine, Relay, Serve, served, three_blocks};

pub(super) const FAMILIES: &[&str] = &[
    "fleet_worker_connections_total",
    "fleet_worker_losses_total",
    "fleet_worker_paused",
    "fleet_worker_ready",
    "router_choices_total",
    "router_dispatches_total",
    "router_no_worker_total",
    "router_sessions",
    "router_tickets",
    "router_waiting_requests",
];

fn of(engine: &str) -> String {
    format!("worker=\"{}\"", engine.trim_start_matches("vllm://"))
}

#[tokio::test]
async fn workers_and_what_is_sent_to_them_are_counted() {
    let mut sheet = Sheet::default();
    comings_and_goings(&mut sheet).await;
    choices(&mut sheet).await;
    lines(&mut sheet).await;
    pauses(&mut sheet).await;
    sheet.end(FAMILIES);
}

async fn comings_and_goings(sheet: &mut Sheet) {
    let mut engine = MockEngine::start(&[]).await;
    let relay = Relay::to(Some(engine.grpc)).await;
    let serve = Serve::ready(&[&relay.url()], &[]).await;
    let worker = of(&relay.url());
    for times in [1.0, 2.0] {
        sheet.hold(&serve, "fleet_worker_ready", &[&worker], 1.0).await;
        sheet.hold(&serve, "fleet_worker_connections_total", &[&worker], times).await;
        // There is no other to contact after it.
        engine.fault(&json!({ "kind": "error", "code": "UNAVAILABLE", "count": 1 })).await;
        assert_eq!(serve.generate("r", 4, false).send().await.status, 503);
        sheet.hold(&serve, "router_no_worker_total", &[], times).await;
        engine.process.kill().await;
        sheet.hold(&serve, "fleet_worker_ready", &[&worker], 0.0).await;
        sheet.hold(&serve, "fleet_worker_losses_total", &[&worker], times).await;
        engine = MockEngine::start(&[]).await;
        relay.lead_to(Some(engine.grpc));
        serve.wait_status("/ready", 200).await;
    }
}

async fn choices(sheet: &mut Sheet) {
    let (one, other) = (MockEngine::start(&[]).await, MockEngine::start(&[]).await);
    let serve = Serve::ready(&[&one.url(), &other.url()], &[]).await;
    serve.wait_metric("tito_fleet_worker_ready", &[], 2.0).await;
    let post = |number: u32| serve.post(GENERATE, &three_blocks(number));
    let send = async |call: Call| {
        let reply = call.send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    let rule = |rule: &str| format!("rule=\"{rule}\"");
    let first =
        |engine: &MockEngine| [of(&engine.url()), "contact=\"first\"".to_owned(), "rank=\"0\"".to_owned()];
    for times in [1.0, 2.0] {
        let pin = post(1).header("X-Tito-Worker", one.grpc.to_string());
        send(pin).await;
        sheet.hold(&serve, "router_choices_total", &[&rule("pin")], times).await;
        let labels = first(&one);
        let labels = labels.each_ref().map(String::as_str);
        sheet.hold(&serve, "router_dispatches_total", &labels, times).await;
    }
    sheet.hold(&serve, "router_sessions", &[], 0.0).await;
    for (session, sessions, by_session) in [("a", 1.0, 0.0), ("b", 2.0, 0.0), ("a", 2.0, 1.0)] {
        send(post(2).header("X-Session-ID", session)).await;
        sheet.hold(&serve, "router_sessions", &[], sessions).await;
        if by_session > 0.0 {
            sheet.hold(&serve, "router_choices_total", &[&rule("session")], by_session).await;
        }
    }
    sheet.hold(&serve, "router_choices_total", &[&rule("policy")], 2.0).await;

    one.pause().await;
    other.pause().await;
    let mut held = vec![post(3).begin()];
    sheet.hold(&serve, "router_tickets", &[], 1.0).await;
    held.push(post(3).begin());
    sheet.hold(&serve, "router_choices_total", &[&rule("siblings")], 1.0).await;
    sheet.hold(&serve, "router_tickets", &[], 2.0).await;
    sheet.hold(&serve, "router_choices_total", &[&rule("policy")], 3.0).await;
    one.resume().await;
    other.resume().await;
    for asked in held {
        assert_eq!(asked.reply().await.status, 200);
    }
    sheet.hold(&serve, "router_tickets", &[], 0.0).await;
    sheet.hold(&serve, "router_dispatches_total", &["contact=\"first\""], 7.0).await;

    // A session is sent where it was; that engine is not reached this time.
    let of_session = || post(4).header("X-Session-ID", "c").header("X-Tito-Explain", "1");
    let at = crate::exact::told(&of_session().send().await).worker;
    let (asked, spare) = if at == one.grpc.to_string() { (&one, &other) } else { (&other, &one) };
    asked.fault(&json!({ "kind": "error", "code": "UNAVAILABLE", "count": 1 })).await;
    send(of_session()).await;
    let second = [&of(&spare.url())[..], "contact=\"second\"", "rank=\"0\""];
    sheet.hold(&serve, "router_dispatches_total", &second, 1.0).await;
    sheet.hold(&serve, "router_dispatches_total", &["contact=\"first\""], 9.0).await;
    sheet.hold(&serve, "router_dispatches_total", &[], 10.0).await;
}

async fn lines(sheet: &mut Sheet) {
    let (engine, serve) = served(&[], &["--target-limit", "1"]).await;
    engine.pause().await;
    let runs = serve.generate("r", 4, true).begin();
    sheet.hold(&serve, "router_tickets", &[], 1.0).await;
    let waits = [true, false].map(|stream| serve.generate("r", 4, stream).begin());
    sheet.hold(&serve, "router_waiting_requests", &[], 2.0).await;
    engine.resume().await;
    for asked in [runs].into_iter().chain(waits) {
        assert_eq!(asked.reply().await.status, 200);
    }
    sheet.hold(&serve, "router_waiting_requests", &[], 0.0).await;
}

/// An order pauses the engine until its step is over.
async fn pauses(sheet: &mut Sheet) {
    let engine = slow("2s").await;
    let (serve, control) = controlled(&[&engine], &[]).await;
    sheet.hold(&serve, "fleet_worker_paused", &[], 0.0).await;
    let running = pinned(&serve, &engine, "runs", 2).begin();
    engine.wait_state("runs", "running").await;
    let order = Call::get(control, "/reset_prefix_cache?reset_running_requests=true").method("POST");
    let order = order.begin();
    sheet.hold(&serve, "fleet_worker_paused", &[], 1.0).await;
    assert_eq!(order.reply().await.status, 200);
    sheet.hold(&serve, "fleet_worker_paused", &[], 0.0).await;
    assert_eq!(running.reply().await.status, 200);
}
