//! Data-parallel ranks: each is a target of its own, pinned or chosen.

use std::collections::BTreeSet;

use super::{Engines, ask, cached, indexes, wait_held};
use crate::harness::{GENERATE, Serve, three_blocks, wait_for};

/// Blocks known on each rank, in order.
async fn blocks(serve: &Serve) -> Vec<u64> {
    indexes(serve).await.iter().map(|index| index["blocks"]["gpu"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn pinned_and_chosen_requests_land_on_their_rank() {
    let engines = Engines::of(&[&["--data-parallel-size", "2"]]).await;
    let serve = engines.served(&[]).await;
    for rank in [1u32, 0, 1] {
        let was = blocks(&serve).await;
        let body = three_blocks(100 + rank + was.iter().sum::<u64>() as u32);
        let pinned = serve.post(GENERATE, &body).header("X-data-parallel-rank", rank.to_string());
        let reply = pinned.header("X-Tito-Explain", "1").send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(super::told(&reply).rank, Some(rank));
        let grown = wait_for("the rank's own events", async || {
            let now = blocks(&serve).await;
            (now != was).then_some(now)
        })
        .await;
        for (at, (is, was)) in grown.iter().zip(&was).enumerate() {
            let expected = if at == rank as usize { 3 } else { 0 };
            assert_eq!(is - was, expected, "blocks of rank {at} after a request for rank {rank}");
        }
    }

    // Chosen by the router: cold prompts take turns, repeats return to the rank that holds them.
    let mut homes = Vec::new();
    for seed in 1..=4 {
        let (_, told) = ask(&serve, &three_blocks(seed)).await;
        wait_held(&serve, &three_blocks(seed), &told.worker, 96).await;
        homes.push(told.rank.expect("an engine with ranks is told which"));
    }
    assert_eq!(BTreeSet::from_iter(&homes).len(), 2, "cold prompts spread over idle ranks: {homes:?}");
    for (seed, home) in (1..=4).zip(homes) {
        let (reply, told) = ask(&serve, &three_blocks(seed)).await;
        assert_eq!(told.rank, Some(home), "prompt {seed} returns");
        assert_eq!((told.overlap, cached(&reply)), (96, 96), "prompt {seed}");
    }
}

#[tokio::test]
async fn a_rank_or_worker_that_does_not_exist_is_refused_with_what_does() {
    let engines = Engines::of(&[&["--data-parallel-size", "2"]]).await;
    let serve = engines.served(&[]).await;
    for (header, value, hint) in [
        ("X-data-parallel-rank", "2", "0, 1"),
        ("X-data-parallel-rank", "one", "whole number"),
        ("X-Tito-Worker", "nobody", &engines.urls[0].replace("vllm://", "")),
    ] {
        let reply = serve.post(GENERATE, &three_blocks(9)).header(header, value).send().await;
        assert_eq!(reply.status, 400, "{header}: {value}: {}", reply.text());
        let error = reply.json()["error"].clone();
        assert_eq!(error["param"], header.to_ascii_lowercase(), "{error}");
        assert!(error["message"].as_str().unwrap().contains(hint), "{error}");
    }
}
