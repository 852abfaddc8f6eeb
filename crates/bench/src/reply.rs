//! What a reply must be, and the folding of its parts into a verdict.
//!
//! Both routes answer with `choices` and `usage`, whole or in events, so one fold serves all four combinations.

mod shape;

use crate::config::WorkloadConfig;
use crate::failure::{Failure, FailureKind};
use crate::reply::shape::Part;
use crate::sse::Event;

/// What was asked, as far as it can be checked in the reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected {
    pub(crate) output_tokens: u32,
    pub(crate) ignore_eos: bool,
}

impl From<&WorkloadConfig> for Expected {
    fn from(workload: &WorkloadConfig) -> Self {
        Self { output_tokens: workload.output_tokens, ignore_eos: workload.ignore_eos }
    }
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
}

impl Reply {
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
        let part: Part = serde_json::from_slice(json)
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
            let ids = choice.token_ids.map(|count| count.0);
            if let Some(ids) = ids {
                *self.ids.get_or_insert(0) += ids;
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
        Ok(tokens as u32)
    }
}

#[cfg(test)]
mod tests;
