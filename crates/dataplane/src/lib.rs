//! The layers around an engine: [`Admit`] at the door, [`Fanout`] just above the adapter.
//!
//! Each is an [`Engine`](tito_engine::Engine) around an engine and is tested alone over a fake one. Their order is
//! written once, in the binary. This crate must not know formats, HTTP, protocols or workers.

mod admit;
mod fanout;

pub use admit::{Admit, AdmitConfig, AdmitMetrics};
pub use fanout::Fanout;
