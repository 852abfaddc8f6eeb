//! Keys that clients present, and TLS on both sides of the server.

mod reload;
mod tls;

use nix::sys::signal::Signal;
use rustls::SupportedProtocolVersion;
use serde_json::json;
use tito_test_support::tls::Authority;

use crate::harness::{
    Args, COMPLETIONS, Call, Env, GENERATE, MockEngine, Serve, Tls, assert_envelope, generate, run, wait_for,
};

/// A client that trusts these authorities and presents a certificate of that one.
pub(crate) fn client(
    trusted: &[&Authority],
    known_as: Option<&Authority>,
    versions: &[&'static SupportedProtocolVersion],
) -> Tls {
    tito_test_support::tls::client(trusted, known_as.map(|authority| &authority.client), &[], versions)
}

/// What a caller may do without a key, and with one.
const OPEN: [&str; 7] = ["/live", "/healthz", "/liveness", "/ready", "/readyz", "/readiness", "/health"];
const LOCKED: [&str; 7] =
    ["/v1/models", "/v1/models/m", "/metrics", "/openapi.json", "/version", "/workers", "/no/such/route"];

fn calls(serve: &Serve) -> Vec<Call> {
    let completion = json!({ "prompt": [1, 2], "max_tokens": 2 });
    let posts = [
        serve.post(GENERATE, &generate("r", 2, false)),
        serve.post(COMPLETIONS, &completion),
        serve.post("/debug/route", &generate("dry", 2, false)),
    ];
    LOCKED.iter().map(|path| serve.get(path)).chain(posts).collect()
}

/// What `/no/such/route` says to those who may ask is not what is tested here.
fn let_in(status: u16) -> bool {
    status == 200 || status == 404
}

async fn assert_locked(serve: &Serve, known: &[&str], unknown: &[&str]) {
    for path in OPEN {
        assert_eq!(serve.get(path).send().await.status, 200, "{path} needs no key");
    }
    for call in calls(serve) {
        let mut turned_away = vec![call.clone()];
        turned_away.extend(unknown.iter().map(|key| call.clone().bearer(key)));
        turned_away.extend(unknown.iter().map(|key| call.clone().header("x-api-key", key)));
        turned_away
            .extend(known.iter().map(|key| call.clone().header("authorization", format!("Basic {key}"))));
        turned_away.extend(known.iter().map(|key| call.clone().bearer(&format!("{key}x"))));
        for call in turned_away {
            let reply = call.send().await;
            let error = assert_envelope("no key", &reply);
            assert_eq!((reply.status, &error["code"]), (401, &json!("invalid_api_key")));
            assert!(reply.header("www-authenticate").is_some());
        }
        for key in known {
            for call in [call.clone().bearer(key), call.clone().header("x-api-key", key)] {
                let reply = call.send().await;
                assert!(let_in(reply.status), "{key}: {}", reply.text());
            }
        }
    }
}

#[tokio::test]
async fn keys_from_flags_the_environment_and_a_file_lock_every_route_but_health() {
    let engine = MockEngine::start(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    std::fs::write(&path, "# of two teams\n\nfile-one\nfile-two\n").unwrap();
    let file = ["--api-key-file", path.to_str().unwrap()];
    let cases: [(Args<'_>, Env<'_>, &[&str], &[&str]); 4] = [
        (&["--api-key", "one", "--api-key", "two"], &[], &["one", "two"], &["file-one"]),
        (&["--api-key", "one,two"], &[("TITO_API_KEY", "three")], &["one", "two"], &["three", "one,two"]),
        (&[], &[("TITO_API_KEY", "three,four")], &["three", "four"], &["three,four"]),
        (&[&file[..], &["--api-key", "one"]].concat(), &[], &["one", "file-two"], &["# of two teams"]),
    ];
    for (args, env, known, unknown) in cases {
        let serve = Serve::start_with(&[&engine.url()], args, env).await;
        serve.wait_status("/ready", 200).await;
        engine.forget().await;
        assert_locked(&serve, known, unknown).await;
        let served = known.len() * 2 * 2;
        assert_eq!(engine.journal().await.len(), served, "only those with a key reach the engine");
        let log = serve.process.log();
        assert!(known.iter().chain(unknown).all(|key| !log.contains(&format!("{key}\""))), "{log}");
    }
}

#[tokio::test]
async fn a_changed_key_file_is_taken_over_on_a_signal() {
    let engine = MockEngine::start(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    std::fs::write(&path, "old\n").unwrap();
    let serve = Serve::ready(&[&engine.url()], &["--api-key-file", path.to_str().unwrap()]).await;
    let status = async |key: &str| serve.get("/v1/models").bearer(key).send().await.status;
    assert_eq!((status("old").await, status("new").await), (200, 401));

    std::fs::write(&path, "new\n").unwrap();
    assert_eq!(status("new").await, 401, "nothing changes before the signal");
    serve.process.signal(Signal::SIGHUP);
    wait_for("the new key", async || (status("new").await == 200).then_some(())).await;
    assert_eq!(status("old").await, 401);

    for (failures, bad) in (1..).zip(["", "# nothing\n", "new\nno key\u{e9}\n"]) {
        std::fs::write(&path, bad).unwrap();
        serve.process.signal(Signal::SIGHUP);
        let failed = format!("tito_frontend_key_reloads_total{{result=\"failed\"}} {failures}");
        wait_for("a reload that fails", async || {
            let metrics = serve.get("/metrics").bearer("new").send().await;
            metrics.text().contains(&failed).then_some(())
        })
        .await;
        assert_eq!((status("new").await, status("old").await), (200, 401), "the old list stays");
    }
}

#[tokio::test]
async fn metrics_may_be_opened() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &["--api-key", "k", "--metrics-without-key"]).await;
    assert_eq!(serve.get("/metrics").send().await.status, 200);
    assert_eq!(serve.get("/v1/models").send().await.status, 401);
}

#[tokio::test]
async fn a_server_that_was_to_be_locked_never_starts_open() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let missing = folder.path().join("missing");
    let cases = [
        ["--api-key", ""],
        ["--api-key", "a key"],
        ["--api-key-file", missing.to_str().unwrap()],
        ["--api-key-file", &file("empty", "")],
        ["--api-key-file", &file("comments", "# none\n")],
    ];
    for case in cases {
        let args = [&["serve", "--port", "0", "--engine", "vllm://127.0.0.1:1"], &case[..]].concat();
        let ran = run(&args, &[]).await;
        assert!(ran.code.is_some_and(|code| code != 0), "{case:?}: {ran:?}");
        assert!(!ran.stdout.contains("listens"), "{case:?}: {ran:?}");
        assert!(ran.stderr.starts_with("tito: ") && !ran.stderr.contains("panicked"), "{case:?}: {ran:?}");
    }
}
