//! The HTTP server: routes over one engine, errors, keys, streaming.
//!
//! [`FrontendConfig::build`] binds the socket and accepts nothing yet; [`Frontend::run`] serves until the shutdown
//! sequence ends. This crate knows status codes and nothing of workers: below it is one [`BoxEngine`], beside it the
//! [`Format`]s that know the clients' JSON.
//!
//! [`BoxEngine`]: tito_engine::BoxEngine
//! [`Format`]: tito_formats::Format

mod app;
mod body;
mod budget;
mod config;
mod door;
mod error;
mod generate;
mod health;
mod keys;
mod metrics;
mod models;
mod openapi;
mod operator;
mod placement;
mod record;
mod reloadable;
mod reply;
mod route;
mod router;
mod server;
mod status;

pub use app::{FormatRoute, Parts};
pub use config::{
    BIND_WAIT_TIMEOUT, BODIES_BYTES_MAX, BODY_BYTES_MAX, BODY_TIMEOUT, CLIENT_STALL_TIMEOUT, CONNECTIONS_MAX,
    ControlConfig, FrontendConfig, HANDSHAKE_TIMEOUT, HEADER_BYTES_MAX, HEADER_TIMEOUT, HEADERS_MAX,
    IDLE_TIMEOUT, KeyConfig, Limits, Secret, Timeouts, TlsConfig,
};
pub use error::{Error, KeyError, TlsError};
pub use operator::Operator;
pub use route::Route;
pub use server::{Exit, Frontend};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
