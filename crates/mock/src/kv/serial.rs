//! Bytes that a digest is taken of: a text, or a block's parent, ids and tagged keys.

pub(super) mod cbor;
pub(super) mod pickle;
