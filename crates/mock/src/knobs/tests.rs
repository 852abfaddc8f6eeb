use std::time::Duration;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::{Value as Json, json};
use tito_engine_sim::{Finish, RequestId, SimRequest, StopCause};

use super::{Knobs, LIST_MAX};
use crate::faults::{BreakOff, Effects};

fn value(json: &Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(flag) => Kind::BoolValue(*flag),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap()),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(list) => Kind::ListValue(ListValue { values: list.iter().map(value).collect() }),
        Json::Object(_) => Kind::StructValue(structure(json)),
    };
    Value { kind: Some(kind) }
}

fn structure(json: &Json) -> Struct {
    let fields = json.as_object().unwrap().iter();
    Struct { fields: fields.map(|(name, json)| (name.clone(), value(json))).collect() }
}

fn applied(script: &Json) -> (SimRequest, Effects) {
    let parameters = structure(&json!({ "script": script }));
    let mut request = SimRequest::new(RequestId(1), vec![1], 5);
    let mut effects = Effects::default();
    Knobs::of(Some(&parameters)).unwrap().apply(&mut request, &mut effects);
    (request, effects)
}

#[test]
fn without_a_script_there_are_no_knobs() {
    assert_eq!(Knobs::of(None), None);
    assert_eq!(Knobs::of(Some(&structure(&json!({ "do_remote_decode": true })))), None);
}

#[test]
fn knobs_become_a_script_and_faults() {
    let (request, effects) = applied(&json!({}));
    let script = request.script.unwrap();
    assert_eq!((script.ids.as_slice(), script.then), ([65, 66, 67, 68, 69].as_slice(), Some(Finish::Length)));
    assert_eq!(effects, Effects::default());

    let knobs = json!({
        "ids": [7, 8, 9], "n": 2, "chunk": 3, "delay": 0.5, "hang_after": 1, "die_after": 4, "exit_after": 2,
        "finish": "stop", "stop_reason": 8,
    });
    let (request, effects) = applied(&knobs);
    assert_eq!((request.tokens_per_step, request.stall_after), (3, Some(1)));
    assert_eq!(request.pace, Duration::from_millis(500));
    assert_eq!(effects.break_off, Some((2, BreakOff::Die)));
    let script = request.script.unwrap();
    assert_eq!((script.ids, script.then), (vec![7, 8], Some(Finish::Stop(StopCause::Id(8)))));
}

#[test]
fn nonsense_is_taken_as_the_nearest_sense() {
    let knobs = json!({
        "ids": [-1, 1e99, "x", null], "n": -5, "chunk": 0, "delay": -1, "finish": 3, "mask": [1, ["a"]], "lp": "x",
    });
    let (request, _) = applied(&knobs);
    assert_eq!((request.tokens_per_step, request.pace), (1, Duration::ZERO));
    assert_eq!(request.script.unwrap().ids, Vec::<u32>::new());
    let long = json!({ "ids": vec![1; LIST_MAX + 1] });
    let parameters = structure(&json!({ "script": long }));
    assert_eq!(Knobs::of(Some(&parameters)).unwrap().ids.unwrap().len(), LIST_MAX);
}
