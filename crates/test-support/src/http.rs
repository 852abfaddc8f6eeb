//! HTTP clients: one request per connection ([`Call`]), or bytes as a test spells them ([`Raw`]).

mod call;
mod raw;
mod reply;

pub use call::{Call, InFlight, Open, Tls};
pub use raw::{Raw, get_text, post_text};
pub use reply::{Reply, assert_envelope, check_envelope};
