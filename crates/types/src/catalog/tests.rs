use super::*;

fn model(names: &[&str], routable: bool) -> CatalogModel {
    CatalogModel {
        names: names.iter().map(ToString::to_string).collect(),
        source: "s".into(),
        parent: None,
        max_model_len: 8,
        n_max: 4,
        routable,
    }
}

#[track_caller]
fn check(models: Vec<CatalogModel>, name: Option<&str>, expected: &str) {
    let catalog = Catalog { models, reasons: Vec::new() };
    let found = match catalog.resolve(name) {
        Resolution::Served(name, _) => name.to_owned(),
        other => format!("{other:?}"),
    };
    assert_eq!(found, expected);
}

#[test]
fn a_name_resolves_to_a_served_model_or_says_why_not() {
    check(vec![], None, "Unavailable");
    check(vec![], Some("m"), "Unavailable");
    check(vec![model(&["m", "alias/x"], true)], None, "m");
    check(vec![model(&["m", "alias/x"], true)], Some("alias/x"), "alias/x");
    check(vec![model(&["m"], true)], Some("other"), "Unknown");
    check(vec![model(&["m"], false)], Some("m"), "Unavailable");
    check(vec![model(&["m"], false)], None, "Unavailable");
    check(vec![model(&["m"], true), model(&["k"], true)], None, "Ambiguous");
    check(vec![model(&["m"], true), model(&["k"], false)], Some("k"), "Unavailable");
    let adapter = CatalogModel { parent: Some("m".into()), ..model(&["ad"], true) };
    check(vec![model(&["m"], true), adapter.clone()], None, "m");
    check(vec![model(&["m"], true), adapter], Some("ad"), "ad");
}
