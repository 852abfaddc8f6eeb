use std::sync::Arc;

use futures_util::{FutureExt, stream};

use super::*;
use crate::fake::{last, tokens};

fn delta(index: u32, token: u32, ends: bool) -> Delta {
    if ends { last(index, &[token], 1) } else { tokens(index, &[token]) }
}

/// Reads to the end and says what came: tokens, `!` for an error, `.` for the end.
#[track_caller]
fn check(choices: u32, items: Vec<Result<Delta, EngineError>>, expected: &str) {
    let guard = Arc::new(());
    let mut tokens = TokenStream::new(choices, stream::iter(items)).hold(Arc::clone(&guard));
    let mut seen = Vec::new();
    while let Some(item) = tokens.next().now_or_never().expect("it is always ready") {
        seen.push(match item {
            Ok(delta) => format!("{}:{}", delta.index, delta.token_ids[0]),
            Err(EngineError::Truncated) => "truncated".into(),
            Err(error) => format!("!{error}"),
        });
        assert!(seen.len() < 10, "it does not end: {seen:?}");
    }
    assert_eq!(seen.join(" "), expected);
    assert_eq!(Arc::strong_count(&guard), 1, "guards are released at the end, before the drop");
}

#[test]
fn a_stream_ends_exactly_one_way() {
    let lost = || EngineError::Stalled(tito_types::WorkerId::new("w"));
    check(1, vec![Ok(delta(0, 7, false)), Ok(delta(0, 8, true))], "0:7 0:8");
    check(1, vec![Ok(delta(0, 7, true)), Ok(delta(0, 8, true))], "0:7");
    check(1, vec![], "truncated");
    check(1, vec![Ok(delta(0, 7, false))], "0:7 truncated");
    check(1, vec![Err(lost()), Ok(delta(0, 7, true))], "!worker w made no progress within the stall timeout");
    check(2, vec![Ok(delta(1, 7, true)), Ok(delta(0, 8, true))], "1:7 0:8");
    check(2, vec![Ok(delta(1, 7, true))], "1:7 truncated");
}

#[test]
fn a_choice_that_cannot_be_is_a_broken_contract() {
    let broken = "!engine broke the wire contract:";
    check(1, vec![Ok(delta(1, 7, false))], &format!("{broken} choice 1 of 1"));
    let after_the_end = format!("1:7 {broken} output after the end of choice 1");
    check(2, vec![Ok(delta(1, 7, true)), Ok(delta(1, 8, false))], &after_the_end);
}

#[tokio::test]
async fn a_whole_reply_is_one_delta() {
    let mut tokens = TokenStream::whole(delta(0, 3, true));
    assert_eq!(tokens.next().await.expect("one").expect("ok").token_ids, [3]);
    assert!(tokens.next().await.is_none());
}
