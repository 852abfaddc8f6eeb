//! What becomes of the other children when one fails or the client leaves: none may go on at its engine.

use std::sync::{Arc, Weak};

use futures_util::FutureExt as _;

use super::*;

/// What a child does.
#[derive(Debug, Clone, Copy)]
enum Child {
    /// It is neither accepted nor refused.
    Waits,
    /// It is accepted and sends nothing.
    Hangs,
    /// It is accepted and fails after one token.
    Breaks,
    Refused,
}

use Child::{Breaks, Hangs, Refused, Waits};

/// The child of seed `s` does what the list says at `s`, and holds `alive` from the call until it is dropped.
struct Counted {
    children: Vec<Child>,
    alive: Weak<()>,
}

impl Engine for Counted {
    async fn generate(&self, request: GenerateRequest) -> Result<TokenStream, EngineError> {
        let alive = self.alive.upgrade().expect("the test counts");
        let seed = request.sampling.seed.expect("every child has its own") as u32;
        let script = match self.children[seed as usize] {
            Waits => return std::future::pending().await,
            Hangs => Script { hang: true, ..Script::default() },
            Breaks => Script { items: vec![Ok(tokens(0, &[seed])), Err(broken())], ..Script::default() },
            Refused => Script { refuse: Some(refused()), ..Script::default() },
        };
        Ok(Fake::new(move |_| script.clone()).generate(request).await?.hold(alive))
    }
}

fn refused() -> EngineError {
    EngineError::Refused("no".into())
}

fn broken() -> EngineError {
    EngineError::Lost(WorkerId::new("w"), "reset".into())
}

/// A request for these children, and how many of them are at the engine.
struct Siblings {
    fanout: Fanout<Counted>,
    asked: GenerateRequest,
    alive: Arc<()>,
}

impl Siblings {
    fn new(children: &[Child]) -> Self {
        let alive = Arc::new(());
        let counted = Counted { children: children.to_vec(), alive: Arc::downgrade(&alive) };
        let mut asked = request(children.len() as u32);
        asked.sampling.seed = Some(0);
        Self { fanout: Fanout::new(counted, 8), asked, alive }
    }

    fn alive(&self) -> usize {
        Arc::strong_count(&self.alive) - 1
    }
}

#[tokio::test]
async fn one_refused_child_refuses_them_all_and_none_goes_on() {
    for children in [[Refused, Hangs, Waits], [Hangs, Refused, Hangs], [Waits, Hangs, Refused]] {
        let siblings = Siblings::new(&children);
        let answer = siblings.fanout.generate(siblings.asked.clone()).now_or_never();
        let error = answer.expect("no other child is waited for").expect_err("a child is refused");
        assert_eq!((error, siblings.alive()), (refused(), 0), "{children:?}");
    }
}

#[tokio::test]
async fn a_child_that_breaks_ends_the_reply_and_its_siblings_while_the_stream_is_still_held() {
    for children in [[Breaks, Hangs, Hangs], [Hangs, Breaks, Hangs], [Hangs, Hangs, Breaks]] {
        let siblings = Siblings::new(&children);
        let mut stream = siblings.fanout.generate(siblings.asked.clone()).await.expect("accepted");
        assert_eq!(siblings.alive(), 3, "{children:?}");
        let first = stream.next().await.expect("one token").expect("no failure yet");
        assert_eq!((first.token_ids, siblings.alive()), (vec![first.index], 3), "{children:?}");
        assert_eq!(stream.next().await, Some(Err(broken())), "{children:?}");
        assert_eq!(siblings.alive(), 0, "{children:?}");
        assert_eq!(stream.next().await, None, "{children:?}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_takes_every_child_along() {
    let siblings = Siblings::new(&[Hangs, Waits, Hangs]);
    let mut asking = Box::pin(siblings.fanout.generate(siblings.asked.clone()));
    assert!(asking.as_mut().now_or_never().is_none(), "the second is not accepted yet");
    assert_eq!(siblings.alive(), 3);
    drop(asking);
    assert_eq!(siblings.alive(), 0);

    let siblings = Siblings::new(&[Hangs, Hangs, Hangs]);
    let stream = siblings.fanout.generate(siblings.asked.clone()).await.expect("accepted");
    assert_eq!(siblings.alive(), 3);
    drop(stream);
    assert_eq!(siblings.alive(), 0);
}
