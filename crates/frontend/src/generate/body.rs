use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::app::App;
use crate::server::Client;
use crate::status::Door;

/// Reserved before a byte has come, whatever length the client claims (bytes).
const RESERVED_BYTES_MAX: usize = 256 << 10;

/// Reads a whole body. A body that is too long is refused before it is read where it says so, else while it is.
pub(super) async fn read(app: &App, parts: &Parts, mut body: Body) -> Result<Bytes, Door> {
    let limit = app.limits.body_bytes;
    let too_large = || Door::BodyTooLarge { limit };
    let claimed = usize::try_from(body.size_hint().lower()).map_err(|_| too_large())?;
    if claimed > limit {
        return Err(too_large());
    }
    // A body that arrived in one piece is used where it is.
    let mut only = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(data) = next(app, &mut body).await? {
        if only.len() + joined.len() + data.len() > limit {
            return Err(too_large());
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
    Ok(if joined.is_empty() { only } else { joined.freeze() })
}

/// The next piece of data; trailers are skipped.
async fn next(app: &App, body: &mut Body) -> Result<Option<Bytes>, Door> {
    while !body.is_end_stream() {
        let frame = timeout(app.timeouts.client_stall, body.frame()).await.map_err(|_| Door::BodyTimeout)?;
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
