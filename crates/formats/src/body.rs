//! The steps of binding that both formats share, in their order: JSON and types, values, model, context length.

use std::sync::Arc;

use tito_types::{
    CatalogModel, Delivery, GenerateRequest, KvOptions, Outputs, RawJson, Reasoning, Resolution, TokenId,
};

use crate::envelope::Envelope;
use crate::media::Given;
use crate::object::Object;
use crate::sampling::Params;
use crate::{BindContext, Refusal, RefusalKind};

/// Longest part of a client's model name that a message repeats, in characters.
const QUOTED_CHARS_MAX: usize = 128;
/// Most choices of one reply: prompts times `n`. Engines claim far more than a reply can keep account of.
const CHOICES_MAX: usize = 4096;
/// Most models that a message names.
const LISTED_MODELS_MAX: usize = 16;

/// A client that asks for the ids of expanded media needs to know where the media are in them, too.
const IDS_OF_RAW_MEDIA: &str = "is not supported with content_parts: engines do not say where in the prompt they put \
    the media; send features instead";

/// A body as text. JSON is UTF-8; everything after this relies on it.
pub(crate) fn text(body: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(body).map_err(|error| Refusal::bad_json(format!("the body is not UTF-8: {error}")))
}

/// One prompt and where it stood in the body.
pub(crate) struct Prompt {
    pub(crate) path: String,
    pub(crate) token_ids: Vec<TokenId>,
}

/// Everything a body asked for, each value valid by itself.
pub(crate) struct Parts<'o> {
    pub(crate) prompts: Vec<Prompt>,
    /// The media of the one prompt.
    pub(crate) media: Given,
    pub(crate) envelope: Envelope,
    pub(crate) params: Params,
    /// Where the sampling fields stood.
    pub(crate) sampling_object: &'o Object<'o>,
    pub(crate) native_sampling: Option<Arc<RawJson>>,
    pub(crate) reasoning: Option<Reasoning>,
    pub(crate) session: Option<String>,
    /// Whether the reply holds decoded text.
    pub(crate) text: bool,
}

impl Parts<'_> {
    /// Values that are fine alone and not together.
    pub(crate) fn check_together(&self) -> Result<(), Refusal> {
        let at = |name: &str| self.sampling_object.path_of(name);
        let Self { prompts, media, envelope, params, .. } = self;
        if media.raw() && envelope.return_token_ids {
            return Err(Refusal::new(RefusalKind::NotExpressible, "return_token_ids", IDS_OF_RAW_MEDIA));
        }
        if envelope.stream && params.prompt_logprobs.is_some() {
            return Err(Refusal::invalid(at("prompt_logprobs"), "is not possible with stream = true"));
        }
        let (n, count) = (params.n as usize, prompts.len());
        if n.saturating_mul(count) > CHOICES_MAX {
            let message =
                format!("must be at most {CHOICES_MAX} over all prompts, got {n} for each of {count}");
            return Err(Refusal::invalid(at("n"), message));
        }
        let several = params.n > 1 || prompts.len() > 1;
        for (name, given) in [
            ("kv_transfer_params", envelope.kv_transfer_params.is_some()),
            ("ec_transfer_params", envelope.ec_transfer_params.is_some()),
        ] {
            if given && several {
                return Err(Refusal::invalid(name, "is only possible with one prompt and n = 1"));
            }
        }
        let shortest = prompts.iter().map(|prompt| prompt.token_ids.len()).min().unwrap_or(0);
        if let Some(start) = params.routed_experts_prompt_start.filter(|start| *start as usize > shortest) {
            // Where the engine expands media, this is the part of the length that is known.
            let message = format!("must be at most the prompt length, {shortest}; got {start}");
            return Err(Refusal::invalid(at("routed_experts_prompt_start"), message));
        }
        Ok(())
    }

    /// Finds the model and makes one request per prompt.
    pub(crate) fn into_requests(self, context: &BindContext<'_>) -> Result<Vec<GenerateRequest>, Refusal> {
        let (name, model) = resolve(self.envelope.model.as_deref(), context)?;
        if self.params.n > model.n_max {
            let message = format!("must be at most {} for this model, got {}", model.n_max, self.params.n);
            return Err(Refusal::invalid(self.sampling_object.path_of("n"), message));
        }
        for Prompt { path, token_ids } in &self.prompts {
            let (tokens, max) = (token_ids.len(), model.max_model_len);
            if tokens >= max as usize {
                // Clients recognise an over-long prompt by "maximum context length".
                let message =
                    format!("this model's maximum context length is {max} tokens; the prompt has {tokens}");
                return Err(Refusal::new(RefusalKind::ContextLength, path.as_str(), message));
            }
        }
        let name = name.to_owned();
        let Self { prompts, media, envelope, params, native_sampling, reasoning, session, text, .. } = self;
        // Prompt log-probs are matched with ids, which only the engine knows once it has expanded media.
        let ids_needed = media.raw() && params.prompt_logprobs.is_some();
        let template = GenerateRequest {
            id: envelope.id,
            model: name,
            prompt: Arc::new([]),
            media: media.settle(context)?,
            n: params.n,
            sampling: params.sampling,
            stopping: params.stopping,
            native_sampling,
            outputs: Outputs {
                logprobs: params.logprobs,
                prompt_logprobs: params.prompt_logprobs,
                text,
                prompt_token_ids: envelope.return_token_ids || ids_needed,
                skip_special_tokens: params.skip_special_tokens,
                routed_experts_prompt_start: params.routed_experts_prompt_start,
            },
            kv: KvOptions {
                cache_salt: envelope.cache_salt,
                bypass_prefix_cache: params.bypass_prefix_cache,
                transfer_params: envelope.kv_transfer_params,
                ec_transfer_params: envelope.ec_transfer_params,
            },
            priority: envelope.priority,
            session: context.session.map(ToOwned::to_owned).or(session),
            rank: context.rank,
            worker: context.worker.cloned(),
            reasoning,
            delivery: if envelope.stream { Delivery::Deltas } else { Delivery::Whole },
        };
        let request =
            |prompt: Prompt| GenerateRequest { prompt: prompt.token_ids.into(), ..template.clone() };
        Ok(prompts.into_iter().map(request).collect())
    }
}

fn resolve<'a>(
    name: Option<&'a str>,
    context: &BindContext<'a>,
) -> Result<(&'a str, &'a CatalogModel), Refusal> {
    let quoted = || name.unwrap_or_default().chars().take(QUOTED_CHARS_MAX).collect::<String>();
    match context.catalog.resolve(name) {
        Resolution::Served(name, model) => Ok((name, model)),
        Resolution::Unknown => Err(Refusal::new(
            RefusalKind::UnknownModel,
            "model",
            format!("the model `{}` does not exist", quoted()),
        )),
        Resolution::Unavailable => {
            let subject = name.map_or_else(|| "a request".to_owned(), |_| format!("model `{}`", quoted()));
            let message = format!("no engine can take {subject} now");
            Err(Refusal::new(RefusalKind::ModelUnavailable, "model", message))
        }
        Resolution::Ambiguous => {
            let names = context.catalog.models.iter().filter_map(|model| model.names.first());
            let names: Vec<&str> = names.map(String::as_str).take(LISTED_MODELS_MAX).collect();
            let message = format!("is required, as several models are served: {}", names.join(", "));
            Err(Refusal::invalid("model", message))
        }
    }
}
