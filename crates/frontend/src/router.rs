use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::app::App;
use crate::door::{Audience, Gate, front_door};
use crate::keys::KeyStore;
use crate::route::{BUILT_IN, CONTROL, Route};
use crate::status::{Door, Failure, rescue};
use crate::{generate, health, models, openapi, operator};

const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Every route for clients, behind their front door.
pub(crate) fn clients(app: &Arc<App>, keys: &KeyStore, registry: &Arc<Registry>) -> Router {
    let mut router = Router::new();
    for (path, route) in BUILT_IN {
        let handler = match route {
            Route::Models => get(models::list),
            Route::Model => get(models::one),
            Route::Live => get(health::live),
            Route::Ready => get(health::ready),
            Route::Metrics => get({
                let registry = Arc::clone(registry);
                move || std::future::ready(metrics(&registry))
            }),
            Route::OpenApi => get(openapi::document),
            Route::Version => get(openapi::version),
            Route::Workers => get(operator::workers),
            Route::DebugRoute => post(generate::dry_run),
            Route::Generate | Route::Completions | Route::ResetPrefixCache | Route::Unknown => continue,
        };
        router = router.route(path, handler);
    }
    for endpoint in &app.endpoints {
        let (app, endpoint) = (Arc::clone(app), Arc::clone(endpoint));
        let path = endpoint.path;
        let handler = move |request: Request| generate::handle(app, endpoint, request);
        router = router.route(path, post(handler));
    }
    behind(router, Gate { app: Arc::clone(app), keys: keys.clone(), audience: Audience::Clients })
}

/// Every route for those who give orders, behind a door with its own keys.
pub(crate) fn operators(app: &Arc<App>, keys: &KeyStore) -> Router {
    let mut router = Router::new();
    for (path, route) in CONTROL {
        let handler = match route {
            Route::ResetPrefixCache => post(operator::reset_prefix_cache),
            Route::Workers => get(operator::workers),
            Route::Generate
            | Route::Completions
            | Route::Models
            | Route::Model
            | Route::Live
            | Route::Ready
            | Route::Metrics
            | Route::OpenApi
            | Route::Version
            | Route::DebugRoute
            | Route::Unknown => continue,
        };
        router = router.route(path, handler);
    }
    behind(router, Gate { app: Arc::clone(app), keys: keys.clone(), audience: Audience::Operators })
}

fn behind(router: Router<Arc<App>>, gate: Gate) -> Router {
    let app = Arc::clone(&gate.app);
    router
        .fallback(|| std::future::ready(rescue(&Failure::Door(Door::UnknownRoute)).into_response()))
        .method_not_allowed_fallback(other_method)
        .layer(from_fn_with_state(Arc::new(gate), front_door))
        .with_state(app)
}

/// A method that the route does not have. The `Allow` header is the router's to add.
async fn other_method(method: Method) -> Response {
    if method == Method::OPTIONS {
        return StatusCode::NO_CONTENT.into_response();
    }
    rescue(&Failure::Door(Door::Method)).into_response()
}

fn metrics(registry: &Registry) -> Response {
    let mut text = String::new();
    if encode(&mut text, registry).is_err() {
        return rescue(&Failure::Door(Door::Bug)).into_response();
    }
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, OPENMETRICS);
    response
}
