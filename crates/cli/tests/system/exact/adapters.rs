//! Adapters: names that can be asked for while they are loaded, each with a prefix cache of its own.

use serde_json::{Value, json};

use super::{Engines, Told, ask, cached, told, wait_held};
use crate::harness::{GENERATE, Serve, three_blocks, wait_for};

/// Three full blocks and a bit, for the model or for an adapter.
fn body(model: Option<&str>) -> Value {
    let mut body = three_blocks(0);
    body["model"] = json!(model);
    body
}

/// Asks on that worker: the tokens that were found there, and those that the engine took from its cache.
async fn ask_on(serve: &Serve, body: &Value, worker: &str) -> (u64, u64) {
    let pinned = serve.post(GENERATE, body).header("X-Tito-Worker", worker);
    let reply = pinned.header("X-Tito-Explain", "1").send().await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    (told(&reply).overlap, cached(&reply))
}

/// Waits until this can be asked for: name, parent and root.
async fn wait_names(serve: &Serve, expected: Value) {
    wait_for(&format!("models {expected}"), async || {
        let list = serve.get("/v1/models").send().await.json();
        let entry = |entry: &Value| ["id", "parent", "root"].map(|key| entry[key].clone());
        let names: Vec<_> = list["data"].as_array().unwrap().iter().map(entry).collect();
        (json!(names) == expected).then_some(())
    })
    .await;
}

/// Waits until that worker is known to have loaded an adapter from there.
async fn wait_source(serve: &Serve, worker: &str, source: &str) {
    wait_for(&format!("{source} on {worker}"), async || {
        let adapters = serve.worker(worker).await["engine"]["adapters"].clone();
        adapters.as_array().unwrap().iter().any(|adapter| adapter["source"] == source).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_adapter_shares_nothing_with_its_model_and_starts_cold_when_it_is_loaded_again() {
    let module: &[&str] = &["--lora-modules", "k=org/one"];
    let engines = Engines::simulated(&[module, module]).await;
    let serve = engines.served(&[]).await;
    let (model, adapter) = (body(None), body(Some("k")));
    let mut homes = Vec::new();
    for body in [&model, &adapter] {
        let (reply, Told { worker, overlap, .. }) = ask(&serve, body).await;
        assert_eq!((overlap, cached(&reply)), (0, 0), "{body}");
        wait_held(&serve, body, &worker, 96).await;
        homes.push(worker);
    }
    for (body, home) in [&model, &adapter].into_iter().zip(&homes) {
        let (reply, told) = ask(&serve, body).await;
        assert_eq!((&told.worker, told.overlap, cached(&reply)), (home, 96, 96), "{body}");
    }

    // Used at once: the engine's events tell of the load before the list does.
    let home = homes[1].clone();
    let engine = engines.mock(&home);
    engine.unload_adapter("k").await;
    engine.load_adapter("k", "org/two").await;
    let (_, from_cache) = ask_on(&serve, &adapter, &home).await;
    assert_eq!(from_cache, 0, "other weights have other blocks");
    wait_held(&serve, &adapter, &home, 96).await;
    wait_source(&serve, &home, "org/two").await;
    assert_eq!(ask_on(&serve, &adapter, &home).await, (96, 96), "what the new weights stored is known");

    // Not used: the list tells of it.
    engine.unload_adapter("k").await;
    engine.load_adapter("k", "org/three").await;
    wait_source(&serve, &home, "org/three").await;
    assert_eq!(ask_on(&serve, &adapter, &home).await, (0, 0), "nothing of the old weights is believed");
    assert_eq!(ask_on(&serve, &model, &homes[0]).await, (96, 96), "the model is as warm as before");
}

#[tokio::test]
async fn an_adapter_is_a_model_where_and_while_it_is_loaded() {
    let engines = Engines::simulated(&[&["--enable-lora"], &["--enable-lora"], &[]]).await;
    let serve = engines.served(&[]).await;
    let base = json!(["vl", null, "vl"]);
    wait_names(&serve, json!([base])).await;
    let unknown = async || {
        let reply = serve.post(GENERATE, &body(Some("k"))).send().await;
        assert_eq!((reply.status, reply.error_code().as_deref()), (404, Some("model_not_found")));
    };
    unknown().await;
    let home = engines.urls[1].replace("vllm://", "");
    engines.mock(&home).load_adapter("k", "org/one").await;
    wait_names(&serve, json!([base, ["k", "vl", "org/one"]])).await;
    for _ in 0..3 {
        let (_, told) = ask(&serve, &body(Some("k"))).await;
        assert_eq!(told.worker, home, "only that engine has it");
    }
    let journal = engines.mock(&home).journal().await;
    let sent = journal.last().unwrap().message();
    assert_eq!((&sent["lora_name"], sent["model"].as_str().unwrap_or_default()), (&json!("k"), ""));
    ask(&serve, &body(None)).await;
    engines.mock(&home).unload_adapter("k").await;
    wait_names(&serve, json!([base])).await;
    unknown().await;
}
