//! `POST /v1/completions`: OpenAI's route for prompts given as token ids, answered with decoded text.

mod exchange;
mod prompts;

use crate::body::{self, Parts};
use crate::envelope::Envelope;
use crate::fields::completions as fields;
use crate::media::Given;
use crate::object::{Notes, Object};
use crate::sampling::{Dialect, LogprobIds, Params};
use crate::{BindContext, Bound, Format, Refusal, migration, session, structured};

use exchange::CompletionsExchange;

/// OpenAI's completions route, as vLLM 0.32 extends it, for token-id prompts.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenAiCompletions;

/// OpenAI's default budget is 16 tokens.
const DIALECT: Dialect = Dialect { max_tokens: Some(16), logprob_ids: LogprobIds::BesideCount };

impl Format for OpenAiCompletions {
    fn bind(&self, body: &[u8], context: &BindContext<'_>) -> Result<Bound, Refusal> {
        let mut notes = Notes::new(context.strict);
        let body = Object::body(body::text(body)?, fields::BODY, &mut notes)?;
        let prompts = prompts::read(body.required("prompt")?)?;
        let mut params = Params::read(&body, DIALECT, context.sampling_defaults, &mut notes)?;
        if let Some(format) = structured::response_format(&body, &mut notes)? {
            params.sampling.structured = Some(format);
        }
        check_best_of(&body, params.n)?;
        let envelope = Envelope::read(&body, context, &mut notes)?;
        let (usage, return_ids) = (envelope.stream_usage, envelope.return_token_ids);
        let (id, stream) = (envelope.id.clone(), envelope.stream);
        let parts = Parts {
            prompts,
            media: Given::None,
            envelope,
            params,
            sampling_object: &body,
            native_sampling: None,
            reasoning: None,
            session: body.read("session_id", session::read)?,
            text: true,
        };
        parts.check_together()?;
        let requests = parts.into_requests(context)?;
        let exchange = CompletionsExchange::new(&requests, usage, return_ids, context.now_unix_seconds);
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

/// Only its absence or `n` itself can be honoured: engines do not choose among more choices than they return.
fn check_best_of(body: &Object<'_>, n: u32) -> Result<(), Refusal> {
    match body.read("best_of", |member| member.count(1))? {
        Some(best_of) if best_of != n => {
            let message = format!("is not supported: it must equal n, {n}; got {best_of}");
            Err(Refusal::new(crate::RefusalKind::NotExpressible, "best_of", message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
