use super::*;

#[tokio::test(start_paused = true)]
async fn a_state_that_is_there_already_is_seen() {
    let (_tx, mut rx) = watch::channel(3);
    wait_watch(&mut rx, "three", |value| *value == 3).await;
    wait_until("now", || true).await;
    assert_eq!(within("three", async { 3 }).await, 3);
    assert_eq!(wait_for("three", async || Some(3)).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_state_that_comes_later_is_seen() {
    let mut looks = 0;
    wait_until("the third look", || {
        looks += 1;
        looks == 3
    })
    .await;
    assert_eq!(looks, 3);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "never saw within 60s: four")]
async fn a_watched_value_that_never_comes_is_named() {
    let (_tx, mut rx) = watch::channel(3);
    wait_watch(&mut rx, "four", |value| *value == 4).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the sender is gone before: four")]
async fn a_sender_that_is_gone_is_not_waited_for() {
    let (tx, mut rx) = watch::channel(3);
    drop(tx);
    wait_watch(&mut rx, "four", |value| *value == 4).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "never saw within 60s: four")]
async fn a_future_that_never_comes_is_named() {
    within("four", std::future::pending::<()>()).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "never saw within 1s: four")]
async fn a_state_that_never_comes_is_named() {
    wait_within(Duration::from_secs(1), "four", async || None::<()>).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "no answer when asked for: four")]
async fn a_look_that_never_ends_is_named() {
    wait_for("four", async || std::future::pending::<Option<()>>().await).await;
}
