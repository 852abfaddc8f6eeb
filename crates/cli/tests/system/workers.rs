//! `tito workers`, `/workers`, and where a request goes: what an operator sees of a running server.

use serde_json::{Value, json};

use crate::harness::{MockEngine, Ran, Serve, generate, run};

async fn workers(serve: &Serve, args: &[&str]) -> Ran {
    let url = format!("http://{}", serve.address);
    run(&[&["workers", "--url", &url], args].concat(), &[]).await
}

#[tokio::test]
async fn the_command_shows_every_worker_and_why_one_is_not_ready() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url(), "vllm://127.0.0.1:1"], &[]).await;
    serve.wait_note("127.0.0.1:1").await;
    let ran = workers(&serve, &[]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let address = engine.url().replace("vllm://", "");
    let cells = |mark: &str| -> Vec<&str> {
        lines
            .iter()
            .find(|line| line.starts_with(mark))
            .map_or(Vec::new(), |line| line.split_whitespace().collect())
    };
    assert_eq!(cells("WORKER").len(), 10, "{}", ran.stdout);
    assert_eq!(cells(&format!("{address} "))[1..5], ["0", "ready", "m", "0"], "{}", ran.stdout);
    assert_eq!(cells("127.0.0.1:1 ")[1..4], ["-", "unreachable", "-"], "{}", ran.stdout);
    assert!(ran.stdout.contains("\n127.0.0.1:1 is unreachable: "), "{}", ran.stdout);
    assert!(!ran.stdout.contains('\u{1b}'), "no colours: {}", ran.stdout);

    let ran = workers(&serve, &["--json"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(told, serve.get("/workers").send().await.json());
    let ready = told["workers"].as_array().unwrap().iter().find(|worker| worker["id"] == address.as_str());
    let ready = ready.unwrap_or_else(|| panic!("{told}"));
    assert_eq!(ready["engine"]["models"], json!(["m"]));
    assert_eq!(ready["targets"][0]["rank"], json!(0));
    assert!(ready["targets"][0]["capacity_tokens"].as_u64().unwrap() > 0, "{told}");
}

#[tokio::test]
async fn the_command_says_what_to_do_when_it_cannot_ask() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &["--api-key", "right"]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong) = (file("right", "# mine\nright\n"), file("wrong", "wrong\n"));
    let ran = workers(&serve, &["--key-file", &right]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let url = format!("http://{}", serve.address);
    let ran = run(&["workers"], &[("TITO_URL", &url), ("TITO_KEY_FILE", &right)]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");

    let base = format!("{url}/base");
    let mock = format!("http://{}", engine.http);
    let missing = folder.path().join("missing");
    for (args, code, words) in [
        (&["--url", &url][..], 1, "wants a key: name a file that holds one with --key-file"),
        (&["--url", &url, "--key-file", &wrong], 1, "does not know the key in --key-file"),
        (&["--url", &base, "--key-file", &right], 1, "has no /base/workers"),
        (&["--url", &mock], 1, "has no /workers: is it tito serve"),
        (
            &["--url", "http://127.0.0.1:1"],
            1,
            "--url names another: connect to 127.0.0.1:1: Connection refused",
        ),
        (&["--url", "https://127.0.0.1:1"], 2, "speaks plain HTTP"),
        (&["--url", &url, "--key-file", missing.to_str().unwrap()], 2, "missing: No such file"),
    ] {
        let ran = run(&[&["workers"], args].concat(), &[]).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with("tito: ") && ran.stderr.contains(words), "{args:?}: {ran:?}");
    }
}

#[tokio::test]
async fn a_dry_run_names_the_worker_and_sends_nothing() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    engine.forget().await;
    let reply = serve.post("/debug/route", &generate("dry", 4, false)).send().await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let routes = reply.json()["routes"].clone();
    let address = engine.url().replace("vllm://", "");
    assert_eq!(routes.as_array().unwrap().len(), 1);
    assert_eq!(routes[0]["prompt_tokens"], json!(3), "{routes}");
    assert_eq!(routes[0]["chosen"]["worker"], json!(address), "{routes}");
    assert_eq!(routes[0]["candidates"][0]["worker"], json!(address), "{routes}");
    let refused = serve.post("/debug/route", &json!({ "token_ids": [] })).send().await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(engine.journal().await.is_empty(), "nothing was sent");
}
