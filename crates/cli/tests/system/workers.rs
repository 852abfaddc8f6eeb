//! `tito workers`, `/workers`, and where a request goes: what an operator sees of a running server.

use serde_json::{Value, json};

use crate::harness::{Files, MockEngine, Ran, Serve, run, served};

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
        let line = lines.iter().find(|line| line.starts_with(mark));
        line.unwrap_or(&"").split_whitespace().collect()
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
    let ready = serve.worker(&address).await;
    assert_eq!((&ready["engine"]["models"], &ready["targets"][0]["rank"]), (&json!(["m"]), &json!(0)));
    assert!(ready["targets"][0]["capacity_tokens"].as_u64().unwrap() > 0, "{told}");
}

#[tokio::test]
async fn the_command_says_what_to_do_when_it_cannot_ask() {
    let (engine, serve) = served(&[], &["--api-key", "right"]).await;
    let files = Files::new();
    let (right, wrong) = (files.write("right", "# mine\nright\n"), files.write("wrong", "wrong\n"));
    let ran = workers(&serve, &["--key-file", &right]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let url = format!("http://{}", serve.address);
    let ran = run(&["workers"], &[("TITO_URL", &url), ("TITO_KEY_FILE", &right)]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");

    let base = format!("{url}/base");
    let mock = format!("http://{}", engine.http);
    let missing = files.path("missing");
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
