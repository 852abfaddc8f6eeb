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
    let chosen = choose(&snapshot, "m", excluded.as_ref()).map_or("-", |worker| worker.id.as_str());
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
