//! The life of a generation request, from its body to its reply.

mod bind;
mod dry_run;
mod h2;
pub(crate) mod headers;
mod sse;
mod unary;

pub(crate) use dry_run::dry_run;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{CONNECTION, HeaderName};
use http::request::Parts;
use http::{HeaderValue, StatusCode, Version};
use tito_formats::Bound;
use tito_runtime::Stage;
use tito_types::EngineError;

use crate::app::{App, Endpoint};
use crate::body;
use crate::door::Arrival;
use crate::placement;
use crate::record::Record;
use crate::reply::X_REQUEST_ID;
use crate::status::{Door, Failure};

/// Lists the request fields that were neither used nor refused.
const X_TITO_IGNORED: HeaderName = HeaderName::from_static("x-tito-ignored");
/// Longest value of that header (bytes).
const IGNORED_BYTES_MAX: usize = 4 << 10;

/// Serves one request to a generation route.
pub(crate) async fn handle(app: Arc<App>, endpoint: Arc<Endpoint>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let arrival = parts.extensions.remove::<Arrival>().expect("the front door leaves one in every request");
    let mut record = Record::begin(&app, &endpoint, &arrival);
    let version = parts.version;
    if app.shutdown.stage() >= Stage::Draining {
        let mut response = record.refuse(&Failure::Engine(EngineError::Draining));
        if version < Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        return response;
    }
    let bound = match understand(&app, &endpoint, &arrival, &mut record, &parts, body).await {
        Ok(bound) => bound,
        Err(failure) => return record.refuse(&failure),
    };
    record.bound(&bound);
    let (ignored, id) = (ignored_header(&bound.ignored), record.id_header());
    let mut response = if bound.stream {
        sse::respond(&app, bound, record, version).await
    } else {
        unary::respond(&app, bound, record, version).await
    };
    let headers = response.headers_mut();
    headers.insert(X_REQUEST_ID, id);
    headers.extend(ignored.map(|value| (X_TITO_IGNORED, value)));
    response
}

/// Reads and understands a request. Nothing is spent on it until this has succeeded.
async fn understand(
    app: &Arc<App>,
    endpoint: &Arc<Endpoint>,
    arrival: &Arrival,
    record: &mut Record,
    parts: &Parts,
    body: Body,
) -> Result<Bound, Failure> {
    record.explain(placement::asked(&parts.headers).map_err(Failure::Door)?);
    let (routing, body) = receive(app, parts, body).await.map_err(Failure::Door)?;
    record.received(body.bytes.len());
    bind::Work::new(app, endpoint, arrival, routing, body).run(app).await
}

/// Reads all of a request, and understands its headers.
async fn receive(
    app: &Arc<App>,
    parts: &Parts,
    body: Body,
) -> Result<(headers::Routing, body::Received), Door> {
    headers::check_content(&parts.headers)?;
    let routing = headers::Routing::read(&parts.headers)?;
    Ok((routing, body::read(app, parts, body, app.limits.body_bytes, &app.bodies).await?))
}

/// The paths, separated by commas; what does not fit is left out, and said to be.
fn ignored_header(ignored: &[String]) -> Option<HeaderValue> {
    if ignored.is_empty() {
        return None;
    }
    let mut value = String::new();
    for path in ignored {
        if value.len() + path.len() + ", ...".len() > IGNORED_BYTES_MAX {
            value.push_str("...");
            break;
        }
        value
            .extend(path.chars().map(|character| if character.is_ascii_graphic() { character } else { '?' }));
        value.push_str(", ");
    }
    HeaderValue::from_str(value.trim_end_matches(", ")).ok()
}

/// What a reply that was delivered as planned is counted as.
const DELIVERED: StatusCode = StatusCode::OK;
