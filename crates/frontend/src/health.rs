use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use tito_runtime::Stage;

use crate::app::App;
use crate::reply;
use crate::status::{Door, Failure, rescue};

/// Whether the process runs. True as long as anyone can ask.
pub(crate) async fn live() -> Response {
    reply::json(StatusCode::OK, &br#"{"status":"live"}"#[..])
}

/// Whether requests should be sent here: a listed model can be served, and we are not on our way out.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let catalog = app.catalog();
    let models: Vec<&str> = catalog.routable().map(|model| model.names[0].as_str()).collect();
    let mut reasons = Vec::new();
    if app.shutdown.stage() != Stage::Serving {
        reasons.push("draining");
    }
    if models.is_empty() {
        reasons.extend(catalog.reasons.iter().map(String::as_str));
        if catalog.reasons.is_empty() {
            reasons.push("no engine has been reached yet");
        }
    }
    if reasons.is_empty() {
        let notes = list(catalog.reasons.iter().map(String::as_str));
        let body = format!(r#"{{"status":"ready","models":{},"notes":{notes}}}"#, list(models));
        return reply::json(StatusCode::OK, body);
    }
    let told = rescue(&Failure::Door(Door::NotReady));
    // The envelope is an object of one key; the other keys go before it.
    let envelope = told.envelope();
    let error = str::from_utf8(&envelope[1..]).expect("JSON is UTF-8");
    let body = format!(r#"{{"status":"not_ready","reasons":{},{error}"#, list(reasons));
    told.with_body(body.into_bytes())
}

/// A JSON list of strings.
fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::from("[");
    for text in texts {
        if out.len() > 1 {
            out.push(',');
        }
        out.push('"');
        for character in text.chars() {
            match character {
                '"' | '\\' => out.extend(['\\', character]),
                ..' ' => write!(out, "\\u{:04x}", u32::from(character)).expect("a string takes any text"),
                _ => out.push(character),
            }
        }
        out.push('"');
    }
    out.push(']');
    out
}
