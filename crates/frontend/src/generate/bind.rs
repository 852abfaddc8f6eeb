use std::sync::Arc;

use tito_formats::{BindContext, Bound, MediaCache, Refusal, SamplingDefaults, Scope};
use tito_types::{Catalog, RequestId};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::headers::Routing;
use crate::app::{App, Endpoint, now_unix_seconds};
use crate::body::Received;
use crate::config::INLINE_BIND_BYTES_MAX;
use crate::door::Arrival;
use crate::status::{Door, Failure};

/// A body and all it takes to understand it, ready to be moved to another thread.
pub(super) struct Work {
    endpoint: Arc<Endpoint>,
    catalog: Arc<Catalog>,
    id: RequestId,
    id_from_client: bool,
    routing: Routing,
    media: Arc<MediaCache>,
    scope: Scope,
    remember: bool,
    sampling_defaults: SamplingDefaults,
    strict: bool,
    body: Received,
}

impl Work {
    pub(super) fn new(
        app: &App,
        endpoint: &Arc<Endpoint>,
        arrival: &Arrival,
        routing: Routing,
        body: Received,
    ) -> Self {
        Self {
            endpoint: Arc::clone(endpoint),
            catalog: app.catalog(),
            id: arrival.id.clone(),
            id_from_client: arrival.id_from_client,
            routing,
            media: Arc::clone(&app.media),
            scope: arrival.scope,
            remember: true,
            sampling_defaults: app.sampling_defaults,
            strict: app.strict,
            body,
        }
    }

    /// The same, and nothing of it is remembered for later requests.
    pub(super) fn dry(self) -> Self {
        Self { remember: false, ..self }
    }

    /// Binds a small body here and a large one where it holds up nobody. The body is gone afterwards, and its share
    /// given back. A large body that gets no turn in time is refused; one whose client has left gets none.
    pub(super) async fn run(self, app: &App) -> Result<Bound, Failure> {
        if self.body.bytes.len() <= INLINE_BIND_BYTES_MAX {
            return self.bind().map_err(Failure::Refused);
        }
        let turn = Arc::clone(&app.large_binds).acquire_owned();
        let permit = timeout(app.timeouts.bind_wait, turn)
            .await
            .map_err(|_| Failure::Door(Door::Busy))?
            .expect("the semaphore is never closed");
        let left = CancellationToken::new();
        let _leaving = left.clone().drop_guard();
        let bound = app.tasks.spawn_blocking("bind", move || {
            let _permit = permit;
            (!left.is_cancelled()).then(|| self.bind())
        });
        match bound.await {
            Ok(Some(bound)) => bound.map_err(Failure::Refused),
            // Nobody is here to see this.
            Ok(None) => Err(Failure::Door(Door::ClientGone)),
            Err(_) => Err(Failure::Door(Door::Bug)),
        }
    }

    fn bind(self) -> Result<Bound, Refusal> {
        let context = BindContext {
            catalog: &self.catalog,
            header_id: self.id_from_client.then(|| self.id.clone()),
            fresh_id: self.id,
            session: self.routing.session.as_deref(),
            rank: self.routing.rank,
            worker: self.routing.worker.as_ref(),
            media: &self.media,
            scope: self.scope,
            remember: self.remember,
            now_unix_seconds: now_unix_seconds(),
            sampling_defaults: self.sampling_defaults,
            strict: self.strict,
        };
        self.endpoint.format.bind(&self.body.bytes, &context)
    }
}
