//! What caches that never forget would have found: the most any policy could.

use std::collections::BTreeSet;

use crate::TraceRequest;
use crate::trace::Prompts;

/// Share of prompt tokens found when one cache that never forgets sees the whole trace. No placement on any number of
/// workers finds more.
pub(crate) fn one_cache(trace: &[TraceRequest], prompts: &Prompts, block_tokens: u32) -> f64 {
    let everywhere = vec![Some(0); trace.len()];
    placed(trace, prompts, &everywhere, 1, block_tokens)
}

/// The same with one such cache per worker, and requests placed as they were. Those placed nowhere find nothing.
pub(crate) fn placed(
    trace: &[TraceRequest],
    prompts: &Prompts,
    places: &[Option<u32>],
    workers: u32,
    block_tokens: u32,
) -> f64 {
    let mut caches = vec![BTreeSet::new(); workers as usize];
    let (mut found, mut asked) = (0, 0);
    for &index in &prompts.order {
        let (request, chain) = (&trace[index as usize], &prompts.chains[index as usize]);
        asked += u64::from(request.input_length);
        let Some(worker) = places[index as usize] else { continue };
        let cache = &mut caches[worker as usize];
        // The last token is always computed.
        let most = ((request.input_length - 1) / block_tokens) as usize;
        let blocks = chain.iter().take(most).take_while(|block| cache.contains(*block)).count();
        found += blocks as u64 * u64::from(block_tokens);
        cache.extend(chain.iter().copied());
    }
    found as f64 / asked.max(1) as f64
}
