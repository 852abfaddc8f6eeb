//! What requests leave behind: counts, sizes, tokens, times and connections.

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::Sheet;
use crate::harness::{COMPLETIONS, Call, GENERATE, Serve, generate, served};

pub(super) const FAMILIES: &[&str] = &[
    "frontend_body_bytes_total",
    "frontend_cached_tokens_total",
    "frontend_connections_accepted_total",
    "frontend_connections_open",
    "frontend_disconnects_total",
    "frontend_inter_token_seconds",
    "frontend_output_tokens_total",
    "frontend_prompt_tokens_total",
    "frontend_request_duration_seconds",
    "frontend_requests_in_flight",
    "frontend_requests_total",
    "frontend_time_to_first_token_seconds",
];

/// Tokens of a prompt of three blocks and a bit.
const LONG: u32 = 100;

fn completion(stream: bool) -> Value {
    let prompt: Vec<u32> = (1..=LONG).collect();
    json!({ "prompt": prompt, "max_tokens": 5, "temperature": 0, "stream": stream })
}

#[tokio::test]
async fn requests_tokens_bytes_and_times_are_counted_by_route() {
    let (engine, serve) = served(&[], &[]).await;
    let mut sheet = Sheet::default();
    let (mut received, mut sent) = (0, 0);
    for stream in [false, true, true] {
        let body = generate("r", 4, stream);
        let reply = serve.post(GENERATE, &body).send().await;
        assert_eq!((reply.status, reply.tokens().len()), (200, 4));
        received += body.to_string().len();
        sent += reply.body.len();
    }
    assert_eq!(serve.post(GENERATE, &json!({})).body("{").send().await.status, 400);
    for stream in [false, true, false] {
        assert_eq!(serve.post(COMPLETIONS, &completion(stream)).send().await.status, 200);
    }
    let by = |route: &str| format!("route=\"{route}\"");
    for (route, code, count) in
        [("generate", "ok", 3.0), ("generate", "bad_json", 1.0), ("completions", "ok", 3.0)]
    {
        let code = format!("code=\"{code}\"");
        sheet.hold(&serve, "frontend_requests_total", &[&by(route), &code], count).await;
    }
    for (family, generate, completions) in [
        ("prompt_tokens_total", 9.0, 300.0),
        ("output_tokens_total", 12.0, 15.0),
        ("cached_tokens_total", 0.0, 192.0),
        ("request_duration_seconds_count", 4.0, 3.0),
        ("time_to_first_token_seconds_count", 2.0, 1.0),
        ("inter_token_seconds_count", 6.0, 4.0),
        ("requests_in_flight", 0.0, 0.0),
    ] {
        let family = format!("frontend_{family}");
        sheet.hold(&serve, &family, &[&by("generate")], generate).await;
        sheet.hold(&serve, &family, &[&by("completions")], completions).await;
    }
    let bytes = "frontend_body_bytes_total";
    let received = (received + 1) as f64;
    sheet.hold(&serve, bytes, &[&by("generate"), "direction=\"received\""], received).await;
    sheet.hold(&serve, bytes, &[&by("generate"), "direction=\"sent\""], sent as f64).await;

    engine.pause().await;
    let waiting = [false, true, true].map(|stream| serve.generate("r", 4, stream).begin());
    sheet.hold(&serve, "frontend_requests_in_flight", &[&by("generate")], 3.0).await;
    let [unary, stream, other] = waiting;
    engine.wait_count("r", "queued", 3).await;
    drop((unary, stream));
    for delivery in ["unary", "stream"] {
        let delivery = format!("delivery=\"{delivery}\"");
        sheet.hold(&serve, "frontend_disconnects_total", &[&delivery], 1.0).await;
    }
    sheet.hold(&serve, "frontend_requests_in_flight", &[&by("generate")], 1.0).await;
    let gone = [&by("generate")[..], "status=\"4xx\"", "code=\"client_gone\""];
    sheet.hold(&serve, "frontend_requests_total", &gone, 2.0).await;
    engine.resume().await;
    assert_eq!(other.reply().await.status, 200);
    sheet.hold(&serve, "frontend_requests_in_flight", &[&by("generate")], 0.0).await;

    other_routes(&serve, &mut sheet).await;
    connections(&serve, &mut sheet).await;
    sheet.end(FAMILIES);
}

/// Routes that ask for no tokens.
async fn other_routes(serve: &Serve, sheet: &mut Sheet) {
    let dry = serve.post("/debug/route", &generate("dry", 1, false));
    for (call, route, status, code) in [
        (serve.get("/v1/models"), "models", "2xx", "ok"),
        (serve.get("/v1/models/m"), "model", "2xx", "ok"),
        (serve.get("/v1/models/x"), "model", "4xx", "model_not_found"),
        (serve.get("/live"), "live", "2xx", "ok"),
        (serve.get("/openapi.json"), "openapi", "2xx", "ok"),
        (serve.get("/version"), "version", "2xx", "ok"),
        (serve.get("/workers"), "workers", "2xx", "ok"),
        (serve.get("/nowhere"), "unknown", "4xx", "route_not_found"),
        (serve.get(GENERATE), "generate", "4xx", "method_not_allowed"),
        (dry, "debug_route", "2xx", "ok"),
    ] {
        let labels =
            [format!("route=\"{route}\""), format!("status=\"{status}\""), format!("code=\"{code}\"")];
        let labels = labels.each_ref().map(String::as_str);
        for count in [1.0, 2.0] {
            call.send().await;
            sheet.hold(serve, "frontend_requests_total", &labels, count).await;
        }
    }
}

/// Each call has a connection of its own, and so has each look at the metrics.
async fn connections(serve: &Serve, sheet: &mut Sheet) {
    const ACCEPTED: &str = "frontend_connections_accepted_total";
    const OPEN: &str = "frontend_connections_open";
    sheet.hold(serve, OPEN, &[], 1.0).await;
    let before = serve.metric(&format!("tito_{ACCEPTED}"), &[]).await;
    for _ in 0..3 {
        Call::get(serve.address, "/live").send().await;
    }
    let held =
        [TcpStream::connect(serve.address).await.unwrap(), TcpStream::connect(serve.address).await.unwrap()];
    // The one that looks counts itself.
    let after = serve.metric(&format!("tito_{ACCEPTED}"), &[]).await;
    assert_eq!(after.to_bits(), (before + 6.0).to_bits());
    sheet.count(ACCEPTED, after);
    sheet.hold(serve, OPEN, &[], 3.0).await;
    drop(held);
    sheet.hold(serve, OPEN, &[], 1.0).await;
}
