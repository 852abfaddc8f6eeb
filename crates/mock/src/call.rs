//! One generate call: checks, a place on a rank, and the frames of its reply.
//!
//! A call owns its request in the engine: dropping it, at any moment, aborts the request.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tito_engine_sim::{Finish, RequestId};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::Status;
use vllm_proto::{GenerateResponse, SequenceOutput};

use crate::compose::{Composer, append};
use crate::engine::{Chunk, Command, End, Engine, InFlight};
use crate::faults::{BadFrame, BreakOff, Effects};
use crate::frame::Frame;
use crate::instance::Instance;
use crate::journal::AbortCause;

pub(crate) mod admit;

/// A request that is in the engine's hands.
#[derive(Debug)]
pub(crate) struct Call {
    instance: Arc<Instance>,
    composer: Composer,
    chunks: mpsc::Receiver<Chunk>,
    hold: Hold,
    effects: Effects,
    /// Frames that are ready to be sent: at most the prompt and one output.
    ready: VecDeque<Frame>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was sent.
    Fresh,
    /// The prompt was sent.
    Running,
    /// Nothing will come, and no end either.
    Silent,
    /// The end was sent.
    Done,
}

/// What a call holds while it lives: its permit, its place in the table of calls, its request in the engine.
#[derive(Debug)]
struct Hold {
    instance: Arc<Instance>,
    engine: Arc<Engine>,
    request_id: String,
    id: RequestId,
    /// Why the request is aborted when this is dropped; none once it has ended by itself.
    cause: Option<AbortCause>,
    _in_flight: InFlight,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.instance.calls.remove(&self.request_id, self.engine.rank, self.id);
        if let Some(cause) = self.cause {
            self.engine.send(Command::Abort { id: self.id, cause, answer: false });
        }
    }
}

impl Call {
    /// Waits for the whole reply.
    pub(crate) async fn whole(mut self) -> Result<Frame, Status> {
        let mut reply = GenerateResponse {
            prompt_info: Some(self.composer.prompt_info()),
            outputs: Some(SequenceOutput::default()),
        };
        let outputs = reply.outputs.get_or_insert_default();
        loop {
            let Some(item) = std::future::poll_fn(|context| self.poll_output(context)).await else {
                return Err(Status::internal("the engine stopped"));
            };
            let (output, last) = item?;
            append(outputs, output);
            if last {
                break;
            }
        }
        Ok(match self.effects.frame {
            Some((_, BadFrame::Malformed)) => Frame::malformed(),
            Some((_, bad)) => {
                spoil(outputs, bad);
                Frame::Message(reply)
            }
            None => Frame::Message(reply),
        })
    }

    /// The next output with its faults, and whether it is the last. `None` means that the engine task is gone.
    fn poll_output(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<(SequenceOutput, bool), Status>>> {
        if self.state == State::Silent {
            return Poll::Pending;
        }
        if let Some((at_token, how)) = self.effects.break_off.clone()
            && self.composer.tokens() >= at_token
        {
            return self.break_off(how);
        }
        let Some(mut chunk) = ready!(self.chunks.poll_recv(context)) else {
            self.hold.cause = None;
            return Poll::Ready(None);
        };
        let cut = self.cut_for_break(&mut chunk);
        if chunk.end.is_some() && !cut {
            self.hold.cause = None;
        }
        let composed = match self.composer.chunk(&chunk) {
            Ok(composed) => composed,
            Err(status) => return Poll::Ready(Some(Err(status))),
        };
        if composed.by_stop_string && self.hold.cause.is_some() {
            self.hold.cause = Some(AbortCause::StopString);
        }
        Poll::Ready(Some(Ok((composed.output, composed.last))))
    }

    /// Cuts a chunk where the call is broken off, so that exactly so many tokens are delivered.
    fn cut_for_break(&self, chunk: &mut Chunk) -> bool {
        let Some((at_token, _)) = &self.effects.break_off else { return false };
        let left = at_token.saturating_sub(self.composer.tokens()) as usize;
        let failed = matches!(chunk.end, Some(End::Dead | End::Refused));
        if failed || chunk.tokens.len() < left || (chunk.tokens.is_empty() && chunk.end.is_some()) {
            return false;
        }
        chunk.tokens.truncate(left);
        chunk.end = None;
        true
    }

    fn break_off(&mut self, how: BreakOff) -> Poll<Option<Result<(SequenceOutput, bool), Status>>> {
        if self.hold.cause.is_some() {
            self.hold.cause = Some(AbortCause::Fault);
        }
        match how {
            BreakOff::Status(code, message) => Poll::Ready(Some(Err(Status::new(code, message)))),
            BreakOff::EngineDead => {
                self.instance.kill_engines();
                Poll::Ready(Some(Err(Status::internal("the engine is dead"))))
            }
            BreakOff::Die => {
                self.state = State::Silent;
                self.instance.lifecycle.die();
                Poll::Pending
            }
            BreakOff::Abort => {
                self.effects.break_off = None;
                let end = Some(End::Finished(Finish::Aborted));
                let chunk = Chunk { tokens: Vec::new(), end, cached_tokens: 0 };
                let composed = self.composer.chunk(&chunk)?;
                Poll::Ready(Some(Ok((composed.output, composed.last))))
            }
        }
    }

    /// Turns an output into frames, wrong ones where a fault says so.
    fn queue(&mut self, mut output: SequenceOutput, last: bool) {
        if self.state == State::Fresh {
            self.state = State::Running;
            let info = Some(self.composer.prompt_info());
            self.ready.push_back(Frame::Message(GenerateResponse { prompt_info: info, outputs: None }));
        }
        if last {
            self.state = State::Done;
        }
        if let Some((at_token, bad)) = self.effects.frame
            && (self.composer.tokens() > at_token || last)
        {
            if bad == BadFrame::MissingFinish {
                output.finish_info = None;
            } else {
                self.effects.frame = None;
                if bad == BadFrame::Malformed {
                    return self.ready.push_back(Frame::malformed());
                }
                spoil(&mut output, bad);
            }
        }
        let message = GenerateResponse { prompt_info: None, outputs: Some(output) };
        self.ready.push_back(Frame::Message(message));
    }
}

impl Stream for Call {
    type Item = Result<Frame, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(frame) = self.ready.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if self.state == State::Done {
            return Poll::Ready(None);
        }
        match ready!(self.poll_output(context)) {
            Some(Ok((output, last))) => {
                self.queue(output, last);
                Poll::Ready(self.ready.pop_front().map(Ok))
            }
            Some(Err(status)) => {
                self.state = State::Done;
                Poll::Ready(Some(Err(status)))
            }
            None => {
                self.state = State::Done;
                Poll::Ready(Some(Err(Status::unavailable("the engine stopped"))))
            }
        }
    }
}

fn spoil(output: &mut SequenceOutput, bad: BadFrame) {
    match bad {
        BadFrame::TokenCount => output.num_tokens += 1,
        BadFrame::MissingFinish => output.finish_info = None,
        BadFrame::Index => output.index = 1,
        // Made of bytes, not of a message.
        BadFrame::Malformed => {}
    }
}
