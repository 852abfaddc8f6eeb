use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(json: &str, expected: &str) {
    let found = match struct_of(json, "kv_transfer_params") {
        Ok(fields) => json_of(fields).expect("finite").into_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(found, expected);
}

#[test]
fn objects_survive_the_round_trip_and_others_are_refused_by_name() {
    check(r#"{"b":1,"a":[[1,2.5],null,true,"é"]}"#, r#"{"a":[[1,2.5],null,true,"é"],"b":1}"#);
    let most = r#"{"m":-9007199254740991,"n":9007199254740991}"#;
    check(most, most);
    check(r#"{"n":5600.0}"#, r#"{"n":5600}"#);
    check("{}", "{}");
    let beyond =
        "kv_transfer_params: must not hold integers beyond 2^53 - 1: the engine's wire has only doubles";
    check(r#"{"n":9007199254740992}"#, beyond);
    check(r#"{"n":[18446744073709551615]}"#, beyond);
    check("[1]", "kv_transfer_params: must be a JSON object");
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(40), "]".repeat(40));
    check(&deep, "kv_transfer_params: must not nest deeper than 32 levels");
}

#[test]
fn a_number_that_json_cannot_write_is_a_broken_contract() {
    let value = Value { kind: Some(Kind::NumberValue(f64::NAN)) };
    let fields = Struct { fields: [("x".to_owned(), value)].into() };
    assert!(matches!(json_of(fields), Err(EngineError::Protocol(_))));
}

proptest! {
    #[test]
    fn any_text_is_converted_or_refused(text in ".{0,200}") {
        let _ = struct_of(&text, "kv_transfer_params");
    }

    #[test]
    fn whole_numbers_up_to_the_bound_keep_their_value(n in -INTEGER_MAX..=INTEGER_MAX) {
        let json = format!("{{\"n\":{n}}}");
        let back = json_of(struct_of(&json, "p").expect("in range")).expect("finite");
        prop_assert_eq!(back.as_str(), json);
    }
}
