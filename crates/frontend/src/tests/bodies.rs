use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use tito_test_support::http::post_text;
use tito_test_support::wait::{WAIT_LIMIT, wait_until};
use tokio::time::{Instant, sleep};
use tower::ServiceExt;

use crate::config::{BIND_WAIT_TIMEOUT, BODY_TIMEOUT, LARGE_BINDS_MAX};
use crate::testing::engines::quick;
use crate::testing::{check_metrics, post, refusal_of, setup, setup_with};

const GENERATE: &str = "/inference/v1/generate";
const LIMIT: usize = 1 << 20;

/// A body that is parsed off the reactor threads.
fn large(body: &str) -> String {
    body.to_owned() + &" ".repeat(2 * LIMIT)
}

#[tokio::test]
async fn all_bodies_together_have_a_bound_and_give_back_what_they_held() {
    let setup = setup_with(quick(), |config| {
        config.limits.body_bytes = LIMIT;
        config.limits.bodies_bytes = LIMIT;
    });
    let setup = setup.await.unwrap();
    let bodies = Arc::clone(&setup.frontend.app.bodies);
    let running = setup.run();
    let whole = post_text(GENERATE, &("{}".to_owned() + &" ".repeat(LIMIT - 2)));
    let (most, end) = whole.split_at(whole.len() - 1);
    let mut first = running.client(most).await;
    wait_until("the first body is held", || bodies.free_bytes() == 1).await;
    let reply = running.reply(post_text(GENERATE, "{}")).await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1")));
    assert!(reply.text().contains("\"overloaded\""), "{}", reply.text());
    first.send(end).await;
    assert_eq!(first.reply().await.status, 200);
    assert_eq!(bodies.free_bytes(), LIMIT, "given back once it was understood");
    let third = running.client(most).await;
    wait_until("the third body is held", || bodies.free_bytes() == 1).await;
    drop(third);
    wait_until("a client that left holds nothing", || bodies.free_bytes() == LIMIT).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_is_given_up_in_the_end() {
    let setup = setup(quick()).await;
    let bytes = stream::repeat(()).then(async |()| {
        sleep(Duration::from_secs(1)).await;
        Ok::<_, std::io::Error>(Bytes::from_static(b" "))
    });
    let request = post(GENERATE, Body::from_stream(Box::pin(bytes)));
    let started = Instant::now();
    let response = setup.router().oneshot(request).await.unwrap();
    assert_eq!(refusal_of(response).await, (408, "body_timeout".to_owned()));
    let took = started.elapsed();
    assert!(took >= BODY_TIMEOUT && took < BODY_TIMEOUT + Duration::from_secs(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_large_body_does_not_wait_for_ever_for_its_turn() {
    let setup = setup(quick()).await;
    let turns = Arc::clone(&setup.frontend.app.large_binds);
    let all = turns.acquire_many(u32::try_from(LARGE_BINDS_MAX).unwrap()).await.unwrap();
    let started = Instant::now();
    let response = setup.router().oneshot(post(GENERATE, large("{}"))).await.unwrap();
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(refusal_of(response).await, (429, "overloaded".to_owned()));
    assert!(started.elapsed() >= BIND_WAIT_TIMEOUT);
    drop(all);
    let response = setup.router().oneshot(post(GENERATE, large("{}"))).await.unwrap();
    assert_eq!(response.status(), 200);
}

#[test]
fn a_large_body_whose_client_has_left_is_not_parsed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let setup = setup(quick()).await;
        let free_bytes = setup.frontend.app.bodies.free_bytes();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let occupied = setup.tasks.spawn_blocking("occupy", move || released.recv_timeout(WAIT_LIMIT));
        // The toy format panics on this one.
        let request = post(GENERATE, large(r#"{"panic":true}"#));
        let mut handling = Box::pin(setup.router().oneshot(request));
        assert!((&mut handling).now_or_never().is_none());
        assert_eq!(setup.frontend.app.large_binds.available_permits(), LARGE_BINDS_MAX - 1);
        drop(handling);
        release.send(()).unwrap();
        occupied.await.unwrap().unwrap();
        wait_until("the body is let go", || setup.frontend.app.bodies.free_bytes() == free_bytes).await;
        check_metrics(&setup.registry, &["tito_runtime_task_panics_total 0"]);
    });
}
