use std::sync::Arc;

use axum::response::Response;
use http::{HeaderValue, Version};
use tito_engine::{TokenStream, open};
use tito_formats::{Bound, Exchange, Segments};
use tito_types::{EngineError, GenerateRequest};
use tokio::sync::oneshot;

use super::{DELIVERED, h2};
use crate::app::App;
use crate::placement::X_TITO_ROUTE;
use crate::record::Record;
use crate::reply;
use crate::status::{Door, Failure, rescue};

/// Generates the whole reply, then sends it with its length.
///
/// The work is a task of its own. When the client leaves, this handler is dropped, the task hears of it at once and
/// drops the engine's stream, which aborts the request there. A reply that is ready at that moment still counts.
pub(super) async fn respond(app: &Arc<App>, bound: Bound, record: Record, version: Version) -> Response {
    let (sender, reply) = oneshot::channel();
    app.tasks.spawn_owned("generate", generate(Arc::clone(app), bound, record, sender));
    match reply.await {
        Ok(Ok((segments, route))) => {
            let mut response = reply::segments(segments);
            response.headers_mut().extend(route.map(|value| (X_TITO_ROUTE, value)));
            h2::guard(app, response, version)
        }
        Ok(Err(response)) => response,
        // The task is gone without a word: it panicked, which was logged there.
        Err(_) => axum::response::IntoResponse::into_response(rescue(&Failure::Door(Door::Bug))),
    }
}

/// The body, and where it came from for those who asked.
type Reply = Result<(Segments, Option<HeaderValue>), Response>;

async fn generate(app: Arc<App>, bound: Bound, record: Record, mut reply: oneshot::Sender<Reply>) {
    let mut work = Work { exchange: bound.exchange, record };
    let done = tokio::select! {
        biased;
        done = work.run(&app, bound.requests) => done,
        // Dropping the run drops the engine's stream; dropping the record counts the lost client.
        () = reply.closed() => return,
    };
    let Work { exchange, mut record } = work;
    drop(exchange);
    let done = match done {
        Ok(segments) => {
            record.sent(segments.len());
            record.end(DELIVERED, None);
            Ok((segments, record.route_header()))
        }
        Err(error) => Err(record.refuse(&Failure::Engine(error))),
    };
    // A client that left just now has no use for it, and nobody else has.
    let _ = reply.send(done);
}

struct Work {
    exchange: Box<dyn Exchange>,
    record: Record,
}

impl Work {
    async fn run(&mut self, app: &App, requests: Vec<GenerateRequest>) -> Result<Segments, EngineError> {
        let mut stream = open(&app.engine, requests).await?;
        self.record.placed(stream.places());
        while let Some(delta) = TokenStream::next(&mut stream).await {
            let delta = delta?;
            self.record.delta(&delta);
            self.exchange.fold(delta)?;
            self.record.usage(self.exchange.usage());
        }
        self.exchange.finish()
    }
}
