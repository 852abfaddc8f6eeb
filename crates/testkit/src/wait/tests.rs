use super::*;

#[tokio::test(start_paused = true)]
async fn a_state_that_is_there_already_is_seen() {
    let (_tx, mut rx) = watch::channel(3);
    wait_for(&mut rx, "three", |value| *value == 3).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "never saw within 60s: four")]
async fn a_state_that_never_comes_is_named() {
    let (_tx, mut rx) = watch::channel(3);
    wait_for(&mut rx, "four", |value| *value == 4).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "whoever would have shown it is gone: four")]
async fn a_sender_that_is_gone_is_not_waited_for() {
    let (tx, mut rx) = watch::channel(3);
    drop(tx);
    wait_for(&mut rx, "four", |value| *value == 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_state_that_tells_nobody_is_looked_at_until_it_is_there() {
    let mut looks = 0;
    wait_until("the third look", || {
        looks += 1;
        looks == 3
    })
    .await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "never saw within 60s: four")]
async fn nothing_is_looked_for_longer_than_the_limit() {
    wait_until("four", || false).await;
}
