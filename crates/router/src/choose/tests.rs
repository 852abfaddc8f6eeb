use super::*;
use crate::route::tests::{hanging, worker};

/// Workers as `id load state model`; the expected id, or `-`.
#[track_caller]
fn check(workers: &[(&str, u32, bool, &str)], excluded: Option<&str>, expected: &str) {
    let mut held = Vec::new();
    let mut table = Vec::new();
    for &(id, load, ready, model) in workers {
        let one = worker(id, model, ready.then(hanging));
        held.push(one.load.begin(load));
        table.push(Arc::new(one));
    }
    let snapshot = Snapshot { workers: table };
    let excluded = excluded.map(WorkerId::new);
    let chosen = choose(&snapshot, "m", None, excluded.as_ref()).map_or("-", |worker| worker.id.as_str());
    assert_eq!(chosen, expected);
}

#[test]
fn the_least_loaded_ready_worker_that_serves_the_model_is_chosen() {
    check(&[], None, "-");
    check(&[("a", 2, true, "m"), ("b", 1, true, "m")], None, "b");
    check(&[("b", 1, true, "m"), ("a", 1, true, "m")], None, "a");
    check(&[("a", 0, false, "m"), ("b", 9, true, "m")], None, "b");
    check(&[("a", 0, true, "k"), ("b", 9, true, "m")], None, "b");
    check(&[("a", 0, true, "m"), ("b", 9, true, "m")], Some("a"), "b");
    check(&[("a", 0, true, "m")], Some("a"), "-");
}

#[test]
fn a_pinned_rank_goes_to_the_worker_that_owns_it() {
    let owner = |id: &str, data_rank: u32| {
        let mut one = worker(id, "m", Some(hanging()));
        let mut info = one.info.as_deref().expect("the builder gives one").clone();
        (info.identity.parallelism.data_rank, info.identity.parallelism.data_local) = (data_rank, 2);
        one.info = Some(Arc::new(info));
        Arc::new(one)
    };
    let snapshot = Snapshot { workers: vec![owner("a", 0), owner("b", 2)] };
    let chosen = |rank| choose(&snapshot, "m", rank, None).map(|worker| worker.id.as_str());
    assert_eq!((chosen(None), chosen(Some(1)), chosen(Some(3))), (Some("a"), Some("a"), Some("b")));
    assert_eq!(chosen(Some(9)), Some("a"), "nobody owns it: an engine refuses it by name");
}
