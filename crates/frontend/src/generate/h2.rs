use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Version;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::info;

use crate::app::App;

/// Frames between the engine and a slow HTTP/2 stream (frames).
const FRAMES_MAX: usize = 1;
/// Shorter replies of known length fit the connection's send buffer and hold up nothing (bytes).
const SHORT_BYTES_MAX: u64 = 64 << 10;

/// Gives an HTTP/2 reply the stall timeout that an HTTP/1 reply gets from its connection.
///
/// A client that reads its connection but lets one stream's window run dry blocks no write: the body is just not
/// polled any more, and could not notice how long. So a task of its own polls it and hands over frame by frame;
/// when the next one is not taken in time, the body is dropped, and the engine's stream with it.
pub(super) fn guard(app: &Arc<App>, response: Response, version: Version) -> Response {
    let short = response.body().size_hint().exact().is_some_and(|bytes| bytes <= SHORT_BYTES_MAX);
    if version != Version::HTTP_2 || short {
        return response;
    }
    response.map(|body| {
        let size = body.size_hint();
        let (sender, frames) = mpsc::channel(FRAMES_MAX);
        app.tasks.spawn_owned("h2 reply", relay(Arc::clone(app), body, sender));
        Body::new(Relayed { frames, size, ended: false })
    })
}

/// What the task hands over; the end is said, so that its absence means the reply was cut short.
enum Item {
    Frame(Frame<Bytes>),
    End,
}

async fn relay(app: Arc<App>, mut body: Body, frames: mpsc::Sender<Item>) {
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = frames.closed() => return,
        };
        let item = match frame {
            Some(Ok(frame)) => Item::Frame(frame),
            Some(Err(_)) => return,
            None => Item::End,
        };
        let last = matches!(item, Item::End);
        match timeout(app.timeouts.client_stall, frames.send(item)).await {
            Ok(Ok(())) if !last => {}
            Ok(_) => return,
            Err(_) => {
                app.metrics.connections.stalled.inc();
                info!("client stopped reading an HTTP/2 stream, resetting it");
                return;
            }
        }
    }
}

struct Relayed {
    frames: mpsc::Receiver<Item>,
    size: SizeHint,
    ended: bool,
}

impl http_body::Body for Relayed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match ready!(self.frames.poll_recv(context)) {
            Some(Item::Frame(frame)) => Poll::Ready(Some(Ok(frame))),
            Some(Item::End) => {
                self.ended = true;
                Poll::Ready(None)
            }
            None => Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into()))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}
