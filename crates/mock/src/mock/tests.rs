use tokio::task::JoinSet;

use super::{RunError, panicked};

#[tokio::test]
async fn a_rank_that_panics_ends_the_mock_with_an_error() {
    let mut engines = JoinSet::new();
    engines.spawn(async {});
    engines.spawn(async { panic!("a broken simulation") });
    let error = panicked(&mut engines).await;
    assert!(matches!(&error, RunError::Engine(join) if join.is_panic()), "{error:?}");
}
