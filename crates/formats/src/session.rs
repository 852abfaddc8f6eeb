//! What a session may be called, the same in a header and in a body.

use crate::Refusal;
use crate::object::Member;

/// Longest session name, in characters; longer ones would be kept for as long as the session lives.
pub const SESSION_CHARS_MAX: usize = 256;

/// The session of these bytes when they are a valid one: 1 to [`SESSION_CHARS_MAX`] visible ASCII characters.
pub fn parse_session(value: &[u8]) -> Option<&str> {
    let valid = (1..=SESSION_CHARS_MAX).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic);
    str::from_utf8(value).ok().filter(|_| valid)
}

pub(crate) fn read(member: Member<'_, '_>) -> Result<String, Refusal> {
    let session = member.text()?;
    if parse_session(session.as_bytes()).is_none() {
        return Err(member.refuse(format!("must be 1 to {SESSION_CHARS_MAX} visible ASCII characters")));
    }
    Ok(session)
}
