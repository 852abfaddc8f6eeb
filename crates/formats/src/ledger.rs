//! Checks what an engine delivers against what was asked, and counts it. Both formats share it.

use tito_types::{Delta, EngineError};

use crate::Usage;

/// Counts of one exchange.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Continuations of each prompt.
    n: usize,
    /// Tokens of each prompt; unknown until the engine says so where it expands media.
    prompt_tokens: Vec<Option<u32>>,
    choices: Vec<Choice>,
    /// Choices that have not ended.
    open: usize,
    /// Whether every token must come with a log-prob.
    logprobs: bool,
    /// Whether every prompt must come with log-probs.
    prompt_logprobs: bool,
}

#[derive(Debug, Clone, Default)]
struct Choice {
    output_tokens: u32,
    cached_tokens: Option<u32>,
    finished: bool,
}

impl Ledger {
    /// For `n` continuations of each prompt of so many tokens.
    pub(crate) fn new(
        n: u32,
        prompt_tokens: Vec<Option<u32>>,
        logprobs: bool,
        prompt_logprobs: bool,
    ) -> Self {
        let n = n as usize;
        let choices = vec![Choice::default(); n * prompt_tokens.len()];
        Self { n, prompt_tokens, open: choices.len(), choices, logprobs, prompt_logprobs }
    }

    /// How many choices there are.
    pub(crate) fn choices(&self) -> usize {
        self.choices.len()
    }

    /// Which prompt a choice continues.
    pub(crate) fn prompt_of(&self, choice: usize) -> usize {
        choice / self.n
    }

    /// Books one delta, or says how it breaks the contract. Returns the choice it belongs to.
    pub(crate) fn book(&mut self, delta: &Delta) -> Result<usize, EngineError> {
        let broken = |what: String| Err(EngineError::Protocol(what));
        let (index, choices) = (delta.index as usize, self.choices.len());
        let prompt = index / self.n;
        let Some(choice) = self.choices.get_mut(index) else {
            return broken(format!("choice {index} of {choices}"));
        };
        if choice.finished {
            return broken(format!("output after the end of choice {index}"));
        }
        let (tokens, logprobs) = (delta.token_ids.len(), delta.logprobs.len());
        if self.logprobs && tokens != logprobs {
            return broken(format!("{logprobs} log-probs for {tokens} tokens"));
        }
        if let Some(facts) = &delta.prompt {
            // One choice speaks for the prompt: another's word would overwrite what was already sent.
            if !index.is_multiple_of(self.n) {
                return broken(format!("choice {index} speaks of the prompt, which its first choice does"));
            }
            self.prompt_tokens[prompt] = Some(facts.prompt_tokens);
            if self.prompt_logprobs && facts.logprobs.len() != facts.prompt_tokens as usize {
                let (logprobs, tokens) = (facts.logprobs.len(), facts.prompt_tokens);
                return broken(format!("{logprobs} log-probs for {tokens} prompt tokens"));
            }
        }
        choice.output_tokens = choice.output_tokens.saturating_add(tokens as u32);
        if let Some(finish) = &delta.finish {
            choice.finished = true;
            choice.cached_tokens = finish.cached_tokens;
            let (counted, claimed) = (choice.output_tokens, finish.output_tokens);
            if counted != claimed {
                return broken(format!("{counted} tokens came, the finish counts {claimed}"));
            }
            self.open -= 1;
            if self.open == 0 && self.prompt_tokens.contains(&None) {
                return broken("nothing came about the length of the prompt".to_owned());
            }
        }
        Ok(index)
    }

    /// Whether every choice has ended.
    pub(crate) fn complete(&self) -> Result<(), EngineError> {
        if self.open == 0 { Ok(()) } else { Err(EngineError::Truncated) }
    }

    /// Counts so far. What several choices of a prompt found cached is what the first of them found.
    pub(crate) fn usage(&self) -> Usage {
        let cached = self.choices.iter().step_by(self.n).filter_map(|choice| choice.cached_tokens);
        Usage {
            prompt_tokens: self.prompt_tokens.iter().flatten().copied().map(u64::from).sum(),
            cached_tokens: cached.map(u64::from).reduce(|sum, more| sum + more),
            completion_tokens: self.choices.iter().map(|choice| u64::from(choice.output_tokens)).sum(),
        }
    }

    /// Counts so far of one choice and its prompt.
    pub(crate) fn usage_of(&self, choice: usize) -> Usage {
        let counts = &self.choices[choice];
        Usage {
            prompt_tokens: self.prompt_tokens[choice / self.n].unwrap_or(0).into(),
            cached_tokens: counts.cached_tokens.map(u64::from),
            completion_tokens: counts.output_tokens.into(),
        }
    }
}

#[cfg(test)]
mod tests;
