use serde_json::Value;

use super::*;

/// What `/openapi.json` answers with.
const DOCUMENT: &str = include_str!("../../../frontend/src/openapi.json");

#[test]
fn every_format_that_is_served_is_described() {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let paths: Vec<&str> = formats().iter().map(|format| format.path).collect();
    assert!(!paths.is_empty());
    for path in paths {
        assert!(document["paths"][path]["post"].is_object(), "{path} is not described");
    }
}
