use std::fs;
use std::sync::Arc;

use http_body_util::BodyExt;
use tempfile::NamedTempFile;
use tito_engine::fake::tokens;
use tito_types::{EngineError, WorkerId};
use tracing::subscriber::{DefaultGuard, set_default};

use crate::testing::engines::{Placed, held, quick, scripted};
use crate::testing::{bytes_of, get, keys, post, setup, setup_with, with};

/// What this thread logs as long as it lives; a test's runtime has no other.
struct Lines {
    file: NamedTempFile,
    _capturing: DefaultGuard,
}

impl Lines {
    fn capture() -> Self {
        let file = NamedTempFile::new().unwrap();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time();
        let subscriber = subscriber.with_writer(Arc::new(file.reopen().unwrap()));
        Self { file, _capturing: set_default(subscriber.finish()) }
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file.path()).unwrap()
    }
}

const SECRET_PROMPT: &str = r#"{"request_id":"r-1","prompts":[[31337]]}"#;

#[tokio::test]
async fn a_request_leaves_one_line_with_what_it_was_and_cost() {
    let lines = Lines::capture();
    let setup = setup(quick()).await;
    bytes_of(setup.ask(post("/v1/completions", SECRET_PROMPT)).await).await;
    let text = lines.text();
    assert_eq!(text.lines().count(), 1, "{text}");
    let parts = r#"INFO access: request request="r-1" route="completions" model="toy" status=200 prompt_tokens=3
        cached_tokens=0 output_tokens=2 duration_ms= ttft_ms="#;
    for part in parts.split_whitespace() {
        assert!(text.contains(part), "no {part} in {text}");
    }
    for part in ["code=", "31337", "worker=", "rank="] {
        assert!(!text.contains(part), "{part} in {text}");
    }
}

#[tokio::test]
async fn the_line_names_the_worker_and_rank_of_a_single_prompt() {
    for (body, worker, rank) in [
        (r#"{"prompts":[[7]]}"#, true, true),
        (r#"{"prompts":[[7]],"stream":true}"#, true, false),
        (r#"{"prompts":[[7],[8]]}"#, false, true),
    ] {
        let lines = Lines::capture();
        let setup = setup(Placed(quick())).await;
        let request = post("/v1/completions", body);
        let request = if rank { with(request, "x-data-parallel-rank", "2") } else { request };
        bytes_of(setup.ask(request).await).await;
        let text = lines.text();
        let found = (text.contains(r#" worker="w7" "#), text.contains(" rank=2 "));
        assert_eq!(found, (worker, worker && rank), "{body}: {text}");
    }
}

#[tokio::test]
async fn an_engines_failure_is_logged_once_with_its_inner_words() {
    let lines = Lines::capture();
    let failure = EngineError::Engine(WorkerId::new("w7"), "CUDA error".to_owned());
    let setup = setup(scripted(vec![Ok(tokens(0, &[1])), Err(failure)])).await;
    bytes_of(setup.ask(post("/inference/v1/generate", r#"{"stream":true,"request_id":"r-2"}"#)).await).await;
    let text = lines.text();
    assert_eq!(text.lines().count(), 2, "{text}");
    let words = r#"request failed request=r-2 code="worker_failed" error=worker w7 failed: CUDA error"#;
    assert!(text.contains(words), "{text}");
    assert!(text.contains(r#"status=200 code="worker_failed""#), "{text}");
}

#[tokio::test]
async fn words_that_the_client_is_not_given_are_logged_and_no_others() {
    let words = || "inner words".to_owned();
    let worker = || WorkerId::new("w7");
    for (failure, logged) in [
        (EngineError::Overloaded(words()), true),
        (EngineError::Unsupported(words()), true),
        (EngineError::NoWorker(words()), true),
        (EngineError::Connect(worker(), words()), true),
        (EngineError::Lost(worker(), words()), true),
        (EngineError::Protocol(words()), true),
        (EngineError::Refused(words()), false),
        (EngineError::NotFound(words()), false),
        (EngineError::TooLarge(words()), false),
    ] {
        let lines = Lines::capture();
        let shown = format!("{failure:?}");
        let setup = setup(scripted(vec![Err(failure)])).await;
        let reply = bytes_of(setup.ask(post("/inference/v1/generate", "{}")).await).await;
        let told = String::from_utf8_lossy(&reply).contains("inner words");
        assert_eq!((lines.text().contains("inner words"), told), (logged, !logged), "{shown}");
    }
}

#[tokio::test]
async fn a_client_that_left_is_a_line_too() {
    let lines = Lines::capture();
    let (engine, mut requests) = held();
    let setup = setup(engine).await;
    let mut response = setup.ask(post("/inference/v1/generate", r#"{"stream":true}"#)).await;
    let accepted = requests.recv().await.unwrap();
    accepted.deltas.send(Ok(tokens(0, &[1, 2]))).unwrap();
    response.body_mut().frame().await.unwrap().unwrap();
    assert!(lines.text().is_empty());
    drop(response);
    let text = lines.text();
    assert!(text.contains(r#"status=499 code="client_gone""#) && text.contains("output_tokens=2"), "{text}");
}

#[tokio::test]
async fn probes_and_keys_leave_no_trace() {
    let lines = Lines::capture();
    let setup = setup_with(quick(), |config| config.keys = keys(&["hidden-key"])).await.unwrap();
    for path in ["/live", "/ready", "/v1/models", "/nowhere"] {
        setup.ask(with(get(path), "x-api-key", "another-key")).await;
    }
    assert_eq!(lines.text(), "");
}
