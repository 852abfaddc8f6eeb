use axum::response::Response;
use http::StatusCode;

use crate::reply;

/// Written by hand; a test holds it against the routes.
const DOCUMENT: &str = include_str!("openapi.json");
const VERSION: &str = concat!(r#"{"name":"tito","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// The description of the interface, OpenAPI 3.1.
pub(crate) async fn document() -> Response {
    reply::json(StatusCode::OK, DOCUMENT.as_bytes())
}

/// The release.
pub(crate) async fn version() -> Response {
    reply::json(StatusCode::OK, VERSION.as_bytes())
}

#[cfg(test)]
mod tests;
