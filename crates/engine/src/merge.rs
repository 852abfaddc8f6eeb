use std::future::Future;

use futures_util::{FutureExt, StreamExt, future, stream};
use tito_types::EngineError;

use crate::{Places, TokenStream};

/// Joins several streams into one, in the order their deltas come. Choice `i` of part `p` becomes choice
/// `i` + the number of choices in the parts before `p`. The first error ends it and drops every part. Parts that say
/// where they were sent go on saying it, in order.
pub fn merge(parts: Vec<TokenStream>) -> TokenStream {
    let (mut choices, mut places) = (0, Places::default());
    let parts: Vec<_> = parts
        .into_iter()
        .map(|part| {
            let base = choices;
            choices += part.choices();
            places.append(part.places());
            part.map(move |item| {
                item.map(|mut delta| {
                    delta.index += base;
                    delta
                })
            })
        })
        .collect();
    TokenStream::new(choices, stream::select_all(parts)).placed_at(places)
}

/// A stream that is opened when it is first read: parts of one reply that wait for admission one by one must not
/// hold back the parts that already run.
pub fn lazy(
    choices: u32,
    opening: impl Future<Output = Result<TokenStream, EngineError>> + Send + 'static,
) -> TokenStream {
    let places = Places::waiting();
    let told = places.clone();
    let opened = opening.map(move |opened| match opened {
        Ok(tokens) => {
            told.follow(tokens.places());
            tokens.left_stream()
        }
        Err(error) => stream::once(future::ready(Err(error))).right_stream(),
    });
    TokenStream::new(choices, opened.flatten_stream()).placed_at(places)
}

#[cfg(test)]
mod tests;
