//! `GET /v1/models`: every name that can be asked for now, aliases as entries of their own; and what health and
//! version answer.

use serde::Serialize;
use serde_json::json;
use tito_types::{Catalog, CatalogModel};

use crate::refusal::error_value;

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    root: &'a str,
    parent: Option<&'a str>,
    max_model_len: u32,
}

/// The list of models that a request could be sent to now. `created` is in seconds since the Unix epoch.
pub fn models_body(catalog: &Catalog, created: u64) -> Vec<u8> {
    let names = |model: &'_ CatalogModel| model.names.len();
    let mut data = Vec::with_capacity(catalog.routable().map(names).sum());
    for model in catalog.routable() {
        data.extend(model.names.iter().map(|name| entry(name, model, created)));
    }
    render(&List { object: "list", data })
}

/// One model by name or alias, if a request could be sent to it now.
pub fn model_body(catalog: &Catalog, name: &str, created: u64) -> Option<Vec<u8>> {
    let (name, model) = catalog
        .routable()
        .find_map(|model| Some((model.names.iter().find(|known| *known == name)?, model)))?;
    Some(render(&entry(name, model, created)))
}

/// The answer to "is it alive?", which only a living process gives.
pub fn live_body() -> Vec<u8> {
    render(&json!({ "status": "live" }))
}

/// Ready: the models that can be served, and what else is to be known.
pub fn ready_body(models: &[&str], notes: &[String]) -> Vec<u8> {
    render(&json!({ "status": "ready", "models": models, "notes": notes }))
}

/// Not ready: why, beside the error envelope of this message, type and code.
pub fn not_ready_body(reasons: &[&str], message: &str, kind: &str, code: &str) -> Vec<u8> {
    let error = error_value(message, kind, None, code);
    render(&json!({ "status": "not_ready", "reasons": reasons, "error": error }))
}

/// Name and release of the server.
pub fn version_body(name: &str, version: &str) -> Vec<u8> {
    render(&json!({ "name": name, "version": version }))
}

fn entry<'a>(name: &'a str, model: &'a CatalogModel, created: u64) -> Entry<'a> {
    Entry {
        id: name,
        object: "model",
        created,
        owned_by: "tito",
        root: &model.source,
        parent: model.parent.as_deref(),
        max_model_len: model.max_model_len,
    }
}

fn render(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("plain structs can be written to memory")
}

#[cfg(test)]
mod tests;
