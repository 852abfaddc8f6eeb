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
    let one = |name| model_body(&catalog, name, 7).map(|body| String::from_utf8(body).unwrap());
    expect![[r#"{"id":"org/alias","object":"model","created":7,"owned_by":"tito","root":"hub/m","parent":null,"max_model_len":100}"#]].assert_eq(&one("org/alias").unwrap());
    assert_eq!(one("gone"), None);
    assert_eq!(one("other"), None);
}
