//! What a body says about the request as a whole, read the same way for both formats.

use tito_types::{RawJson, RequestId};

use crate::object::{Member, Notes, Object};
use crate::{BindContext, Refusal, fields, transfer};

/// Longest cache salt, in characters.
const SALT_CHARS_MAX: usize = 128;

/// Everything about a request but its tokens and how they are drawn.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) id: RequestId,
    pub(crate) model: Option<String>,
    pub(crate) stream: bool,
    pub(crate) stream_usage: StreamUsage,
    pub(crate) return_token_ids: bool,
    pub(crate) cache_salt: Option<String>,
    pub(crate) priority: i32,
    pub(crate) kv_transfer_params: Option<RawJson>,
    pub(crate) ec_transfer_params: Option<RawJson>,
}

/// When a stream reports usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamUsage {
    Never,
    AtTheEnd,
    /// With every chunk, and at the end.
    Always,
}

impl Envelope {
    pub(crate) fn read(
        body: &Object<'_>,
        context: &BindContext<'_>,
        notes: &mut Notes,
    ) -> Result<Self, Refusal> {
        let body_id = body.read("request_id", request_id)?;
        let id = context.header_id.clone().or(body_id).unwrap_or_else(|| context.fresh_id.clone());
        let stream = body.flag("stream")?;
        Ok(Self {
            id,
            model: body.read("model", Member::text)?,
            stream,
            stream_usage: stream_usage(body, stream, notes)?,
            return_token_ids: body.flag("return_token_ids")?,
            cache_salt: body.read("cache_salt", salt)?,
            priority: body
                .read("priority", |member| member.integer(i32::MIN.into(), i32::MAX.into()))?
                .map_or(0, |priority| priority as i32),
            kv_transfer_params: body.read("kv_transfer_params", transfer::kv)?,
            ec_transfer_params: body.read("ec_transfer_params", transfer::opaque)?,
        })
    }
}

fn request_id(member: Member<'_, '_>) -> Result<RequestId, Refusal> {
    RequestId::parse(&member.text()?).map_err(|error| member.refuse(error.to_string()))
}

fn stream_usage(body: &Object<'_>, stream: bool, notes: &mut Notes) -> Result<StreamUsage, Refusal> {
    let Some(member) = body.get("stream_options") else { return Ok(StreamUsage::Never) };
    let options = Object::inside(member, fields::STREAM_OPTIONS, notes)?;
    let (at_the_end, always) = (options.flag("include_usage")?, options.flag("continuous_usage_stats")?);
    if !stream {
        return Err(member.refuse("is only possible with stream = true"));
    }
    match (at_the_end, always) {
        (false, false) => Ok(StreamUsage::Never),
        (true, false) => Ok(StreamUsage::AtTheEnd),
        (true, true) => Ok(StreamUsage::Always),
        (false, true) => {
            Err(Refusal::invalid(options.path_of("continuous_usage_stats"), "needs include_usage = true"))
        }
    }
}

/// A name for a part of the prefix cache that other salts cannot see.
pub(crate) fn salt(member: Member<'_, '_>) -> Result<String, Refusal> {
    let salt = member.text()?;
    let length = salt.chars().take(SALT_CHARS_MAX + 1).count();
    if !(1..=SALT_CHARS_MAX).contains(&length) || salt.contains(['@', '/', '\\', '\0']) {
        let message = format!("must be 1 to {SALT_CHARS_MAX} characters, none of them @, /, \\ or NUL");
        return Err(member.refuse(message));
    }
    Ok(salt)
}
