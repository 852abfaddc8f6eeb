//! Engines of different models behind one address.

use serde_json::{Value, json};

use crate::harness::{COMPLETIONS, GENERATE, MockEngine, Reply, Serve, assert_envelope, generate};

async fn ask(serve: &Serve, id: &str, model: &Value) -> Reply {
    let mut body = generate(id, 4, false);
    body["model"] = model.clone();
    serve.post(GENERATE, &body).send().await
}

async fn listed(serve: &Serve) -> Vec<(String, u64)> {
    let body = serve.get("/v1/models").send().await.json();
    let entry =
        |entry: &Value| (entry["id"].as_str().unwrap().to_owned(), entry["max_model_len"].as_u64().unwrap());
    body["data"].as_array().unwrap().iter().map(entry).collect()
}

#[tokio::test]
async fn each_name_leads_to_the_engine_that_serves_it() {
    let small = MockEngine::of_model("org/small", &["--max-model-len", "128"]).await;
    let names = ["--served-model-name", "large", "large-alias", "--max-model-len", "512"];
    let mut large = MockEngine::of_model("org/large", &names).await;
    let serve = Serve::ready(&[&small.url(), &large.url()], &[]).await;
    serve.wait_metric("tito_fleet_worker_ready", &[], 2.0).await;

    let mut models = listed(&serve).await;
    models.sort();
    let expected = [("large", 512), ("large-alias", 512), ("org/small", 128)];
    assert_eq!(models, expected.map(|(name, context)| (name.to_owned(), context)));
    for (id, status) in [
        ("org/small", 200),
        ("org%2Fsmall", 200),
        ("large", 200),
        ("large-alias", 200),
        ("org/large", 404),
        ("org", 404),
    ] {
        assert_eq!(serve.get(&format!("/v1/models/{id}")).send().await.status, status, "{id}");
    }

    for (id, model, engine) in
        [("s", "org/small", &small), ("l", "large", &large), ("a", "large-alias", &large)]
    {
        let reply = ask(&serve, id, &json!(model)).await;
        assert_eq!((reply.status, &reply.json()["model"]), (200, &json!(model)), "{}", reply.text());
        let entries = engine.entries(id).await;
        assert_eq!(entries.len(), 1, "{model}");
        assert_eq!(entries[0].message()["model"], model);
    }
    for (path, body) in
        [(GENERATE, generate("none", 4, false)), (COMPLETIONS, json!({ "prompt": [1, 2], "stream": true }))]
    {
        let reply = serve.post(path, &body).send().await;
        let error = assert_envelope("no model named", &reply);
        assert_eq!((reply.status, &error["param"]), (400, &json!("model")));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("org/small") && message.contains("large"), "{message}");
    }
    let reply = ask(&serve, "none", &json!("org/large")).await;
    assert_eq!((reply.status, reply.error_code().as_deref()), (404, Some("model_not_found")));

    large.process.kill().await;
    serve.wait_metric("tito_fleet_worker_ready", &[], 1.0).await;
    assert_eq!(listed(&serve).await, [("org/small".to_owned(), 128)]);
    assert_eq!(serve.get("/ready").send().await.status, 200);
    let reply = ask(&serve, "gone", &json!("large")).await;
    assert_eq!((reply.status, reply.error_code().as_deref()), (503, Some("model_unavailable")));
    assert_eq!(ask(&serve, "s2", &json!("org/small")).await.status, 200);
}
