//! Multi-turn sessions: each turn asks with everything said before, the server's own output included.

use std::time::Duration;

use crate::config::SessionConfig;
use crate::decimal::push_decimal;
use crate::rng::Rng;
use crate::workload::{Body, Workload};

/// One conversation, at one of its turns.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    workload: &'a Workload,
    config: &'a SessionConfig,
    /// The ids of the present prompt, as JSON text without brackets.
    text: Vec<u8>,
    prompt_tokens: u32,
    /// Tokens that the present turn asks for.
    output_tokens: u32,
    /// Turns after the present one.
    turns_left: u32,
    /// Draws lengths and times.
    shape: Rng,
    /// Draws the ids of new turns.
    ids: Rng,
}

/// What a session begins with.
#[derive(Debug)]
pub(crate) struct FirstTurn {
    pub(crate) text: Vec<u8>,
    pub(crate) prompt_tokens: u32,
    /// Where it comes with the prompt.
    pub(crate) output_tokens: Option<u32>,
    pub(crate) shape: Rng,
    pub(crate) ids: Rng,
}

impl<'a> Session<'a> {
    pub(crate) fn new(workload: &'a Workload, config: &'a SessionConfig, first: FirstTurn) -> Self {
        let FirstTurn { text, prompt_tokens, output_tokens, mut shape, ids } = first;
        let turns_left = config.turns.draw(&mut shape).saturating_sub(1);
        let drawn = workload.draw_output_tokens(&mut shape);
        let output_tokens = output_tokens.unwrap_or(drawn);
        Self { workload, config, text, prompt_tokens, output_tokens, turns_left, shape, ids }
    }

    /// The body of the present turn.
    pub(crate) fn body(&self) -> Body {
        self.workload.body_of(&self.text, self.prompt_tokens, self.output_tokens)
    }

    /// Goes on to the next turn: the ids that were answered, then new ones. Returns how long the client thinks before it;
    /// none when there is no next turn.
    pub(crate) fn advance(&mut self, answered: &[u32]) -> Option<Duration> {
        self.turns_left = self.turns_left.checked_sub(1)?;
        let turn_tokens = self.config.turn_tokens.draw(&mut self.shape);
        for id in answered {
            self.push(*id);
        }
        for _ in 0..turn_tokens {
            let id = self.workload.draw_id(&mut self.ids);
            self.push(id);
        }
        self.output_tokens = self.workload.draw_output_tokens(&mut self.shape);
        Some(self.config.think_time.draw(&mut self.shape))
    }

    fn push(&mut self, id: u32) {
        self.text.push(b',');
        push_decimal(&mut self.text, id);
        self.prompt_tokens += 1;
    }
}

#[cfg(test)]
mod tests;
