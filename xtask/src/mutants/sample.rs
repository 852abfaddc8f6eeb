//! Which mutants are tested: an order that the seed decides, and a share for each crate.

/// Sorts names into the order in which this seed draws them. The place of a name does not depend on the other names.
pub(super) fn draw(seed: u64, names: &mut [String]) {
    names.sort_by_cached_key(|name| (place(seed, name), name.clone()));
}

/// Equal shares of `sample`, in which a crate that has fewer mutants gives the rest of its share to the others.
///
/// Shares do not follow the number of mutants: a crate full of arithmetic has ten times as many per line.
pub(super) fn shares(sample: usize, available: &[usize]) -> Vec<usize> {
    let mut shares = vec![0; available.len()];
    let mut left = sample;
    while left > 0 {
        let before = left;
        for (share, available) in shares.iter_mut().zip(available) {
            if left > 0 && *share < *available {
                *share += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    shares
}

/// FNV-1a over seed and name, with the finalizer of splitmix64, without which similar names lie close together.
fn place(seed: u64, name: &str) -> u64 {
    let text = format!("{seed}:{name}");
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests;
