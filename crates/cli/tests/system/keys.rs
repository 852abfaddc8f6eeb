//! Keys that clients present, and TLS on both sides of the server.
//!
//! Which routes need a key, and what a key or a TLS file may be, is tested in `tito-frontend`.

mod reload;
mod tls;

use rustls::SupportedProtocolVersion;
use serde_json::json;
use tito_test_support::tls::Authority;

use crate::harness::{Args, Env, Files, MockEngine, Serve, Tls, assert_envelope};

/// A client that trusts these authorities and presents a certificate of that one.
pub(crate) fn client(
    trusted: &[&Authority],
    known_as: Option<&Authority>,
    versions: &[&'static SupportedProtocolVersion],
) -> Tls {
    tito_test_support::tls::client(trusted, known_as.map(|authority| &authority.client), &[], versions)
}

#[tokio::test]
async fn keys_from_flags_the_environment_and_a_file_lock_every_route_but_health() {
    let (engine, files) = (MockEngine::start(&[]).await, Files::new());
    let path = files.write("keys", "# of two teams\n\nfile-one\nfile-two\n");
    let cases: [(Args<'_>, Env<'_>, &[&str], &[&str]); 4] = [
        (&["--api-key", "one", "--api-key", "two"], &[], &["one", "two"], &["file-one"]),
        (&["--api-key", "one,two"], &[("TITO_API_KEY", "three")], &["one", "two"], &["three", "one,two"]),
        (&[], &[("TITO_API_KEY", "three,four")], &["three", "four"], &["three,four"]),
        (&["--api-key-file", &path, "--api-key", "one"], &[], &["one", "file-two"], &["# of two teams"]),
    ];
    for (args, env, known, unknown) in cases {
        let serve = Serve::start_with(&[&engine.url()], args, env).await;
        serve.wait_status("/ready", 200).await;
        engine.forget().await;
        let call = serve.generate("r", 2, false);
        let basic = call.clone().header("authorization", format!("Basic {}", known[0]));
        let stranger = |key: &&str| [call.clone().bearer(key), call.clone().header("x-api-key", key)];
        for call in unknown.iter().flat_map(stranger).chain([call.clone(), basic, serve.get("/metrics")]) {
            let reply = call.send().await;
            let error = assert_envelope("no key", &reply);
            assert_eq!((reply.status, &error["code"]), (401, &json!("invalid_api_key")));
            assert!(reply.header("www-authenticate").is_some());
        }
        assert!(engine.journal().await.is_empty(), "only those with a key reach the engine");
        for key in known {
            for call in [call.clone().bearer(key), call.clone().header("x-api-key", key)] {
                assert_eq!(call.send().await.status, 200, "{key}");
            }
        }
        let log = serve.process.log();
        assert!(known.iter().chain(unknown).all(|key| !log.contains(&format!("{key}\""))), "{log}");
    }
}
