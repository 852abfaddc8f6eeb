//! Block identity and the prefix index over every (worker, rank). Pure.

mod cursor;
mod hasher;
mod index;
mod table;

pub use cursor::{Action, Batch, Cursor, Doubt};
pub use hasher::{Hasher, Prompt, cached_tokens_max};
pub use index::{BYTES_MIN, Block, Holder, Index, IndexConfig, IndexStats, UnknownParent};
pub use table::{Applied, Generations, Table, TierOverlap};
