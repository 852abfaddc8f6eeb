use expect_test::expect;
use tito_types::Catalog;

use super::*;
use crate::testing::model;

#[test]
fn every_routable_name_is_an_entry() {
    let mut gone = model(&["gone"]);
    gone.routable = false;
    let catalog = Catalog { models: vec![model(&["m", "org/alias"]), gone], reasons: Vec::new() };
    let list = String::from_utf8(models_body(&catalog, 7)).unwrap();
    expect![[r#"{"object":"list","data":[{"id":"m","object":"model","created":7,"owned_by":"tito","root":"hub/m","parent":null,"max_model_len":100},{"id":"org/alias","object":"model","created":7,"owned_by":"tito","root":"hub/m","parent":null,"max_model_len":100}]}"#]].assert_eq(&list);
    let adapter = CatalogModel { parent: Some("m".to_owned()), ..model(&["ad"]) };
    let adapters = Catalog { models: vec![adapter], reasons: Vec::new() };
    let list = String::from_utf8(models_body(&adapters, 7)).unwrap();
    expect![[r#"{"object":"list","data":[{"id":"ad","object":"model","created":7,"owned_by":"tito","root":"hub/m","parent":"m","max_model_len":100}]}"#]].assert_eq(&list);
    let one = |name| model_body(&catalog, name, 7).map(|body| String::from_utf8(body).unwrap());
    expect![[r#"{"id":"org/alias","object":"model","created":7,"owned_by":"tito","root":"hub/m","parent":null,"max_model_len":100}"#]].assert_eq(&one("org/alias").unwrap());
    assert_eq!(one("gone"), None);
    assert_eq!(one("other"), None);
}

#[test]
fn health_and_version_escape_what_they_hold() {
    let text = |body: Vec<u8>| String::from_utf8(body).unwrap();
    assert_eq!(text(live_body()), r#"{"status":"live"}"#);
    let notes = ["a \"b\"\n".to_owned()];
    assert_eq!(
        text(ready_body(&["org/m"], &notes)),
        r#"{"status":"ready","models":["org/m"],"notes":["a \"b\"\n"]}"#
    );
    assert_eq!(
        text(not_ready_body(&["\\ \u{1}"], "m", "server_error", "not_ready")),
        r#"{"status":"not_ready","reasons":["\\ \u0001"],"error":{"message":"m","type":"server_error","param":null,"code":"not_ready"}}"#
    );
    assert_eq!(text(version_body("tito", "1.2.3")), r#"{"name":"tito","version":"1.2.3"}"#);
}
