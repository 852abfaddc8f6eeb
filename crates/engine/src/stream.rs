//! The deltas of one request and how they end. Knows nothing of where they come from.

use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tito_types::{Delta, EngineError, Placement};

use crate::Places;

/// Sees every delta before the reader does.
type Observer = Box<dyn FnMut(&Delta) + Send>;

type Deltas = Pin<Box<dyn Stream<Item = Result<Delta, EngineError>> + Send>>;

/// The deltas of one request. Ends exactly one way: every choice finished, one error, or dropped.
///
/// The source and everything [held](TokenStream::hold) are released the moment it ends, not when the reader lets go.
/// Silence without an end is an error: a source that closes early yields [`EngineError::Truncated`].
pub struct TokenStream {
    /// Gone once ended.
    source: Option<Source>,
    /// Which choices have finished; its length is the number of choices.
    finished: Vec<bool>,
    unfinished: usize,
    guards: Vec<Box<dyn Any + Send>>,
    observers: Vec<Observer>,
    places: Places,
}

enum Source {
    Whole(Box<Delta>),
    Deltas(Deltas),
}

impl TokenStream {
    /// A stream of `choices` choices fed by `deltas`; what `deltas` yields after the end is never read.
    pub fn new(
        choices: u32,
        deltas: impl Stream<Item = Result<Delta, EngineError>> + Send + 'static,
    ) -> Self {
        Self::from_source(choices, Source::Deltas(Box::pin(deltas)))
    }

    /// One choice that is already complete.
    pub fn whole(delta: Delta) -> Self {
        Self::from_source(1, Source::Whole(Box::new(delta)))
    }

    fn from_source(choices: u32, source: Source) -> Self {
        let choices = choices as usize;
        Self {
            source: Some(source),
            finished: vec![false; choices],
            unfinished: choices,
            guards: Vec::new(),
            observers: Vec::new(),
            places: Places::default(),
        }
    }

    /// How many choices will finish.
    pub fn choices(&self) -> u32 {
        self.finished.len() as u32
    }

    /// Whether everything is here already, so that nothing can go wrong any more.
    pub fn is_whole(&self) -> bool {
        matches!(self.source, Some(Source::Whole(_)))
    }

    /// Keeps `guard` alive until the stream ends or is dropped.
    #[must_use]
    pub fn hold(mut self, guard: impl Send + 'static) -> Self {
        if self.source.is_some() {
            self.guards.push(Box::new(guard));
        }
        self
    }

    /// Shows every delta to `observer`, which is let go, with all it owns, when the stream ends or is dropped.
    #[must_use]
    pub fn observe(mut self, observer: impl FnMut(&Delta) + Send + 'static) -> Self {
        if self.source.is_some() {
            self.observers.push(Box::new(observer));
        }
        self
    }

    /// Says where the one request behind this stream was sent.
    #[must_use]
    pub fn placed(self, placement: Placement) -> Self {
        self.placed_at(Places::known(placement))
    }

    /// Says where the requests behind this stream were sent: what a layer that makes a new stream out of others takes
    /// over from them.
    #[must_use]
    pub fn placed_at(mut self, places: Places) -> Self {
        self.places = places;
        self
    }

    /// Where the requests behind this stream were sent, as far as a router told.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Where the request behind this stream was sent, when it is just one and a router told.
    pub fn placement(&self) -> Option<Placement> {
        self.places.only()
    }

    /// The next delta; `None` after the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Delta, EngineError>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    fn end(&mut self) {
        self.source = None;
        self.guards.clear();
        self.observers.clear();
    }

    /// Books one delta; an error here ends the stream.
    fn admit(&mut self, delta: Delta) -> Result<Delta, EngineError> {
        let Some(finished) = self.finished.get_mut(delta.index as usize) else {
            return Err(EngineError::Protocol(format!("choice {} of {}", delta.index, self.finished.len())));
        };
        if *finished {
            return Err(EngineError::Protocol(format!("output after the end of choice {}", delta.index)));
        }
        if delta.finish.is_some() {
            *finished = true;
            self.unfinished -= 1;
        }
        Ok(delta)
    }
}

impl Stream for TokenStream {
    type Item = Result<Delta, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = match self.source.take() {
            None => return Poll::Ready(None),
            Some(Source::Whole(delta)) => Ok(*delta),
            Some(Source::Deltas(mut deltas)) => {
                let polled = deltas.as_mut().poll_next(context);
                self.source = Some(Source::Deltas(deltas));
                ready!(polled).unwrap_or(Err(EngineError::Truncated))
            }
        };
        let item = item.and_then(|delta| self.admit(delta));
        if let Ok(delta) = &item {
            self.observers.iter_mut().for_each(|observer| observer(delta));
        }
        if item.is_err() || self.unfinished == 0 {
            self.end();
        }
        Poll::Ready(Some(item))
    }
}

impl fmt::Debug for TokenStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenStream").field("unfinished", &self.unfinished).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
