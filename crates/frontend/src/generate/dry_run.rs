use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode};
use tito_formats::{Bound, route_body};

use super::{X_TITO_IGNORED, bind, ignored_header, receive};
use crate::Route;
use crate::app::App;
use crate::door::Arrival;
use crate::reply::{self, X_REQUEST_ID};
use crate::status::{Door, Failure, rescue};

/// Says where a request to the generate route would go, one report per prompt: understood and refused as there, and
/// then not sent.
pub(crate) async fn dry_run(State(app): State<Arc<App>>, request: Request) -> Response {
    let bound = match understand(&app, request).await {
        Ok(bound) => bound,
        Err(failure) => return rescue(&failure).into_response(),
    };
    let routes: Vec<_> = bound.requests.iter().map(|request| app.operator.explain(request)).collect();
    let mut response = reply::json(StatusCode::OK, route_body(&routes));
    let id = HeaderValue::from_str(bound.id.as_str()).expect("a request id is visible ASCII");
    response.headers_mut().insert(X_REQUEST_ID, id);
    response.headers_mut().extend(ignored_header(&bound.ignored).map(|value| (X_TITO_IGNORED, value)));
    response
}

async fn understand(app: &Arc<App>, request: Request) -> Result<Bound, Failure> {
    let generate = app.endpoints.iter().find(|endpoint| endpoint.route == Route::Generate);
    let endpoint = generate.ok_or(Failure::Door(Door::UnknownRoute))?;
    let (mut parts, body) = request.into_parts();
    let arrival = parts.extensions.remove::<Arrival>().expect("the front door leaves one in every request");
    let (routing, body) = receive(app, &parts, body).await.map_err(Failure::Door)?;
    bind::Work::new(app, endpoint, &arrival, routing, body).dry().run(app).await
}
