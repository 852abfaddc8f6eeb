//! The frontend as its clients see it, by theme.

mod access;
mod bodies;
mod calls;
mod control;
mod disconnect;
mod framing;
mod h2;
mod h2_abuse;
mod keys;
mod limits;
mod media;
mod operator;
mod shutdown;
mod streaming;
mod tls;
