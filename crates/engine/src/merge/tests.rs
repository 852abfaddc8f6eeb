use std::sync::Arc;

use tito_types::{Placement, WorkerId};

use super::*;
use crate::fake::{last, tokens};

/// One choice with a delta for each token.
fn part(ids: &[u32]) -> TokenStream {
    let (end, before) = ids.split_last().expect("a token");
    let before = before.iter().map(|id| Ok(tokens(0, &[*id])));
    let deltas: Vec<_> = before.chain([Ok(last(0, &[*end], ids.len() as u32))]).collect();
    TokenStream::new(1, stream::iter(deltas))
}

#[tokio::test]
async fn parts_keep_their_order_and_get_their_own_index() {
    let mut merged = merge(vec![part(&[1, 2, 3]), lazy(1, async { Ok(part(&[7, 8])) })]);
    let mut seen = vec![Vec::new(); 2];
    while let Some(item) = merged.next().await {
        let delta = item.expect("no part fails");
        seen[delta.index as usize].extend(delta.token_ids);
    }
    assert_eq!(seen, [vec![1, 2, 3], vec![7, 8]]);
}

#[tokio::test]
async fn one_failing_part_drops_the_others() {
    let held = Arc::new(());
    let silent = TokenStream::new(1, stream::pending()).hold(Arc::clone(&held));
    let mut merged = merge(vec![silent, lazy(1, async { Err(EngineError::Draining) })]);
    assert_eq!(TokenStream::next(&mut merged).await, Some(Err(EngineError::Draining)));
    assert_eq!(Arc::strong_count(&held), 1, "the silent part is dropped");
    assert_eq!(TokenStream::next(&mut merged).await, None);
}

fn at(worker: &str) -> Placement {
    let (worker, rank) = (WorkerId::new(worker), Some(0));
    Placement { worker, rank, prompt_tokens: 3, overlap_tokens: 2, predicted_tokens: 2, rule: "policy" }
}

fn workers(merged: &TokenStream) -> String {
    let word = |place: Option<Placement>| place.map_or("?".to_owned(), |place| place.worker.to_string());
    merged.places().iter().map(word).collect()
}

#[tokio::test]
async fn every_part_says_where_it_was_sent_once_it_is_known() {
    let parts = vec![
        lazy(1, async { Ok(part(&[1]).placed(at("a"))) }),
        lazy(1, std::future::pending()),
        lazy(1, async { Ok(part(&[2]).placed(at("b"))) }),
        lazy(1, async { Ok(part(&[3])) }),
    ];
    let mut merged = merge(parts);
    assert_eq!(workers(&merged), "????", "nothing was sent yet");
    for _ in 0..3 {
        TokenStream::next(&mut merged).await.expect("three parts answer").expect("none fails");
    }
    assert_eq!(workers(&merged), "a?b?", "one waits, and of one nobody told");
    assert_eq!(merged.placement(), None, "one answer cannot speak for four");
}

#[tokio::test]
async fn a_request_that_another_call_takes_over_says_so_to_those_who_hold_its_place() {
    let first = part(&[1]).hold(()).placed(at("a"));
    let held = first.places().clone();
    assert_eq!(held.only(), Some(at("a")));
    held.follow(part(&[1]).places());
    assert_eq!(first.placement(), Some(at("a")), "who was placed nowhere changes nothing");
    held.follow(part(&[1]).placed(at("b")).places());
    assert_eq!(first.placement(), Some(at("b")));
}
