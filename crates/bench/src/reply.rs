//! What a reply must be, and the folding of its parts into a verdict.
//!
//! Both routes answer with `choices` and `usage`, whole or in events, so one fold serves all four combinations.

mod shape;

use crate::failure::{Failure, FailureKind};
use crate::reply::shape::{IdCount, Part, TokenIds};
use crate::sse::Event;

/// What was asked, as far as it can be checked in the reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) output_tokens: u32,
    pub(crate) ignore_eos: bool,
}

/// Output that one event, or a whole body, carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Ids among it; none where the server sends none.
    pub(crate) tokens: Option<u32>,
}

/// What has been seen of one reply.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// Ids counted one by one; absent where the server sends none.
    ids: Option<u64>,
    /// `usage.completion_tokens`, the last one seen.
    usage_tokens: Option<u64>,
    finish_reason: Option<String>,
    done: bool,
    /// The ids themselves, where they are kept.
    kept: Option<Kept>,
}

/// Ids of a reply, in their order.
#[derive(Debug)]
struct Kept {
    ids: Vec<u32>,
    /// What is beyond is wrong, found out at the end of the reply; only the memory is bounded here.
    max: usize,
}

impl Reply {
    /// A reply whose ids are kept, up to so many.
    pub(crate) fn keeping(ids_max: u32) -> Self {
        Self { kept: Some(Kept { ids: Vec::new(), max: ids_max as usize }), ..Self::default() }
    }

    /// The ids that were kept.
    pub(crate) fn into_ids(self) -> Vec<u32> {
        self.kept.map(|kept| kept.ids).unwrap_or_default()
    }

    /// Adds an event of a stream and says what output it carried.
    pub(crate) fn add_event(&mut self, event: Event<'_>) -> Result<Option<Carried>, Failure> {
        if self.done {
            return Err(Failure::quoting(FailureKind::BadStream, "after [DONE]: ", event.data));
        }
        if event.data == b"[DONE]" {
            self.done = true;
            return Ok(None);
        }
        if event.name == b"error" {
            return Err(Failure::quoting(FailureKind::ErrorReply, "error event: ", event.data));
        }
        self.add_json(event.data)
    }

    /// Adds a whole body, or the data of one event, and says what output it carried.
    pub(crate) fn add_json(&mut self, json: &[u8]) -> Result<Option<Carried>, Failure> {
        match self.kept {
            None => self.add_part::<IdCount>(json),
            Some(_) => self.add_part::<Vec<u32>>(json),
        }
    }

    fn add_part<I: TokenIds>(&mut self, json: &[u8]) -> Result<Option<Carried>, Failure> {
        let part: Part<I> = serde_json::from_slice(json)
            .map_err(|error| Failure::quoting(FailureKind::BadJson, &format!("{error}: "), json))?;
        if let Some(error) = part.error {
            return Err(Failure::quoting(FailureKind::ErrorReply, "", error.get().as_bytes()));
        }
        self.usage_tokens = part.usage.and_then(|usage| usage.completion_tokens).or(self.usage_tokens);
        let mut carried: Option<Carried> = None;
        for choice in part.choices {
            let carries_output = choice.carries_output();
            if self.finish_reason.is_some() && (carries_output || choice.finish_reason.is_some()) {
                return Err(Failure::new(FailureKind::BadStream, "output after the finish reason"));
            }
            let ids = choice.token_ids.as_ref().map(TokenIds::count);
            if let Some(ids) = ids {
                *self.ids.get_or_insert(0) += ids;
            }
            if let (Some(kept), Some(ids)) = (&mut self.kept, &choice.token_ids) {
                let room = kept.max.saturating_sub(kept.ids.len());
                kept.ids.extend(ids.known().iter().take(room));
            }
            self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
            if carries_output {
                let tokens = ids.map(|ids| u32::try_from(ids).unwrap_or(u32::MAX));
                let before = carried.and_then(|carried| carried.tokens);
                let tokens = tokens.map(|tokens| tokens.saturating_add(before.unwrap_or(0))).or(before);
                carried = Some(Carried { tokens });
            }
        }
        Ok(carried)
    }

    /// True once the stream said `[DONE]`.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// The verdict on a complete reply: the tokens it holds.
    pub(crate) fn verify(&self, expected: Expected) -> Result<u32, Failure> {
        let Some(reason) = &self.finish_reason else {
            return Err(Failure::new(FailureKind::FinishReason, "the reply ended without a finish reason"));
        };
        let fits = reason == "length" || (reason == "stop" && !expected.ignore_eos);
        if !fits {
            return Err(Failure::new(FailureKind::FinishReason, format_args!("finish reason `{reason}`")));
        }
        let tokens = match (self.ids, self.usage_tokens) {
            (None, None) => {
                return Err(Failure::new(
                    FailureKind::NoTokenCount,
                    "neither token ids nor usage in the reply",
                ));
            }
            (Some(ids), Some(usage)) if ids != usage => {
                let detail = format!("{ids} token ids, but usage says {usage}");
                return Err(Failure::new(FailureKind::TokenCount, detail));
            }
            (Some(tokens), _) | (None, Some(tokens)) => tokens,
        };
        let wanted = u64::from(expected.output_tokens);
        let right = tokens == wanted || (reason == "stop" && tokens < wanted);
        if !right {
            let detail = format!("{tokens} tokens, {wanted} asked, finish reason `{reason}`");
            return Err(Failure::new(FailureKind::TokenCount, detail));
        }
        let kept = self.kept.as_ref().map_or(tokens, |kept| kept.ids.len() as u64);
        if kept != tokens {
            let detail = "the next turn needs the ids of the reply, which holds none";
            return Err(Failure::new(FailureKind::NoTokenIds, detail));
        }
        Ok(tokens as u32)
    }
}

#[cfg(test)]
mod tests;
