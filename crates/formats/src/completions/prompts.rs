use serde_json::value::RawValue;

use crate::body::Prompt;
use crate::fields::completions::TEXT_PROMPT;
use crate::object::{Member, token_ids};
use crate::{Refusal, RefusalKind};

/// Most prompts of one body (vLLM 0.32).
const PROMPTS_MAX: usize = 1024;

/// A list of token ids, or a list of such lists.
pub(super) fn read(member: Member<'_, '_>) -> Result<Vec<Prompt>, Refusal> {
    let prompts = match first_of_list(member.raw()) {
        First::Text => {
            return Err(Refusal::new(RefusalKind::NotExpressible, member.path(), TEXT_PROMPT));
        }
        First::List => several(member)?,
        First::Other => vec![Prompt { path: member.path(), token_ids: member.token_ids()? }],
    };
    match prompts.iter().find(|prompt| prompt.token_ids.is_empty()) {
        Some(prompt) => Err(Refusal::invalid(prompt.path.as_str(), "must hold at least one token id")),
        None => Ok(prompts),
    }
}

enum First {
    /// The prompt, or the first one of several, is text.
    Text,
    List,
    Other,
}

fn first_of_list(json: &str) -> First {
    let inner = json.strip_prefix('[').map_or(json, str::trim_start);
    match inner.as_bytes().first() {
        Some(b'"') => First::Text,
        Some(b'[') => First::List,
        _ => First::Other,
    }
}

fn several(member: Member<'_, '_>) -> Result<Vec<Prompt>, Refusal> {
    let lists = member.list::<&RawValue>("a list of token ids")?;
    if lists.len() > PROMPTS_MAX {
        return Err(member.refuse(format!("must hold at most {PROMPTS_MAX} prompts, got {}", lists.len())));
    }
    let read = |(at, list): (usize, &&RawValue)| {
        let path = format!("{}[{at}]", member.path());
        let token_ids = token_ids(list.get(), || path.clone())?;
        Ok(Prompt { path, token_ids })
    };
    lists.iter().enumerate().map(read).collect()
}
