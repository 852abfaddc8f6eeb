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

#[test]
fn a_body_has_as_many_tokens_as_were_asked_for_or_ends_early_where_that_is_allowed() {
    use FailureKind::{BadJson, FinishReason, NoTokenCount, TokenCount};
    let both = |result| [(true, result), (false, result)];
    let choice = |choice: &str| format!(r#"{{"choices":[{{{choice}}}]}}"#);
    let counted = |choice: &str, tokens: &str| {
        format!(
            r#"{{"choices":[{{{choice},"finish_reason":"length"}}],"usage":{{"completion_tokens":{tokens}}}}}"#
        )
    };
    let mut table = vec![
        (choice(r#""token_ids":[1,2],"finish_reason":"length""#), both(Ok(2))),
        (counted(r#""text":"x""#, "2"), both(Ok(2))),
        (counted(r#""token_ids":null,"text":"""#, "2"), both(Ok(2))),
        (counted(r#""token_ids":[1,2]"#, "3"), both(Err(TokenCount))),
        (r#"{"choices":[{"finish_reason":"length"}],"usage":null}"#.to_owned(), both(Err(NoTokenCount))),
        (choice(r#""token_ids":[1],"finish_reason":"stop""#), [(true, Err(FinishReason)), (false, Ok(1))]),
        (choice(r#""token_ids":[1],"finish_reason":"length""#), both(Err(TokenCount))),
        (
            choice(r#""token_ids":[1,2,3],"finish_reason":"stop""#),
            [(true, Err(FinishReason)), (false, Err(TokenCount))],
        ),
        (r#"{"choices":[]}"#.to_owned(), both(Err(FinishReason))),
    ];
    for reason in ["\"abort\"", "\"error\"", "\"repetition\"", "null"] {
        let ended = choice(&format!(r#""token_ids":[1,2],"finish_reason":{reason}"#));
        table.push((ended, both(Err(FinishReason))));
    }
    for bad in ["", "[]", "{", "{} {}", r#"{"choices":{}}"#, r#"{"choices":[{"token_ids":[-1]}]}"#] {
        table.push((bad.to_owned(), both(Err(BadJson))));
    }
    for (body, results) in table {
        for (ignore_eos, expected) in results {
            check(&[&body], ignore_eos, expected);
        }
    }
}

const FIRST: &str = r#"{"choices":[{"token_ids":[1]}]}"#;
const LAST: &str = r#"{"choices":[{"token_ids":[2],"finish_reason":"length"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"completion_tokens":2}}"#;

#[test]
fn a_stream_adds_up_over_its_events_or_breaks_its_own_rules() {
    use FailureKind::{BadStream, ErrorReply, FinishReason};
    let empty = r#"{"choices":[{"token_ids":[]}]}"#;
    let table: [(&[&str], _); 11] = [
        (&[FIRST, LAST, USAGE, "[DONE]"], Ok(2)),
        (&[FIRST, LAST, "[DONE]"], Ok(2)),
        (&[FIRST, LAST, empty, USAGE, "[DONE]"], Ok(2)),
        (&[FIRST, r#"{"error":null,"choices":[]}"#, LAST], Ok(2)),
        (&[FIRST, USAGE, "[DONE]"], Err(FinishReason)),
        (&[FIRST, LAST, FIRST], Err(BadStream)),
        (&[LAST, LAST], Err(BadStream)),
        (&[FIRST, LAST, "[DONE]", USAGE], Err(BadStream)),
        (&[FIRST, "[DONE]", "[DONE]"], Err(BadStream)),
        (&[FIRST, r#"{"error":{"message":"lost"}}"#], Err(ErrorReply)),
        (&[FIRST, r#"error!{"message":"lost"}"#], Err(ErrorReply)),
    ];
    for (events, expected) in table {
        check(events, true, expected);
    }
}

#[test]
fn an_event_carries_output_when_it_has_ids_or_else_text() {
    let ids = |tokens| Some(Carried { tokens: Some(tokens) });
    let text = Some(Carried { tokens: None });
    for (data, carried) in [
        (r#"{"choices":[{"token_ids":[1],"text":""}]}"#, ids(1)),
        (r#"{"choices":[{"token_ids":[1,2,3]}]}"#, ids(3)),
        (r#"{"choices":[{"token_ids":[1,2]},{"token_ids":[3]}]}"#, ids(3)),
        (r#"{"choices":[{"token_ids":[],"text":"x"}]}"#, None),
        (r#"{"choices":[{"text":"x"}]}"#, text),
        (r#"{"choices":[{"text":""}]}"#, text),
        (r#"{"choices":[{"text":"","finish_reason":"length"}]}"#, None),
        (r#"{"choices":[{"finish_reason":"length"}]}"#, None),
        (r#"{"choices":[],"usage":{"completion_tokens":2}}"#, None),
    ] {
        assert_eq!(Reply::default().add_json(data.as_bytes()).unwrap(), carried, "{data}");
    }
}
