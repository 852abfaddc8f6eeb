use std::collections::BTreeSet;

use axum::response::IntoResponse;
use tito_types::WorkerId;

use super::*;

const DOCUMENT: &str = include_str!("../../../../docs/errors.md");

fn refusal(kind: RefusalKind) -> Failure {
    Failure::Refused(Refusal { kind, param: Some("field".to_owned()), message: "words".to_owned() })
}

fn engine(make: impl FnOnce(String) -> EngineError) -> Failure {
    Failure::Engine(make("words".to_owned()))
}

fn worker() -> WorkerId {
    WorkerId::new("w1")
}

/// One of each.
fn failures() -> Vec<Failure> {
    use EngineError as E;
    let refusals = [
        RefusalKind::BadJson,
        RefusalKind::Invalid,
        RefusalKind::ContextLength,
        RefusalKind::NotExpressible,
        RefusalKind::MediaNotCached,
        RefusalKind::UnknownModel,
        RefusalKind::ModelUnavailable,
    ];
    let engines = [
        engine(|message| E::Invalid { param: "n".to_owned(), message }),
        engine(E::Refused),
        engine(E::NotFound),
        engine(E::TooLarge),
        engine(E::Unsupported),
        engine(E::Overloaded),
        engine(E::NoWorker),
        Failure::Engine(E::Draining),
        engine(|words| E::Connect(worker(), words)),
        engine(|words| E::Lost(worker(), words)),
        Failure::Engine(E::Truncated),
        Failure::Engine(E::Stalled(worker())),
        Failure::Engine(E::Deadline(worker())),
        engine(|words| E::Engine(worker(), words)),
        engine(E::Protocol),
    ];
    let doors = [
        Door::Key,
        Door::UnknownRoute,
        Door::Method,
        Door::Header { name: "x-session-id", message: "must be shorter".to_owned() },
        Door::Headers,
        Door::Expect,
        Door::MediaType,
        Door::Encoding,
        Door::BodyTooLarge { limit: 9 },
        Door::BodyTimeout,
        Door::Busy,
        Door::Underway,
        Door::BodyBroken,
        Door::NotReady,
        Door::ClientGone,
        Door::Forced,
        Door::Bug,
    ];
    refusals.into_iter().map(refusal).chain(engines).chain(doors.into_iter().map(Failure::Door)).collect()
}

#[track_caller]
fn check(failure: &Failure, status: u16, code: &str, param: Option<&str>, message: &str) {
    let told = rescue(failure);
    assert_eq!(
        (told.status.as_u16(), told.code.as_str(), told.param.as_deref(), &*told.message),
        (status, code, param, message)
    );
}

#[test]
fn each_refusal_has_its_status_and_keeps_its_words() {
    for (kind, status, code) in [
        (RefusalKind::BadJson, 400, "bad_json"),
        (RefusalKind::Invalid, 400, "invalid_value"),
        (RefusalKind::ContextLength, 400, "context_length_exceeded"),
        (RefusalKind::NotExpressible, 400, "unsupported_parameter"),
        (RefusalKind::MediaNotCached, 400, "media_not_cached"),
        (RefusalKind::UnknownModel, 404, "model_not_found"),
        (RefusalKind::ModelUnavailable, 503, "model_unavailable"),
    ] {
        check(&refusal(kind), status, code, Some("field"), "words");
    }
}

#[test]
fn each_engine_failure_has_its_status_and_words_only_where_the_client_caused_it() {
    use EngineError as E;
    let invalid = engine(|message| E::Invalid { param: "n".to_owned(), message });
    check(&invalid, 400, "invalid_value", Some("n"), "words");
    check(&engine(E::Refused), 400, "engine_refused", None, "words");
    check(&engine(E::NotFound), 404, "model_not_found", None, "words");
    check(&engine(E::TooLarge), 413, "message_too_large", None, "words");
    let lost = "the engine was lost before it had finished";
    let rows = [
        (engine(E::Unsupported), 501, "unsupported", "the engine has no such feature"),
        (engine(E::Overloaded), 429, "overloaded", "every engine is busy; try again shortly"),
        (engine(E::NoWorker), 503, "no_worker", "no engine can take the request now"),
        (Failure::Engine(E::Draining), 503, "draining", "this server is shutting down"),
        (engine(|w| E::Connect(worker(), w)), 503, "worker_unreachable", "the engine could not be reached"),
        (engine(|w| E::Lost(worker(), w)), 502, "worker_lost", lost),
        (Failure::Engine(E::Truncated), 502, "worker_lost", lost),
        (Failure::Engine(E::Stalled(worker())), 504, "worker_stalled", "the engine stopped making progress"),
        (Failure::Engine(E::Deadline(worker())), 504, "deadline_exceeded", "the engine's deadline passed"),
        (engine(|w| E::Engine(worker(), w)), 502, "worker_failed", "the engine failed on this request"),
        (engine(E::Protocol), 502, "worker_protocol", "the engine's answer made no sense"),
    ];
    for (failure, status, code, message) in &rows {
        check(failure, *status, code, None, message);
    }
}

#[test]
fn each_finding_at_the_door_has_its_status() {
    let header = Door::Header { name: "x-session-id", message: "must be shorter".to_owned() };
    let name = Some("x-session-id");
    check(&Failure::Door(header), 400, "invalid_header", name, "header x-session-id must be shorter");
    let too_large = Failure::Door(Door::BodyTooLarge { limit: 9 });
    check(&too_large, 413, "body_too_large", None, "the body is larger than 9 bytes");
    for (door, status, code) in [
        (Door::Key, 401, "invalid_api_key"),
        (Door::UnknownRoute, 404, "route_not_found"),
        (Door::Method, 405, "method_not_allowed"),
        (Door::Headers, 431, "headers_too_large"),
        (Door::Expect, 417, "expectation_failed"),
        (Door::MediaType, 415, "unsupported_media_type"),
        (Door::Encoding, 415, "unsupported_encoding"),
        (Door::BodyTimeout, 408, "body_timeout"),
        (Door::BodyBroken, 400, "incomplete_body"),
        (Door::Busy, 429, "overloaded"),
        (Door::Underway, 429, "overloaded"),
        (Door::NotReady, 503, "not_ready"),
        (Door::ClientGone, 499, "client_gone"),
        (Door::Forced, 503, "shutdown_forced"),
        (Door::Bug, 500, "internal"),
    ] {
        let told = rescue(&Failure::Door(door));
        assert_eq!((told.status.as_u16(), told.code.as_str(), told.param), (status, code, None));
    }
}

#[test]
fn waiting_makes_sense_exactly_on_429_and_503() {
    for failure in failures() {
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
    let ours: BTreeSet<String> = failures().iter().map(|failure| row(rescue(failure))).collect();
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
