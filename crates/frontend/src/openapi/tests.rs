use std::collections::BTreeSet;

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode};
use serde_json::Value;
use tower::ServiceExt;

use super::DOCUMENT;
use crate::testing::engines::quick;
use crate::testing::{get, json_of, keys, post, setup, setup_with};
use crate::{ControlConfig, Route};

const KEY: &str = "operator";

const GENERATE: &str = include_str!("../../../../docs/generate.md");
const COMPLETIONS: &str = include_str!("../../../../docs/completions.md");

fn document() -> Value {
    serde_json::from_str(DOCUMENT).expect("the document is JSON")
}

/// Every path that a router serves, read from what it prints of itself: no list of ours can leave one out.
fn paths_of(router: &Router) -> BTreeSet<String> {
    let shown = format!("{router:?}");
    let (routes, _) =
        shown.split_once("fallback_router").expect("routes come before what answers in their stead");
    routes.split('"').skip(1).step_by(2).filter(|text| text.starts_with('/')).map(str::to_owned).collect()
}

/// The methods that a router takes at a path, but for HEAD, which comes with GET.
async fn methods_at(router: &Router, path: &str) -> Vec<String> {
    let path = path.replace("{*id}", "toy");
    let request = Request::options(&path).header("x-api-key", KEY).body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::NO_CONTENT, "OPTIONS {path}");
    let allow = response.headers()["allow"].to_str().unwrap();
    allow.split(',').filter(|method| *method != "HEAD").map(str::to_owned).collect()
}

/// What both sockets serve, `POST /path` each.
async fn served() -> BTreeSet<String> {
    let control = ControlConfig { listen: "127.0.0.1:0".parse().unwrap(), keys: keys(&[KEY]) };
    let setup = setup_with(quick(), |config| config.control = Some(control)).await.unwrap();
    let mut served = BTreeSet::new();
    for router in [setup.router(), setup.frontend.control_router().unwrap()] {
        for path in paths_of(&router) {
            let methods = methods_at(&router, &path).await;
            let described = path.replace("{*", "{");
            served.extend(methods.iter().map(|method| format!("{method} {described}")));
        }
    }
    served
}

#[tokio::test]
async fn every_route_is_described_and_nothing_else() {
    let document = document();
    let mut described = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys();
        described.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    assert_eq!(described, served().await);
}

#[test]
fn only_health_is_described_as_open() {
    for (path, item) in document()["paths"].as_object().unwrap() {
        let open = item["get"]["security"] == serde_json::json!([]);
        let health = matches!(Route::built_in(path), Route::Live | Route::Ready);
        assert_eq!(open, health, "{path}");
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn visit(document: &Value, value: &Value, found: &mut usize) {
        match value {
            Value::Object(members) => {
                if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                    let pointer = reference.strip_prefix('#').expect("references stay inside");
                    assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
                    *found += 1;
                }
                members.values().for_each(|member| visit(document, member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| visit(document, item, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = 0;
    visit(&document, &document, &mut found);
    assert!(found > 20);
}

/// The schema of a field, down a path such as `sampling_params.top_p`.
fn lookup<'a>(document: &'a Value, schema: &str, path: &str) -> Option<&'a Value> {
    let follow = |value: &'a Value| match value["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')),
        None => Some(value),
    };
    let mut value = &document["components"]["schemas"][schema];
    for name in path.split('.') {
        let (name, element) = name.strip_suffix("[]").map_or((name, false), |name| (name, true));
        let object = follow(value)?;
        let any = (name == "*").then(|| &object["additionalProperties"]);
        value = any.or_else(|| object["properties"].get(name))?;
        if element {
            value = follow(value)?.get("items")?;
        }
    }
    follow(value)
}

#[test]
fn every_field_that_takes_effect_is_described() {
    let document = document();
    for (page, schema) in [(GENERATE, "GenerateRequest"), (COMPLETIONS, "CompletionRequest")] {
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | executed |"));
        let mut rows = rows.peekable();
        assert!(rows.peek().is_some(), "no rows for {schema}");
        for (path, _) in rows {
            assert!(lookup(&document, schema, path).is_some(), "{path} is missing from {schema}");
        }
    }
}

/// Whether a schema of a value without members describes this one.
fn allows(schema: &Value, leaf: &Value) -> bool {
    if let Some(words) = schema["enum"].as_array() {
        return words.contains(leaf);
    }
    let word = match leaf {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::String(_) => "string",
        Value::Number(number) if number.is_f64() => "number",
        _ => "integer",
    };
    let fits = |name: &Value| name == word || (name == "number" && word == "integer");
    let types = &schema["type"];
    schema.get("const") == Some(leaf) || types.as_array().map_or(fits(types), |types| types.iter().any(fits))
}

/// Holds a reply against a schema, as far as members go: all that it has are described, all that are required are there.
fn hold(document: &Value, schema: &Value, reply: &Value, path: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(reference.trim_start_matches('#')).expect("it leads somewhere");
        return hold(document, schema, reply, path);
    }
    if let Some(either) = schema["oneOf"].as_array() {
        return either.iter().filter(|one| one["$ref"].is_string()).for_each(|one| {
            if !reply.is_null() {
                hold(document, one, reply, path);
            }
        });
    }
    match reply {
        Value::Object(members) => {
            for (name, member) in members {
                let described = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
                let described = described.unwrap_or_else(|| panic!("{path}.{name} is not described"));
                hold(document, described, member, name);
            }
            for name in schema["required"].as_array().into_iter().flatten() {
                assert!(members.contains_key(name.as_str().unwrap()), "{path}.{name} is required");
            }
        }
        Value::Array(items) => items.iter().for_each(|item| hold(document, &schema["items"], item, path)),
        leaf => assert!(allows(schema, leaf), "{path}: {leaf} is not {schema}"),
    }
}

#[tokio::test]
async fn what_operators_are_told_is_described_member_by_member() {
    let (document, setup) = (document(), setup(quick()).await);
    let prompts = r#"{"prompts":[[1,2],[3]]}"#;
    for (schema, request) in [
        ("Workers", get("/workers")),
        ("Routes", post("/debug/route", prompts.to_owned())),
        ("Models", get("/v1/models")),
    ] {
        let reply = json_of(setup.ask(request).await).await;
        hold(&document, &document["components"]["schemas"][schema], &reply, schema);
    }
}
