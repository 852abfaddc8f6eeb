//! Where the requests of a reply were sent: written by the router, read by whoever tells an operator.

use std::sync::{Arc, Mutex, PoisonError};

use tito_types::Placement;

/// Where the requests of one reply were sent, in order: one entry per request, filled once a worker is chosen for it
/// and replaced when another takes over. Clones see the same entries. Nobody waits while one is read or written.
#[derive(Debug, Clone, Default)]
pub struct Places(Vec<Place>);

type Place = Arc<Mutex<Option<Placement>>>;

impl Places {
    /// One request that has not been sent yet.
    pub(crate) fn waiting() -> Self {
        Self(vec![Place::default()])
    }

    /// One request, sent there.
    pub(crate) fn known(placement: Placement) -> Self {
        Self(vec![Arc::new(Mutex::new(Some(placement)))])
    }

    pub(crate) fn append(&mut self, others: &Self) {
        self.0.extend_from_slice(&others.0);
    }

    /// What has become of each request so far; absent while it waits, or where no router told.
    pub fn iter(&self) -> impl Iterator<Item = Option<Placement>> {
        self.0.iter().map(read)
    }

    /// Where the request was sent, when there is just one.
    pub fn only(&self) -> Option<Placement> {
        match self.0.as_slice() {
            [place] => read(place),
            _ => None,
        }
    }

    /// Says the same from now on as the one entry of `other`; for a request that another call took over.
    pub fn follow(&self, other: &Self) {
        if let ([place], Some(placement)) = (self.0.as_slice(), other.only()) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(placement);
        }
    }
}

fn read(place: &Place) -> Option<Placement> {
    place.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
