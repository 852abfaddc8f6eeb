use super::{Carried, Expected, Reply};
use crate::failure::FailureKind;
use crate::sse::Event;

/// Folds events (or, given one without a name, a unary body) and compares the verdict.
#[track_caller]
fn check(events: &[&str], ignore_eos: bool, expected: Result<u32, FailureKind>) {
    let mut reply = Reply::default();
    let folded = events.iter().try_for_each(|data| {
        let (name, data) = data.split_once('!').unwrap_or(("", data));
        reply.add_event(Event { name: name.as_bytes(), data: data.as_bytes() }).map(drop)
    });
    let verdict = folded.and_then(|()| reply.verify(Expected { output_tokens: 2, ignore_eos }));
    assert_eq!(verdict.map_err(|failure| failure.kind), expected, "{events:?}");
}

#[track_caller]
fn check_body(body: &str, ignore_eos: bool, expected: Result<u32, FailureKind>) {
    check(&[body], ignore_eos, expected);
}

#[test]
fn ids_count_and_usage_stands_in_where_there_are_none() {
    check_body(r#"{"choices":[{"token_ids":[1,2],"finish_reason":"length"}]}"#, true, Ok(2));
    check_body(
        r#"{"choices":[{"text":"x","finish_reason":"length"}],"usage":{"completion_tokens":2}}"#,
        true,
        Ok(2),
    );
    check_body(
        r#"{"choices":[{"token_ids":null,"text":"","finish_reason":"length"}],"usage":{"completion_tokens":2}}"#,
        true,
        Ok(2),
    );
    check_body(
        r#"{"choices":[{"finish_reason":"length"}],"usage":null}"#,
        true,
        Err(FailureKind::NoTokenCount),
    );
    check_body(
        r#"{"choices":[{"token_ids":[1,2],"finish_reason":"length"}],"usage":{"completion_tokens":3}}"#,
        true,
        Err(FailureKind::TokenCount),
    );
}

#[test]
fn an_early_stop_is_right_only_when_it_was_allowed() {
    let stopped = r#"{"choices":[{"token_ids":[1],"finish_reason":"stop"}]}"#;
    check_body(stopped, false, Ok(1));
    check_body(stopped, true, Err(FailureKind::FinishReason));
    let short = r#"{"choices":[{"token_ids":[1],"finish_reason":"length"}]}"#;
    check_body(short, false, Err(FailureKind::TokenCount));
    check_body(short, true, Err(FailureKind::TokenCount));
    let long = r#"{"choices":[{"token_ids":[1,2,3],"finish_reason":"stop"}]}"#;
    check_body(long, false, Err(FailureKind::TokenCount));
}

#[test]
fn other_ends_are_failures() {
    for reason in ["\"abort\"", "\"error\"", "\"repetition\"", "null"] {
        let body = format!(r#"{{"choices":[{{"token_ids":[1,2],"finish_reason":{reason}}}]}}"#);
        check_body(&body, true, Err(FailureKind::FinishReason));
        check_body(&body, false, Err(FailureKind::FinishReason));
    }
    check_body(r#"{"choices":[]}"#, true, Err(FailureKind::FinishReason));
}

#[test]
fn what_is_not_a_reply_is_bad_json() {
    for body in ["", "[]", "{", "{} {}", r#"{"choices":{}}"#, r#"{"choices":[{"token_ids":[-1]}]}"#] {
        check_body(body, true, Err(FailureKind::BadJson));
    }
}

const FIRST: &str = r#"{"choices":[{"token_ids":[1]}]}"#;
const LAST: &str = r#"{"choices":[{"token_ids":[2],"finish_reason":"length"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"completion_tokens":2}}"#;

#[test]
fn a_stream_adds_up_over_its_events() {
    check(&[FIRST, LAST, USAGE, "[DONE]"], true, Ok(2));
    check(&[FIRST, LAST, "[DONE]"], true, Ok(2));
    check(&[FIRST, USAGE, "[DONE]"], true, Err(FailureKind::FinishReason));
    let empty = r#"{"choices":[{"token_ids":[]}]}"#;
    check(&[FIRST, LAST, empty, USAGE, "[DONE]"], true, Ok(2));
}

#[test]
fn a_stream_that_breaks_its_own_rules_is_bad() {
    check(&[FIRST, LAST, FIRST], true, Err(FailureKind::BadStream));
    check(&[LAST, LAST], true, Err(FailureKind::BadStream));
    check(&[FIRST, LAST, "[DONE]", USAGE], true, Err(FailureKind::BadStream));
    check(&[FIRST, "[DONE]", "[DONE]"], true, Err(FailureKind::BadStream));
    check(&[FIRST, r#"{"error":{"message":"lost"}}"#], true, Err(FailureKind::ErrorReply));
    check(&[FIRST, r#"error!{"message":"lost"}"#], true, Err(FailureKind::ErrorReply));
    check(&[FIRST, r#"{"error":null,"choices":[]}"#, LAST], true, Ok(2));
}

#[test]
fn an_event_carries_output_when_it_has_ids_or_else_text() {
    let ids = |tokens| Some(Carried { tokens: Some(tokens) });
    let text = Some(Carried { tokens: None });
    let table = [
        (r#"{"choices":[{"token_ids":[1],"text":""}]}"#, ids(1)),
        (r#"{"choices":[{"token_ids":[1,2,3]}]}"#, ids(3)),
        (r#"{"choices":[{"token_ids":[1,2]},{"token_ids":[3]}]}"#, ids(3)),
        (r#"{"choices":[{"token_ids":[],"text":"x"}]}"#, None),
        (r#"{"choices":[{"text":"x"}]}"#, text),
        (r#"{"choices":[{"text":""}]}"#, text),
        (r#"{"choices":[{"text":"","finish_reason":"length"}]}"#, None),
        (r#"{"choices":[{"finish_reason":"length"}]}"#, None),
        (r#"{"choices":[],"usage":{"completion_tokens":2}}"#, None),
    ];
    for (data, carried) in table {
        assert_eq!(Reply::default().add_json(data.as_bytes()).unwrap(), carried, "{data}");
    }
}
