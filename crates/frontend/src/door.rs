//! What every request passes before its route: id, headers, key.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::header::{CONNECTION, EXPECT, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Version};
use http_body::Body;
use tito_formats::Scope;
use tito_types::RequestId;
use tokio::time::Instant;
use tracing::debug;
use uuid::Uuid;

use crate::Route;
use crate::app::App;
use crate::keys::{KeyStore, Verdict};
use crate::reply::X_REQUEST_ID;
use crate::server::Client;
use crate::status::{Code, Door, Failure, rescue};

/// What stands before the routes of one socket.
pub(crate) struct Gate {
    pub(crate) app: Arc<App>,
    pub(crate) keys: KeyStore,
    pub(crate) audience: Audience,
}

/// Whom a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Those who send requests.
    Clients,
    /// Those who give orders.
    Operators,
}

/// Known about a request before its body is.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// When its headers had been read.
    pub(crate) started: Instant,
    /// The client's id when its header held a valid one, else a fresh one.
    pub(crate) id: RequestId,
    /// Whether the id is the client's: then it beats one in the body.
    pub(crate) id_from_client: bool,
    /// Whose media the client may name: those that came with its key.
    pub(crate) scope: Scope,
}

impl Arrival {
    fn new(headers: &HeaderMap) -> Self {
        let started = Instant::now();
        let given = headers.get(X_REQUEST_ID).and_then(|value| RequestId::parse(value.to_str().ok()?).ok());
        let id_from_client = given.is_some();
        Self { started, id: given.unwrap_or_else(fresh_id), id_from_client, scope: Scope::SHARED }
    }
}

fn fresh_id() -> RequestId {
    RequestId::parse(Uuid::new_v4().simple().encode_lower(&mut Uuid::encode_buffer()))
        .expect("hexadecimal digits are visible ASCII")
}

/// Lets a request through to its route, or answers it here. Every reply leaves with an id.
pub(crate) async fn front_door(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    let app = &gate.app;
    let mut arrival = Arrival::new(request.headers());
    let (route, generation) = match gate.audience {
        Audience::Clients => app.route_of(request.uri().path()),
        Audience::Operators => (Route::control(request.uri().path()), false),
    };
    let framed = check_framing(request.headers());
    // Who reads such a request differently may also disagree about where the next one begins.
    let close = framed.is_err() && request.version() < Version::HTTP_2;
    let admitted = framed.and_then(|()| admit(&gate, (!generation).then_some(route), &request));
    // The generation handler counts what it gets; all else is counted here.
    let counted_inside = generation && request.method() == Method::POST && admitted.is_ok();
    note_unread_body(&request);
    arrival.scope = admitted.as_ref().copied().unwrap_or_default();
    request.extensions_mut().insert(arrival.clone());
    let mut response = match admitted {
        Ok(_) => AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|panic| {
            app.tasks.report_panic("request", panic.as_ref());
            turn_away(Door::Bug)
        }),
        Err(door) => turn_away(door),
    };
    if !counted_inside {
        let code = response.extensions().get::<Code>().copied();
        app.metrics.request_ended(route, response.status(), code);
        debug!(
            target: "access",
            request = arrival.id.as_str(),
            route = route.as_str(),
            status = response.status().as_u16(),
            code = code.map(Code::as_str),
            "request"
        );
    }
    if close {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response.headers_mut().entry(X_REQUEST_ID).or_insert_with(|| {
        HeaderValue::from_str(arrival.id.as_str()).expect("a request id is visible ASCII")
    });
    response
}

fn turn_away(door: Door) -> Response {
    rescue(&Failure::Door(door)).into_response()
}

/// Refuses what a proxy in front of us may have understood differently: several hosts, and transfer codings other than
/// a single `chunked`, which we would not undo.
fn check_framing(headers: &HeaderMap) -> Result<(), Door> {
    if headers.get_all(HOST).iter().nth(1).is_some() {
        return Err(Door::Header { name: "host", message: "must not be repeated".to_owned() });
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let chunked = codings.next().is_none_or(|first| first.as_bytes().eq_ignore_ascii_case(b"chunked"));
    if chunked && codings.next().is_none() { Ok(()) } else { Err(Door::Encoding) }
}

/// The cheap checks, in the order of their answers: nothing is said about routes to those without a key. Whoever
/// passes has a scope.
fn admit(gate: &Gate, built_in: Option<Route>, request: &Request) -> Result<Scope, Door> {
    let app = &gate.app;
    let headers = request.headers();
    let header_bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers.len() > app.limits.headers || header_bytes > app.limits.header_bytes {
        return Err(Door::Headers);
    }
    let open = match built_in {
        Some(Route::Live | Route::Ready) => true,
        Some(Route::Metrics) => app.metrics_open,
        Some(
            Route::Generate
            | Route::Completions
            | Route::Models
            | Route::Model
            | Route::OpenApi
            | Route::Version
            | Route::Workers
            | Route::DebugRoute
            | Route::ResetPrefixCache
            | Route::Unknown,
        )
        | None => false,
    };
    let mut scope = Scope::SHARED;
    if !open {
        let verdict = gate.keys.judge(headers);
        app.metrics.key_refused(verdict);
        let Verdict::Granted(granted) = verdict else { return Err(Door::Key) };
        scope = granted;
    }
    let expects_other = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if headers.get(EXPECT).is_some_and(expects_other) { Err(Door::Expect) } else { Ok(scope) }
}

/// Until someone has read the body, its connection must not be closed in the client's face.
fn note_unread_body(request: &Request) {
    if let Some(client) = request.extensions().get::<Arc<Client>>() {
        client.body_unread(!request.body().is_end_stream());
    }
}
