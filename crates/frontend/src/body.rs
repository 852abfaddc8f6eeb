//! Reading a whole body, within bounds of size, time and what all bodies take together. Knows nothing of their contents.

use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout};

use crate::app::App;
use crate::budget::{Budget, Share};
use crate::server::Client;
use crate::status::Door;

/// Reserved before a byte has come, whatever length the client claims (bytes).
const RESERVED_BYTES_MAX: usize = 256 << 10;

/// A whole body, with what it takes of the room for all of them.
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    _share: Share,
}

/// Reads a whole body into `room`. A body that is too long is refused before it is read where it says so, else while it is; one
/// that all bodies together leave no room for, when it comes to that.
pub(crate) async fn read(
    app: &App,
    parts: &Parts,
    mut body: Body,
    limit: usize,
    room: &Arc<Budget>,
) -> Result<Received, Door> {
    let started = Instant::now();
    let too_large = || Door::BodyTooLarge { limit };
    let claimed = usize::try_from(body.size_hint().lower()).map_err(|_| too_large())?;
    if claimed > limit {
        return Err(too_large());
    }
    let mut share = room.share();
    // A body that arrived in one piece is used where it is.
    let mut only = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(data) = next(app, started, &mut body).await? {
        if only.len() + joined.len() + data.len() > limit {
            return Err(too_large());
        }
        if !share.grow(data.len()) {
            return Err(Door::Busy);
        }
        if only.is_empty() && joined.is_empty() {
            only = data;
        } else {
            if joined.is_empty() {
                joined.reserve(claimed.min(RESERVED_BYTES_MAX));
                joined.extend_from_slice(&std::mem::take(&mut only));
            }
            joined.extend_from_slice(&data);
        }
    }
    if let Some(client) = parts.extensions.get::<Arc<Client>>() {
        client.body_unread(false);
    }
    let bytes = if joined.is_empty() { only } else { joined.freeze() };
    Ok(Received { bytes, _share: share })
}

/// The next piece of data; trailers are skipped.
async fn next(app: &App, started: Instant, body: &mut Body) -> Result<Option<Bytes>, Door> {
    while !body.is_end_stream() {
        let left = app.timeouts.body.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(Door::BodyTimeout);
        }
        let frame = timeout(app.timeouts.client_stall.min(left), body.frame())
            .await
            .map_err(|_| Door::BodyTimeout)?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| Door::BodyBroken)?;
        if let Ok(data) = frame.into_data()
            && !data.is_empty()
        {
            return Ok(Some(data));
        }
    }
    Ok(None)
}
