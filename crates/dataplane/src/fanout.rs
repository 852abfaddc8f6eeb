//! Several continuations of one prompt, for engines that make one at a time. Knows nothing of workers or formats.

use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use tito_engine::{Engine, TokenStream, merge};
use tito_types::{Delta, EngineError, GenerateRequest};

/// Runs `n` continuations as `n` requests to one engine, for engines whose wire carries one at a time.
///
/// The children share the prompt's prefix blocks because they are on the same engine. Child `i` draws with seed
/// `seed + i`; only child 0 reports on the prompt; the first failure aborts them all.
pub struct Fanout<E> {
    engine: E,
    n_max: u32,
}

impl<E: Engine> Fanout<E> {
    /// `n_max` is what the engine can run at a time.
    pub fn new(engine: E, n_max: u32) -> Self {
        Self { engine, n_max }
    }
}

impl<E: Engine> Engine for Fanout<E> {
    async fn generate(&self, request: GenerateRequest) -> Result<TokenStream, EngineError> {
        if request.n == 1 {
            return self.engine.generate(request).await;
        }
        let children = children_of(&request, self.n_max)?;
        let opened = try_join_all(children.into_iter().map(|child| self.engine.generate(child))).await?;
        let parts = opened.into_iter().enumerate();
        Ok(merge(parts.map(|(i, part)| if i == 0 { part } else { without_prompt(part) }).collect()))
    }
}

/// Every child hears about the prompt from its engine, and is in the same place; the reply tells both once.
fn without_prompt(part: TokenStream) -> TokenStream {
    TokenStream::new(part.choices(), part.map(|item| item.map(|delta| Delta { prompt: None, ..delta })))
}

fn children_of(request: &GenerateRequest, n_max: u32) -> Result<Vec<GenerateRequest>, EngineError> {
    let refuse = |param: &str, message: String| EngineError::Invalid { param: param.to_owned(), message };
    if request.n == 0 || request.n > n_max {
        return Err(refuse("n", format!("must be between 1 and {n_max}, what the engine runs at a time")));
    }
    if request.kv.transfer_params.is_some() || request.kv.ec_transfer_params.is_some() {
        return Err(refuse(
            "n",
            "must be 1 with transfer parameters: a hand-off serves one continuation".into(),
        ));
    }
    let child = |i: u32| {
        let mut child = request.clone();
        child.n = 1;
        child.sampling.seed = match request.sampling.seed {
            Some(seed) => Some(seed.checked_add(i64::from(i)).ok_or_else(|| {
                refuse(
                    "seed",
                    format!("must leave room for n = {}: continuation i draws with seed + i", request.n),
                )
            })?),
            None => None,
        };
        if i > 0 {
            child.outputs.prompt_logprobs = None;
            child.outputs.prompt_token_ids = false;
        }
        Ok(child)
    };
    (0..request.n).map(child).collect()
}

#[cfg(test)]
mod tests;
