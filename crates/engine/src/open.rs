use futures_util::{StreamExt, stream};
use tito_types::{EngineError, GenerateRequest};

use crate::{BoxEngine, Engine, TokenStream, lazy, merge};

/// Starts all requests of one reply as one stream, choices numbered through.
///
/// A single request is simply sent. Several run independently of each other, so that those that wait in a queue do
/// not hold back those that run; a failure of any before the first delta is the failure of all.
pub async fn open(engine: &BoxEngine, requests: Vec<GenerateRequest>) -> Result<TokenStream, EngineError> {
    let mut requests = requests;
    if requests.len() <= 1 {
        let request = requests.pop().ok_or(EngineError::Invalid {
            param: "prompt".to_owned(),
            message: "must hold at least one prompt".to_owned(),
        })?;
        return engine.generate(request).await;
    }
    let parts = requests
        .into_iter()
        .map(|request| {
            let engine = engine.clone();
            lazy(request.n, async move { engine.generate(request).await })
        })
        .collect();
    let mut merged = merge(parts);
    let (choices, places) = (merged.choices(), merged.places().clone());
    let first = TokenStream::next(&mut merged).await.ok_or(EngineError::Truncated)??;
    Ok(TokenStream::new(choices, stream::iter([Ok(first)]).chain(merged)).placed_at(places))
}
