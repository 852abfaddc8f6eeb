//! What hashing a prompt costs per block: `cargo run --release -p tito-kv-index --example hash_cost`.
#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::hint::black_box;
use std::time::Instant;

use tito_kv_index::{Hasher, Prompt};
use tito_types::Media;

/// Blocks per prompt: the depth of the routing workload.
const BLOCKS: usize = 590;
/// Prompts hashed per measurement, and measurements; their fastest and their median are printed.
const PROMPTS: usize = 200;
const ROUNDS: usize = 101;

fn main() {
    let hasher = Hasher::new(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    for block_tokens in [4_u32, 16, 32, 64, 256, 512] {
        let tokens: Vec<u32> =
            (0..BLOCKS as u32 * block_tokens).map(|n| n.wrapping_mul(2_654_435_761) >> 14).collect();
        let mut out = Vec::with_capacity(BLOCKS);
        let bulk = measure(|| {
            out.clear();
            black_box(hasher.extend(1, black_box(&tokens), block_tokens as usize, &mut out));
        });
        let whole = measure(|| {
            let prompt = Prompt {
                tokens: black_box(&tokens),
                media: &Media::None,
                adapter: None,
                salt: None,
                block_tokens,
            };
            black_box(prompt.chain(&hasher));
        });
        let [fastest, median, whole_fastest, whole_median] =
            [bulk[0], bulk[1], whole[0], whole[1]].map(|ns| ns / BLOCKS as f64);
        println!(
            "{block_tokens:>4} tokens: in bulk {fastest:7.2} (median {median:7.2}) ns/block, as a prompt \
             {whole_fastest:7.2} (median {whole_median:7.2}) ns/block"
        );
    }
}

/// The fastest round and the median one, in nanoseconds per call.
fn measure(mut once: impl FnMut()) -> [f64; 2] {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..PROMPTS).for_each(|_| once());
            start.elapsed().as_nanos() as f64 / PROMPTS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    [rounds[0], rounds[ROUNDS / 2]]
}
