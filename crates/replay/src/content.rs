//! Token ids that are equal where a trace says that prompts are.

use tito_engine_sim::{STEP, mix};

use crate::TraceRequest;
use crate::turns::Turns;

#[cfg(test)]
mod tests;

/// Names every token of a trace. A block's tokens follow from its id, so blocks of any other size can be cut from them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Content<'a> {
    pub(crate) trace: &'a [TraceRequest],
    pub(crate) turns: &'a Turns,
    /// Tokens that one id of the trace stands for.
    pub(crate) block_tokens: u32,
}

impl Content<'_> {
    /// The prompt, then the output.
    pub(crate) fn tokens(&self, index: u32) -> Vec<u32> {
        let request = &self.trace[index as usize];
        let input = request.input_length;
        let length = input + request.output_tokens();
        let mut tokens = Vec::with_capacity(length as usize);
        while (tokens.len() as u32) < length {
            let position = tokens.len() as u32;
            let block = position / self.block_tokens;
            // A block that prompt and output share may have two names.
            let end = (block + 1).saturating_mul(self.block_tokens).min(length);
            let end = if position < input { end.min(input) } else { end };
            let name = self.name(index, block, position < input);
            let first = position % self.block_tokens;
            tokens.extend((first..first + (end - position)).map(|at| token(name, at)));
        }
        tokens
    }

    /// Whether its output has a name that later prompts can have, too.
    pub(crate) fn output_is_named(&self, index: u32) -> bool {
        self.trace[index as usize].output_hash_ids.is_some() || self.continued_by(index).is_some()
    }

    /// What names a block of a request. A block that its prompt fills has an id. What follows is named by the trace's own
    /// ids for full blocks, else by the turn that extends it, else as far as the prompt reaches by the id of a partial
    /// block; the rest is nobody else's.
    fn name(&self, mut index: u32, block: u32, of_prompt: bool) -> u64 {
        let asked = index;
        // Each round goes on to a later request.
        loop {
            let request = &self.trace[index as usize];
            let full = request.full_blocks(self.block_tokens) as u32;
            if block < full {
                return mix(request.hash_ids[block as usize]);
            }
            let output_id = |at: u32| request.output_hash_ids.as_ref()?.get((block - at) as usize).copied();
            let all = u64::from(request.input_length) + u64::from(request.output_tokens());
            let is_full = (u64::from(block) + 1) * u64::from(self.block_tokens) <= all;
            let own = output_id(request.input_length / self.block_tokens);
            if let Some(id) = own.filter(|_| is_full) {
                return mix(id);
            }
            if let Some(next) = self.continued_by(index) {
                index = next;
                continue;
            }
            if let Some(id) = own {
                return mix(id);
            }
            let partial = request.hash_ids.get(block as usize).filter(|_| of_prompt || index != asked);
            return partial.map_or_else(|| alone(index, block), |id| mix(*id));
        }
    }

    /// The next turn, if its prompt holds this one's prompt and output.
    fn continued_by(&self, index: u32) -> Option<u32> {
        let next = self.turns.next[index as usize]?;
        let extends = self.trace[next as usize].extends(&self.trace[index as usize], self.block_tokens);
        extends.then_some(next)
    }
}

fn token(name: u64, at: u32) -> u32 {
    (name.wrapping_add(u64::from(at).wrapping_mul(STEP)) >> 32) as u32
}

/// The name of a block that no other request has.
fn alone(index: u32, block: u32) -> u64 {
    mix(mix(u64::from(index)) ^ u64::from(block) ^ 1 << 63)
}
