//! The index against a naive reference, and the shapes it takes.

mod audit;
mod bound;
mod differential;
mod model;
mod names;
mod readers;
mod reference;
mod shapes;

use tito_test_support::random::Random;

use super::{Block, Holder, Index, IndexConfig};

/// A large enough bound for tests that are not about the bound.
const ROOMY: IndexConfig = IndexConfig { bytes_max: 256 << 20 };

/// The chain hash of a block with this token after `parent`.
fn chain_after(parent: u64, token: u64) -> u64 {
    Random::new(parent.rotate_left(17) ^ (token + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93)).next()
}

/// What engine `engine` calls the block `chain`; engine 0 is the one that most agree with.
fn name_by(engine: u64, chain: u64) -> u64 {
    Random::new(chain ^ engine.wrapping_mul(0xA076_1D64_78BD_642F)).next()
}

/// The blocks of a prompt: chain hashes of `tokens` after the root.
fn chain(tokens: &[u64]) -> Vec<u64> {
    tokens
        .iter()
        .scan(0, |parent, &token| {
            *parent = chain_after(*parent, token);
            Some(*parent)
        })
        .collect()
}

/// The same as [`Block`]s that engine 0 names.
fn blocks(chain: &[u64]) -> Vec<Block> {
    chain.iter().map(|&chain| Block { chain, engine: name_by(0, chain) }).collect()
}

fn names(chain: &[u64]) -> Vec<u64> {
    chain.iter().map(|&chain| name_by(0, chain)).collect()
}

/// What a look-up reports, by holder.
fn found(index: &Index, chain: &[u64]) -> Vec<(Holder, u32)> {
    let mut found = Vec::new();
    index.find(chain, |holder, blocks| found.push((holder, blocks)));
    found.sort_unstable();
    found
}
