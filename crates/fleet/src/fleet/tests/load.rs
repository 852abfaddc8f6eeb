//! What an engine says of its load.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_an_engine_says_of_its_load_is_known_of_each_rank_for_a_while() {
    let parallelism = Parallelism { data: 8, data_rank: 4, data_local: 2, ..Parallelism::default() };
    let mut fleet = run(vec![("a", vec![Ok(Identity { parallelism, ..identity("m", 8) })])]);
    fleet.wait_for("a=ready").await;
    assert_eq!(fleet.known_loads(), [None, None]);
    assert_eq!(fleet.say(&[(4, 7), (5, 0)]).await, [Some(7), Some(0)]);
    assert_eq!(
        fleet.say(&[(5, 3), (0, 9), (6, 9)]).await,
        [None, Some(3)],
        "a rank that is left out is not known"
    );
    tokio::time::sleep(crate::LOAD_HOLDS).await;
    assert_eq!(fleet.known_loads(), [None, None], "too long ago");
    assert_eq!(fleet.say(&[(4, 7)]).await, [Some(7), None]);
    let problems = |fleet: &Running| -> Vec<Option<String>> {
        let targets = fleet.snapshot.borrow().workers[0].targets.clone();
        targets.iter().map(|target| target.load_problem()).collect()
    };
    assert_eq!(problems(&fleet), [None, Some("its engine leaves it out".to_owned())]);
    assert_eq!(fleet.say(&[]).await, [None, None]);
    assert_eq!(
        problems(&fleet),
        ["it does not answer", "it does not answer"].map(|why| Some(why.to_owned()))
    );
    assert_eq!(fleet.say(&[(4, 1), (5, 1)]).await, [Some(1), Some(1)]);
    let mut metrics = String::new();
    prometheus_client::encoding::text::encode(&mut metrics, &fleet.registry).expect("a string takes it");
    assert!(metrics.contains("load_unknown_total{worker=\"a\"} 3\n"), "{metrics}");
    fleet.stop().await;
}
