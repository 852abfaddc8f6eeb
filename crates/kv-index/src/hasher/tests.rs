use std::sync::Arc;

use tito_types::{BlockExtras, MediaInBlock, TokenId};

use super::{Hasher, link};

mod prompt;

const SECRET: u128 = 0x0f1e_2d3c_4b5a_6978_8796_a5b4_c3d2_e1f0;

fn hasher() -> Hasher {
    Hasher::new(SECRET)
}

fn hashes(hasher: &Hasher, tokens: &[TokenId], block_tokens: usize) -> Vec<u64> {
    let mut out = Vec::new();
    hasher.extend(7, tokens, block_tokens, &mut out);
    out
}

/// Ids that repeat only after a long while and stay within a vocabulary.
fn ids(seed: u32, count: usize) -> Vec<TokenId> {
    (0..count as u32).map(|n| (n ^ seed.wrapping_mul(77)).wrapping_mul(2_654_435_761) >> 14).collect()
}

/// No two of `hashes` are equal, and both halves spread as numbers drawn by lot do.
fn check_spread(mut hashes: Vec<u64>, what: &str) {
    let count = hashes.len();
    for half in [|hash: &u64| (*hash >> 32) as u32, |hash: &u64| *hash as u32] {
        let mut halves: Vec<u32> = hashes.iter().map(half).collect();
        halves.sort_unstable();
        halves.dedup();
        let (lost, pairs) = (count - halves.len(), count as f64 * count as f64 / 2.0);
        let expected = pairs / 4_294_967_296.0;
        assert!((lost as f64) < expected * 1.5 + 20.0, "{what}: {lost} halves lost, {expected} expected");
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(count, hashes.len(), "{what}: collisions");
}

#[test]
fn one_secret_gives_one_identity_and_another_secret_another() {
    let tokens = ids(1, 256);
    assert_eq!(hashes(&hasher(), &tokens, 16), hashes(&Hasher::new(SECRET), &tokens, 16));
    for bit in 0..128 {
        let other = Hasher::new(SECRET ^ (1 << bit));
        assert_ne!(hashes(&hasher(), &tokens, 16)[0], hashes(&other, &tokens, 16)[0]);
        assert_ne!(hasher().root(16, None, None), other.root(16, None, None));
    }
    assert_eq!("Hasher(secret)", format!("{:?}", hasher()));
}

#[test]
fn extending_is_hashing_block_by_block_whatever_the_block_size() {
    for block_tokens in [1, 3, 4, 15, 16, 17, 32, 33, 64, 512] {
        let tokens = ids(2, 3 * block_tokens + block_tokens / 2);
        let plain = BlockExtras::default();
        let mut state = 7;
        let one_by_one: Vec<u64> = tokens
            .chunks_exact(block_tokens)
            .map(|block| {
                state = hasher().block(state, block, &plain);
                state
            })
            .collect();
        assert_eq!(one_by_one, hashes(&hasher(), &tokens, block_tokens), "{block_tokens}");
        let (mut out, split) = (Vec::new(), 2 * block_tokens);
        let middle = hasher().extend(7, &tokens[..split], block_tokens, &mut out);
        let last = hasher().extend(middle, &tokens[split..], block_tokens, &mut out);
        assert_eq!((one_by_one.clone(), one_by_one.last()), (out, Some(&last)), "{block_tokens}");
    }
}

#[test]
fn a_partial_tail_has_no_hash() {
    assert_eq!(hashes(&hasher(), &ids(3, 47), 16), hashes(&hasher(), &ids(3, 32), 16));
    let mut out = Vec::new();
    assert_eq!(7, hasher().extend(7, &ids(3, 15), 16, &mut out));
    assert_eq!(7, hasher().extend(7, &ids(3, 15), 0, &mut out));
    assert!(out.is_empty());
}

#[test]
fn every_namespace_has_its_own_root() {
    let absent = hasher().root(16, None, None);
    let roots = [
        absent,
        hasher().root(32, None, None),
        hasher().root(16, Some(("a", 0)), None),
        hasher().root(16, Some(("a", 1)), None),
        hasher().root(16, Some(("b", 0)), None),
        hasher().root(16, None, Some("a")),
        hasher().root(16, Some(("a", 0)), Some("b")),
        hasher().root(16, Some(("b", 0)), Some("a")),
        hasher().root(16, Some(("ab", 0)), None),
        hasher().root(16, None, Some("ab")),
        hasher().root(16, Some(("a\0", 0)), None),
        hasher().root(16, None, Some("\0")),
    ];
    check_spread(roots.to_vec(), "roots");
    assert_eq!(absent, hasher().root(16, Some(("", 3)), Some("")), "engines take empty names for none");
}

#[test]
fn extras_tell_blocks_apart_by_content_and_order() {
    let item = |identifier: &str, offset| MediaInBlock { identifier: Arc::from(identifier), offset };
    let media = |items: Vec<MediaInBlock>| BlockExtras { media: items, opaque: Vec::new() };
    let opaque =
        |keys: &[&[u8]]| BlockExtras { media: Vec::new(), opaque: keys.iter().map(|k| k.to_vec()).collect() };
    let extras = [
        BlockExtras::default(),
        media(vec![item("a", 2)]),
        media(vec![item("a", 3)]),
        media(vec![item("a", -2)]),
        media(vec![item("b", 2)]),
        media(vec![item("", 2)]),
        media(vec![item("a", 2), item("b", 5)]),
        media(vec![item("b", 5), item("a", 2)]),
        media(vec![item("a", 2), item("a", 2)]),
        opaque(&[b"a"]),
        opaque(&[b"a", b""]),
        opaque(&[b"", b"a"]),
        opaque(&[b""]),
        opaque(&[b"a\0"]),
        BlockExtras { media: vec![item("a", 2)], opaque: vec![b"a".to_vec()] },
    ];
    let tokens = ids(4, 16);
    check_spread(extras.iter().map(|extras| hasher().block(9, &tokens, extras)).collect(), "extras");
}

#[test]
fn payload_digests_notice_length_and_every_byte() {
    let payloads: Vec<Vec<u8>> = (0..200).map(|len| vec![0; len]).collect();
    let flipped = (0..150 * 8).map(|bit| {
        let mut payload = vec![0; 150];
        payload[bit / 8] = 1 << (bit % 8);
        payload
    });
    let digests = payloads.into_iter().chain(flipped).map(|payload| hasher().payload(&payload)).collect();
    check_spread(digests, "payloads");
}

#[test]
fn every_input_bit_reaches_every_output_bit() {
    const SAMPLES: u32 = 400;
    let hasher = hasher();
    for input_bit in 0..(16 * 32 + 64) {
        let mut flips = [0_u32; 64];
        for sample in 0..SAMPLES {
            let (mut block, mut parent) = (ids(sample, 16), hasher.plain(1, &ids(sample + SAMPLES, 32)));
            let before = hasher.plain(parent, &block);
            match input_bit {
                0..512 => block[input_bit / 32] ^= 1 << (input_bit % 32),
                bit => parent ^= 1 << (bit - 512),
            }
            let changed = before ^ hasher.plain(parent, &block);
            flips.iter_mut().enumerate().for_each(|(bit, count)| *count += (changed >> bit) as u32 & 1);
        }
        let (least, most) = (flips.iter().min().unwrap(), flips.iter().max().unwrap());
        assert!(*least > SAMPLES * 35 / 100 && *most < SAMPLES * 65 / 100, "bit {input_bit}: {flips:?}");
    }
}

#[test]
fn millions_of_nearly_equal_blocks_do_not_collide() {
    let (hasher, base) = (hasher(), ids(5, 16));
    let mut hashes = Vec::with_capacity(2_300_000);
    for position in 0..16 {
        for id in 0..120_000 {
            let mut block = base.clone();
            if block[position] != id {
                block[position] = id;
                hashes.push(hasher.plain(7, &block));
            }
        }
    }
    for (first, second) in (0..16).flat_map(|first| (first + 1..16).map(move |second| (first, second))) {
        let mut swapped: [TokenId; 16] = std::array::from_fn(|n| base[n]);
        swapped.swap(first, second);
        hashes.push(hasher.plain(7, &swapped));
        // The same sum over both places, in steps.
        hashes.extend((1..2_000).map(|step| {
            let mut shifted = swapped;
            shifted[first] = shifted[first].wrapping_add(step);
            shifted[second] = shifted[second].wrapping_sub(step);
            hasher.plain(7, &shifted)
        }));
    }
    check_spread(hashes, "near-equal blocks");
}

#[test]
fn runs_of_one_token_never_come_back_to_an_earlier_state() {
    for id in [0, 1, TokenId::MAX] {
        check_spread(hashes(&hasher(), &vec![id; 16 * 300_000], 16), "one token");
    }
}

#[test]
fn parents_of_one_block_stay_apart() {
    let (hasher, block) = (hasher(), vec![0; 16]);
    check_spread((0..500_000).map(|parent| hasher.plain(parent, &block)).collect(), "parents");
    check_spread((0..500_000).map(|parent| hasher.plain(parent << 40, &block)).collect(), "high parents");
}

#[test]
fn no_token_of_a_vocabulary_makes_a_factor_that_swallows_its_partner() {
    for secret in 0..2_000 {
        let hasher = Hasher::new(SECRET.wrapping_mul(secret));
        for key in hasher.words {
            assert!(key.wrapping_neg() >> 63 == 1, "only an id of 2^31 or more cancels the key");
        }
    }
    // As near to zero as ids reach: the partner still decides.
    let hasher = hasher();
    for (factor, partner) in [(0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4)] {
        let cancel = hasher.words[factor].wrapping_neg() & 0x7fff_ffff_7fff_ffff;
        let hashed = (0..50_000).map(|id| {
            let mut block = vec![0; 16];
            block[2 * factor] = cancel as u32;
            block[2 * factor + 1] = (cancel >> 32) as u32;
            block[2 * partner] = id;
            hasher.plain(7, &block)
        });
        check_spread(hashed.collect(), "smallest factor");
    }
}

#[test]
fn a_link_whose_factor_is_zero_keeps_the_other() {
    let distinct = |mut hashes: Vec<u64>| {
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(100_000, hashes.len());
    };
    distinct((0..100_000).map(|high| link(5, 5, high)).collect());
    distinct((0..100_000).map(|low| link(5, low, 0)).collect());
}
