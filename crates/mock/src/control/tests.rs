use serde_json::json;

use super::{ADAPTERS_MAX, Adapter, ControlState, WeightError, Weights};

#[test]
fn adapters_are_bounded_and_told_apart_by_name_and_path() {
    let control = ControlState::new(&[]);
    let mut state = control.lock();
    for index in 0..ADAPTERS_MAX {
        assert!(state.load(index.to_string(), "org/name".to_owned()).is_some());
    }
    assert!(state.load("more".to_owned(), "org/name".to_owned()).is_none());
    let first = state.adapters.remove("0").unwrap();
    let again = state.load("0".to_owned(), "org/name".to_owned()).unwrap();
    assert_ne!(first.id, again.id);
    let key = Adapter::key_of("0", "org/name");
    assert_eq!(key, Adapter::key_of("0", &again.source_path), "the same files are the same adapter");
    assert_ne!(key, Adapter::key_of("0", "org/other"), "other files under the name start cold");
    assert_ne!(key, Adapter::key_of("1", "org/name"));
}

#[test]
fn a_worker_checks_what_it_is_sent() {
    let object = |json: serde_json::Value| json.as_object().unwrap().clone();
    let mut weights = Weights::new();
    let missing = weights.init("nccl", &object(json!({ "rank_offset": 1 })));
    assert_eq!(missing, Err(WeightError::Missing("world_size")));
    let unknown = weights.init("ipc", &object(json!({ "z": 1 })));
    assert_eq!(unknown, Err(WeightError::Unknown("z".to_owned())));
    assert_eq!(weights.init("external", &object(json!({ "z": 1 }))), Ok(()));
    weights.start().unwrap();
    let lists = json!({ "names": ["a"], "dtype_names": ["b"], "shapes": [[1]], "num_updates_list": [1] });
    assert_eq!(weights.update("sparse_nccl", &object(lists.clone())), Ok(()));
    let refused = weights.update("nccl", &object(lists));
    assert_eq!(refused, Err(WeightError::Unknown("num_updates_list".to_owned())));
    assert_eq!(weights.finish(), Err(WeightError::NotStarted), "a failing update closes the session");
}
