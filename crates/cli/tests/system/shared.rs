//! Engines that are shared with somebody else: what others send to them is seen, and reckoned with.

use serde_json::{Value, json};

use crate::harness::{GENERATE, MockEngine, Serve, run, wait_for};

/// Tokens of each prompt.
const PROMPT: u32 = 1000;
/// Requests that the other server has on one engine.
const FOREIGN: u64 = 4;

/// A prompt that shares nothing with that of another number.
fn body(number: u32, max_tokens: u32) -> Value {
    let token_ids: Vec<u32> = (0..PROMPT).map(|token| number + token % 7).collect();
    json!({ "token_ids": token_ids, "sampling_params": { "max_tokens": max_tokens, "ignore_eos": true } })
}

fn address(engine: &MockEngine) -> String {
    engine.grpc.to_string()
}

/// Requests and tokens of others on an engine, as a server sees them.
async fn others(serve: &Serve, engine: &MockEngine) -> Option<(u64, u64)> {
    let load = &serve.worker(&address(engine)).await["targets"][0]["load"];
    load["other_requests"].as_u64().zip(load["other_tokens"].as_u64())
}

/// Where a prompt that nobody holds would go.
async fn would_go(serve: &Serve) -> Value {
    let reply = serve.post("/debug/route", &body(900, 1)).send().await;
    reply.json()["routes"][0]["chosen"]["worker"].clone()
}

async fn table(serve: &Serve) -> String {
    run(&["workers", "--url", &format!("http://{}", serve.address)], &[]).await.stdout
}

#[tokio::test]
async fn what_another_server_has_sent_to_an_engine_is_seen_and_sends_cold_prompts_elsewhere() {
    let slow = ["--speed", "1", "--step-time", "50ms", "--max-model-len", "8192"];
    let (one, other) = (MockEngine::start(&slow).await, MockEngine::start(&slow).await);
    let (first, second) = if address(&one) < address(&other) { (one, other) } else { (other, one) };
    let stated = |engine: &MockEngine| format!("{}?metrics=http://{}", engine.url(), engine.http);
    let blind = Serve::ready(&[&first.url(), &second.url()], &[]).await;
    let serve = Serve::ready(&[&stated(&first), &stated(&second)], &[]).await;
    wait_for("word of both engines", async || {
        (others(&serve, &first).await.is_some() && others(&serve, &second).await.is_some()).then_some(())
    })
    .await;
    assert_eq!(would_go(&serve).await, json!(address(&first)), "equal engines in the order of their names");
    assert_eq!(others(&blind, &first).await, None);

    let call =
        |number| blind.post(GENERATE, &body(100 * number, 4000)).header("x-tito-worker", address(&first));
    let foreign: Vec<_> = (1..=FOREIGN as u32).map(|number| call(number).begin()).collect();
    let tokens = wait_for("the other server's requests", async || {
        let (requests, tokens) = others(&serve, &first).await?;
        (requests == FOREIGN && tokens >= FOREIGN * u64::from(PROMPT)).then_some(tokens)
    })
    .await;
    assert!(tokens < FOREIGN * 8192, "{tokens}");
    assert_eq!(others(&serve, &second).await, Some((0, 0)));
    assert_eq!(others(&blind, &first).await, None, "nobody tells this one");

    assert_eq!(would_go(&serve).await, json!(address(&second)));
    for number in 5..8 {
        let reply = serve.post(GENERATE, &body(100 * number, 1)).header("x-tito-explain", "1").send().await;
        let route = reply.header("x-tito-route").unwrap().to_owned();
        assert!(route.contains(&address(&second)), "{route}, by name it were {}", address(&first));
    }
    let shown = table(&serve).await;
    assert!(shown.contains("  OTHERS  ") && shown.contains(&format!(" {FOREIGN}/")), "{shown}");
    assert!(!table(&blind).await.contains("OTHERS"));

    drop(foreign);
    wait_for("the end of the other server's requests", async || {
        (others(&serve, &first).await == Some((0, 0))).then_some(())
    })
    .await;
    assert_eq!(would_go(&serve).await, json!(address(&first)));
}
