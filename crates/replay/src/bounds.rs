//! What caches that never forget would have found: the most any policy could.

use std::hash::{BuildHasherDefault, Hasher};

use crate::prompts::Prompts;
use crate::{EngineProfile, TraceRequest};

#[expect(clippy::disallowed_types, reason = "asked for membership only, never iterated: no order can leak")]
type Cache = std::collections::HashSet<u64, BuildHasherDefault<Identity>>;

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// Share of prompt tokens found when one cache that never forgets sees every request that fits an engine, in the order in
/// which they were recorded. No placement on any number of workers finds more when they arrive so.
pub(crate) fn one_cache(trace: &[TraceRequest], prompts: &Prompts, engine: &EngineProfile) -> Option<f64> {
    let places: Vec<Option<u32>> = trace.iter().map(|request| engine.fits(request).then_some(0)).collect();
    placed(trace, prompts, &places, 1, engine.block_tokens)
}

/// The same with one such cache per worker, and requests placed as they were. Those placed nowhere do not count; none if
/// all of them are. An output counts as there for whatever arrives after its request.
pub(crate) fn placed(
    trace: &[TraceRequest],
    prompts: &Prompts,
    places: &[Option<u32>],
    workers: u32,
    block_tokens: u32,
) -> Option<f64> {
    let mut caches = vec![Cache::default(); workers as usize];
    let (mut found, mut asked) = (0, 0);
    for &index in &prompts.order {
        let (request, chain) = (&trace[index as usize], &prompts.chains[index as usize]);
        let Some(worker) = places[index as usize] else { continue };
        asked += u64::from(request.input_length);
        let cache = &mut caches[worker as usize];
        // The last token is always computed.
        let most = ((request.input_length - 1) / block_tokens) as usize;
        let blocks = chain.iter().take(most).take_while(|block| cache.contains(*block)).count();
        found += blocks as u64 * u64::from(block_tokens);
        cache.extend(chain.iter().chain(&prompts.outputs[index as usize]).copied());
    }
    (asked > 0).then(|| found as f64 / asked as f64)
}
