//! The description of the interface, and the release.

use axum::response::Response;
use http::StatusCode;
use tito_formats::version_body;

use crate::reply;

/// Written by hand; a test holds it against the routes.
const DOCUMENT: &str = include_str!("openapi.json");

/// The description of the interface, OpenAPI 3.1.
pub(crate) async fn document() -> Response {
    reply::json(StatusCode::OK, DOCUMENT.as_bytes())
}

/// The release.
pub(crate) async fn version() -> Response {
    reply::json(StatusCode::OK, version_body("tito", env!("CARGO_PKG_VERSION")))
}

#[cfg(test)]
mod tests;
