use std::collections::BTreeSet;

use axum::response::IntoResponse;
use tito_types::WorkerId;

use super::*;

const DOCUMENT: &str = include_str!("../../../../docs/errors.md");

/// One of each, with the status, code and message that it gets.
fn failures() -> Vec<(Failure, u16, &'static str, &'static str)> {
    use EngineError as E;
    let refusals = [
        (RefusalKind::BadJson, 400, "bad_json"),
        (RefusalKind::Invalid, 400, "invalid_value"),
        (RefusalKind::ContextLength, 400, "context_length_exceeded"),
        (RefusalKind::NotExpressible, 400, "unsupported_parameter"),
        (RefusalKind::MediaNotCached, 400, "media_not_cached"),
        (RefusalKind::UnknownModel, 404, "model_not_found"),
        (RefusalKind::ModelUnavailable, 503, "model_unavailable"),
    ];
    let (worker, words, lost) =
        (WorkerId::new("w1"), "words".to_owned(), "the engine was lost before it had finished");
    let engines = [
        (E::Invalid { param: "field".to_owned(), message: words.clone() }, 400, "invalid_value", "words"),
        (E::Refused(words.clone()), 400, "engine_refused", "words"),
        (E::NotFound(words.clone()), 404, "model_not_found", "words"),
        (E::TooLarge(words.clone()), 413, "message_too_large", "words"),
        (E::Unsupported(words.clone()), 501, "unsupported", "the engine has no such feature"),
        (E::Overloaded(words.clone()), 429, "overloaded", "every engine is busy; try again shortly"),
        (E::NoWorker(words.clone()), 503, "no_worker", "no engine can take the request now"),
        (E::Draining, 503, "draining", "this server is shutting down"),
        (
            E::Connect(worker.clone(), words.clone()),
            503,
            "worker_unreachable",
            "the engine could not be reached",
        ),
        (E::Lost(worker.clone(), words.clone()), 502, "worker_lost", lost),
        (E::Truncated, 502, "worker_lost", lost),
        (E::Stalled(worker.clone()), 504, "worker_stalled", "the engine stopped making progress"),
        (E::Deadline(worker.clone()), 504, "deadline_exceeded", "the engine's deadline passed"),
        (E::Engine(worker, words.clone()), 502, "worker_failed", "the engine failed on this request"),
        (E::Protocol(words), 502, "worker_protocol", "the engine's answer made no sense"),
    ];
    let header = Door::Header { name: "field", message: "must be shorter".to_owned() };
    let doors = [
        (header, 400, "invalid_header", "header field must be shorter"),
        (Door::BodyTooLarge { limit: 9 }, 413, "body_too_large", "the body is larger than 9 bytes"),
        (Door::Key, 401, "invalid_api_key", ""),
        (Door::UnknownRoute, 404, "route_not_found", ""),
        (Door::Method, 405, "method_not_allowed", ""),
        (Door::Headers, 431, "headers_too_large", ""),
        (Door::Expect, 417, "expectation_failed", ""),
        (Door::MediaType, 415, "unsupported_media_type", ""),
        (Door::Encoding, 415, "unsupported_encoding", ""),
        (Door::BodyTimeout, 408, "body_timeout", ""),
        (Door::BodyBroken, 400, "incomplete_body", ""),
        (Door::Busy, 429, "overloaded", ""),
        (Door::Underway, 429, "overloaded", ""),
        (Door::NotReady, 503, "not_ready", ""),
        (Door::ClientGone, 499, "client_gone", ""),
        (Door::Forced, 503, "shutdown_forced", ""),
        (Door::Bug, 500, "internal", ""),
    ];
    let refusal = |kind| {
        Failure::Refused(Refusal { kind, param: Some("field".to_owned()), message: "words".to_owned() })
    };
    let refusals = refusals.map(|(kind, status, code)| (refusal(kind), status, code, "words"));
    let engines = engines.map(|(error, status, code, words)| (Failure::Engine(error), status, code, words));
    let doors = doors.map(|(door, status, code, words)| (Failure::Door(door), status, code, words));
    refusals.into_iter().chain(engines).chain(doors).collect()
}

#[test]
fn each_failure_has_its_status_and_words_only_where_the_client_caused_it() {
    for (failure, status, code, message) in failures() {
        let told = rescue(&failure);
        assert_eq!((told.status.as_u16(), told.code.as_str()), (status, code), "{failure:?}");
        // What the server finds at its door is said in its own words.
        assert!(message.is_empty() || told.message == message, "{failure:?}: {}", told.message);
        let named = matches!(
            failure,
            Failure::Refused(_)
                | Failure::Engine(EngineError::Invalid { .. })
                | Failure::Door(Door::Header { .. })
        );
        assert_eq!(told.param.as_deref(), named.then_some("field"), "{failure:?}");
    }
}

#[test]
fn waiting_makes_sense_exactly_on_429_and_503() {
    for (failure, ..) in failures() {
        let told = rescue(&failure);
        let retriable = matches!(told.status.as_u16(), 429 | 503);
        assert_eq!(told.retry_after_seconds.is_some(), retriable, "{failure:?}");
        let response = told.into_response();
        assert_eq!(response.headers().contains_key("retry-after"), retriable, "{failure:?}");
        assert_eq!(response.headers().get("x-should-retry").is_some_and(|value| value == "true"), retriable);
    }
}

#[test]
fn the_document_has_exactly_the_rows_of_the_code() {
    let row = |told: ApiError| {
        let retry = told.retry_after_seconds.map_or("–".to_owned(), |seconds| seconds.to_string());
        let (code, status, kind) = (told.code.as_str(), told.status.as_u16(), told.kind.as_str());
        format!("| `{code}` | {status} | {kind} | {retry} |")
    };
    let ours: BTreeSet<String> = failures().iter().map(|(failure, ..)| row(rescue(failure))).collect();
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `"));
    let columns = |line: &str| line.split('|').take(5).collect::<Vec<_>>().join("|") + "|";
    let documented: BTreeSet<String> = rows.map(columns).collect();
    assert_eq!(documented, ours);
}

#[test]
fn long_messages_are_cut_between_characters() {
    let words = "ü".repeat(MESSAGE_BYTES_MAX);
    let told = rescue(&Failure::Engine(EngineError::Refused(words)));
    assert!(told.message.ends_with("ü…"));
    assert_eq!(told.message.len(), MESSAGE_BYTES_MAX + "…".len());
}
