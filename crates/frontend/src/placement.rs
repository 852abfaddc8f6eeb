//! Where a reply's prompts were sent, as a header for clients that ask.

use std::fmt::Write as _;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use tito_engine::Places;
use tito_types::Placement;

use crate::status::Door;

/// `1` asks for [`X_TITO_ROUTE`].
const X_TITO_EXPLAIN: &str = "x-tito-explain";
/// Says where each prompt was sent.
pub(crate) const X_TITO_ROUTE: HeaderName = HeaderName::from_static("x-tito-route");
/// Prompts that the header speaks of; further ones are only said to be there.
const PROMPTS_MAX: usize = 16;

/// Whether the client wants to know where its request was sent.
pub(crate) fn asked(headers: &HeaderMap) -> Result<bool, Door> {
    let all =
        |word: &str| headers.get_all(X_TITO_EXPLAIN).iter().all(|value| value.as_bytes() == word.as_bytes());
    match (all("0"), all("1")) {
        // No header is all of both.
        (true, _) => Ok(false),
        (false, true) => Ok(true),
        (false, false) => Err(Door::Header { name: X_TITO_EXPLAIN, message: "must be 1 or 0".to_owned() }),
    }
}

/// One entry per prompt, separated by commas; absent where nobody told of any.
pub(crate) fn header(places: &Places) -> Option<HeaderValue> {
    let mut value = String::new();
    let (mut prompts, mut known) = (0, false);
    for place in places.iter() {
        if prompts == PROMPTS_MAX {
            value.push_str(", ...");
            break;
        }
        if prompts > 0 {
            value.push_str(", ");
        }
        prompts += 1;
        known |= place.is_some();
        match place {
            Some(place) => entry(&place, &mut value),
            None => value.push_str("waiting"),
        }
    }
    if known { HeaderValue::from_str(&value).ok() } else { None }
}

fn entry(place: &Placement, value: &mut String) {
    let Placement { worker, rank, prompt_tokens: _, overlap_tokens, predicted_tokens, rule } = place;
    let plain = |character: char| character.is_ascii_graphic() && !matches!(character, ',' | ';');
    value.push_str("worker=");
    value.extend(worker.as_str().chars().map(|character| if plain(character) { character } else { '?' }));
    if let Some(rank) = rank {
        write!(value, "; rank={rank}").expect("a string takes any text");
    }
    write!(value, "; overlap={overlap_tokens}; predicted={predicted_tokens}; rule={rule}")
        .expect("a string takes any text");
}

#[cfg(test)]
mod tests;
