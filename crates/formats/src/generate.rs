//! `POST /inference/v1/generate`: vLLM's token-in, token-out route, answered with the superset its clients read.

mod ending;
mod exchange;

use std::sync::Arc;

use tito_types::{RawJson, Reasoning};

use crate::body::{self, Parts, Prompt};
use crate::envelope::{self, Envelope};
use crate::fields::generate as fields;
use crate::media::Given;
use crate::object::{Member, Notes, Object};
use crate::sampling::{Dialect, LogprobIds, Params};
use crate::{BindContext, Bound, Format, Refusal, migration, transfer};

use exchange::{Asked, GenerateExchange};

/// vLLM's generate route (0.32): exact token ids in, exact token ids out.
#[derive(Debug, Clone, Copy, Default)]
pub struct VllmGenerate;

const DIALECT: Dialect = Dialect { max_tokens: None, logprob_ids: LogprobIds::Alone };

impl Format for VllmGenerate {
    fn bind(&self, body: &[u8], context: &BindContext<'_>) -> Result<Bound, Refusal> {
        let mut notes = Notes::new(context.strict);
        let body = Object::body(body::text(body)?, fields::BODY, &mut notes)?;
        let token_ids = body.required("token_ids")?;
        let prompt = Prompt { path: token_ids.path(), token_ids: token_ids.token_ids()? };
        if prompt.token_ids.is_empty() {
            return Err(token_ids.refuse("must hold at least one token id"));
        }
        let native = body.required("sampling_params")?;
        let sampling = Object::inside(native, fields::SAMPLING, &mut notes)?;
        let params = Params::read(&sampling, DIALECT, context.sampling_defaults, &mut notes)?;
        let mut envelope = Envelope::read(&body, context, &mut notes)?;
        envelope.cache_salt = salt(envelope.cache_salt, &sampling)?;
        let media = Given::read(&body, prompt.token_ids.len())?;
        let placeholders = media.placeholders().filter(|_| envelope.return_token_ids);
        let asked =
            Asked { stream_usage: envelope.stream_usage, token_ids: envelope.return_token_ids, placeholders };
        let (id, stream) = (envelope.id.clone(), envelope.stream);
        let parts = Parts {
            prompts: vec![prompt],
            media,
            envelope,
            params,
            sampling_object: &sampling,
            native_sampling: Some(Arc::new(RawJson::new(native.raw().to_owned()))),
            reasoning: reasoning(&body, &mut notes)?,
            session: None,
            text: false,
        };
        parts.check_together()?;
        let requests = parts.into_requests(context)?;
        let exchange = GenerateExchange::new(&requests[0], asked, context.now_unix_seconds);
        Ok(Bound {
            migration: migration::admit(&requests),
            requests,
            exchange: Box::new(exchange),
            id,
            stream,
            ignored: notes.ignored,
        })
    }
}

/// The salt may be given beside the sampling parameters or inside them.
fn salt(outer: Option<String>, sampling: &Object<'_>) -> Result<Option<String>, Refusal> {
    let inner = sampling.read("cache_salt", envelope::salt)?;
    if outer.is_some() && inner.is_some() && outer != inner {
        return Err(Refusal::invalid(
            sampling.path_of("cache_salt"),
            "must equal cache_salt where both are given",
        ));
    }
    Ok(outer.or(inner))
}

fn reasoning(body: &Object<'_>, notes: &mut Notes) -> Result<Option<Reasoning>, Refusal> {
    let ended = body.read("reasoning_ended", Member::boolean)?;
    let kwargs = match body.get("reasoning_parser_kwargs") {
        None => None,
        Some(member) => Object::inside(member, fields::REASONING, notes)?
            .read("chat_template_kwargs", transfer::opaque)?,
    };
    let given = ended.is_some() || kwargs.is_some();
    Ok(given.then_some(Reasoning { ended, chat_template_kwargs: kwargs }))
}

#[cfg(test)]
mod tests;
