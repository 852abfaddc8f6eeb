use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tito_types::{Delta, Extras, Finish, FinishReason};

use super::*;

fn part(tokens: &[u32]) -> TokenStream {
    let last = tokens.len() - 1;
    let deltas: Vec<_> = tokens
        .iter()
        .enumerate()
        .map(|(at, &token)| {
            let finish = Finish {
                reason: FinishReason::Stop,
                stop: None,
                output_tokens: tokens.len() as u32,
                cached_tokens: None,
                extras: Extras::default(),
            };
            Ok(Delta {
                token_ids: vec![token],
                finish: (at == last).then(|| Box::new(finish)),
                ..Delta::default()
            })
        })
        .collect();
    TokenStream::new(1, stream::iter(deltas))
}

struct Dropped(Arc<AtomicUsize>);
impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
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
    let dropped = Arc::new(AtomicUsize::new(0));
    let silent = TokenStream::new(1, stream::pending()).hold(Dropped(Arc::clone(&dropped)));
    let mut merged = merge(vec![silent, lazy(1, async { Err(EngineError::Draining) })]);
    assert_eq!(TokenStream::next(&mut merged).await, Some(Err(EngineError::Draining)));
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    assert_eq!(TokenStream::next(&mut merged).await, None);
}
