//! Files that say what to send. They are read whole before anything is sent; a mistake is named by file and line.

mod data_set;
mod lines;
mod matched;
mod trace;

pub use data_set::DataSet;
pub use lines::InputError;
pub use matched::LineOrder;
pub(crate) use matched::Matched;
pub use trace::Trace;
