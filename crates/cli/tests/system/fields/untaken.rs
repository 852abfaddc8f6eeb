//! Fields that are refused, ignored or unknown.

use serde_json::json;

use super::{engine, param, set, subjects};
use crate::docs::{Treatment, names};
use crate::harness::{Serve, assert_envelope};

#[tokio::test]
async fn a_refused_field_is_named_and_nothing_reaches_the_engine() {
    let engine = engine().await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    for subject in subjects() {
        for field in names(&subject.rows, Treatment::Refused) {
            for stream in [false, true] {
                let mut body = subject.plain.clone();
                set(&mut body, "stream", &json!(stream));
                if field.starts_with("content_parts[].") {
                    set(&mut body, "token_ids", &json!([11, 1006, 13]));
                    set(&mut body, "content_parts[].type", &json!("image_url"));
                    set(&mut body, "content_parts[].url", &json!("https://media.test/a.png"));
                }
                set(&mut body, field, &json!([[7]]));
                let reply = serve.post(subject.path, &body).send().await;
                let about = format!("{} {body}", subject.path);
                let error = assert_envelope(&about, &reply);
                assert_eq!(reply.status, 400, "{about}");
                assert_eq!(error["code"], "unsupported_parameter", "{about}");
                assert_eq!(error["param"], param(field), "{about}");
                set(&mut body, field, &json!(null));
                let inside = field.contains("structured_outputs.") || field.contains("response_format.");
                if !inside {
                    assert_eq!(serve.post(subject.path, &body).send().await.status, 200, "{about}, null");
                    engine.forget().await;
                }
            }
        }
        assert!(engine.journal().await.is_empty(), "{}", subject.path);
    }
}

#[tokio::test]
async fn an_ignored_field_changes_nothing_and_is_not_reported() {
    let engine = engine().await;
    let serve = Serve::ready(&[&engine.url()], &["--strict"]).await;
    for subject in subjects() {
        let expected = serve.post(subject.path, &subject.plain).send().await.json()["choices"].clone();
        for field in names(&subject.rows, Treatment::Ignored) {
            let mut body = subject.plain.clone();
            if field.starts_with("response_format.json_schema.") {
                let format = json!({ "type": "json_schema", "json_schema": { "schema": {} } });
                set(&mut body, "response_format", &format);
            }
            let plain = super::messages(&serve, &engine, subject.path, &body).await;
            set(&mut body, field, &json!(true));
            assert_eq!(super::messages(&serve, &engine, subject.path, &body).await, plain, "{body}");
            let reply = serve.post(subject.path, &body).send().await;
            assert_eq!(reply.header("x-tito-ignored"), None, "{body}");
            if !field.starts_with("response_format.") {
                assert_eq!(reply.json()["choices"], expected, "{body}");
            }
        }
    }
}

#[tokio::test]
async fn an_unknown_field_is_listed_or_refused_when_strict() {
    let engine = engine().await;
    let lenient = Serve::ready(&[&engine.url()], &[]).await;
    let strict = Serve::ready(&[&engine.url()], &["--strict"]).await;
    for subject in subjects() {
        for stream in [false, true] {
            let mut body = subject.plain.clone();
            set(&mut body, "stream", &json!(stream));
            let plain = super::messages(&lenient, &engine, subject.path, &body).await;
            set(&mut body, "never_heard_of", &json!({ "a": 1 }));
            set(&mut body, "structured_outputs_too", &json!(null));
            assert_eq!(super::messages(&lenient, &engine, subject.path, &body).await, plain);
            let reply = lenient.post(subject.path, &body).send().await;
            let listed = reply.header("x-tito-ignored").unwrap_or_default();
            assert!(listed.contains("never_heard_of"), "{listed}");
            let reply = strict.post(subject.path, &body).send().await;
            let error = assert_envelope(&body.to_string(), &reply);
            assert_eq!((reply.status, &error["param"]), (400, &json!("never_heard_of")));
        }
    }
}

#[tokio::test]
async fn a_field_that_the_engine_cannot_honour_is_listed_even_when_strict() {
    let engine = engine().await;
    let serve = Serve::ready(&[&engine.url()], &["--strict"]).await;
    for subject in subjects() {
        let field = names(&subject.rows, Treatment::Executed)
            .into_iter()
            .find(|field| field.ends_with("routed_experts_prompt_start"))
            .unwrap();
        let mut body = subject.plain.clone();
        set(&mut body, field, &json!(1));
        let reply = serve.post(subject.path, &body).send().await;
        assert_eq!((reply.status, reply.header("x-tito-ignored")), (200, Some(field)), "{}", reply.text());
    }
}

#[tokio::test]
async fn the_list_of_ignored_fields_is_bounded() {
    let engine = engine().await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    for subject in subjects() {
        let mut body = subject.plain.clone();
        for at in 0..200 {
            set(&mut body, &format!("unknown{at}_{}", "x".repeat(100)), &json!(1));
        }
        let reply = serve.post(subject.path, &body).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let names: Vec<&str> = reply.header("x-tito-ignored").unwrap().split(", ").collect();
        assert!(names.len() <= 33, "{} names", names.len());
        assert!(names.iter().all(|name| name.chars().count() <= 65), "{names:?}");
    }
}
