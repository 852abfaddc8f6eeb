use std::sync::Arc;

use tito_types::{BlockExtras, Media, MediaFeatures, MediaInBlock, Modality, RawMedia};

use super::{hasher, ids};
use crate::{Prompt, cached_tokens_max};

const BLOCK: u32 = 4;

fn features(items: &[(&str, u32, u32)]) -> Media {
    let item = |&(identifier, offset, length): &(&str, u32, u32)| MediaFeatures {
        modality: Modality::Image,
        identifier: Arc::from(identifier),
        offset,
        length,
        is_embed: None,
        payload: Arc::from([]),
    };
    Media::Features(items.iter().map(item).collect())
}

/// Raw items, as (modality, URL, identifier).
fn raw(items: &[(Modality, &str, Option<&str>)]) -> Media {
    let item = |&(modality, url, identifier): &(Modality, &str, Option<&str>)| RawMedia {
        modality,
        url: Arc::from(url),
        identifier: identifier.map(Arc::from),
    };
    Media::Raw(items.iter().map(item).collect())
}

fn prompt<'a>(tokens: &'a [u32], media: &'a Media) -> Prompt<'a> {
    Prompt { tokens, media, adapter: None, salt: None, block_tokens: BLOCK }
}

/// The hashes an engine's events give: one entry of extras per block, as (identifier, offset in the block).
fn event_hashes(tokens: &[u32], extras: &[&[(&str, i64)]]) -> Vec<u64> {
    let mut state = hasher().root(BLOCK, None, None);
    let blocks = tokens.chunks_exact(BLOCK as usize).zip(extras);
    let hash = |(block, keys): (&[u32], &&[(&str, i64)])| {
        let item =
            |&(identifier, offset): &(&str, i64)| MediaInBlock { identifier: Arc::from(identifier), offset };
        let extras = BlockExtras { media: keys.iter().map(item).collect(), opaque: Vec::new() };
        state = hasher().block(state, block, &extras);
        state
    };
    blocks.map(hash).collect()
}

/// A prompt of 18 tokens (4 full blocks) with `items` hashes as events with `extras` do, of which `exact` lead.
#[track_caller]
fn check(items: &[(&str, u32, u32)], extras: [&[(&str, i64)]; 4], exact: usize) {
    let (hasher, tokens, media) = (hasher(), ids(1, 18), features(items));
    let prompt = prompt(&tokens, &media);
    assert_eq!(exact, prompt.exact_blocks());
    assert_eq!(event_hashes(&tokens, &extras), *prompt.chain(&hasher));
}

#[test]
fn media_enter_every_block_they_overlap() {
    check(&[], [&[], &[], &[], &[]], 4);
    check(&[("a", 5, 2)], [&[], &[("a", 1)], &[], &[]], 1);
    check(&[("a", 4, 4)], [&[], &[("a", 0)], &[], &[]], 1);
    check(&[("a", 3, 6)], [&[("a", 3)], &[("a", -1)], &[("a", -5)], &[]], 0);
    check(&[("a", 0, 1), ("b", 1, 2)], [&[("a", 0), ("b", 1)], &[], &[], &[]], 0);
    check(&[("a", 6, 2), ("b", 8, 4)], [&[], &[("a", 2)], &[("b", 0)], &[]], 1);
    check(&[("a", 5, 2), ("a", 13, 5)], [&[], &[("a", 1)], &[], &[("a", 1)]], 1);
    check(&[("a", 16, 2)], [&[], &[], &[], &[]], 4);
    check(&[("a", 0, 18)], [&[("a", 0)], &[("a", -4)], &[("a", -8)], &[("a", -12)]], 0);
}

#[test]
fn ranges_past_the_prompt_are_hashed_and_never_panic() {
    check(&[("a", 14, u32::MAX)], [&[], &[], &[], &[("a", 2)]], 3);
    check(&[("a", u32::MAX, u32::MAX)], [&[], &[], &[], &[]], 4);
    check(&[("a", 6, 0)], [&[], &[("a", 2)], &[], &[]], 1);
}

#[test]
fn distinct_images_in_one_layout_part_where_the_image_begins() {
    let (hasher, tokens) = (hasher(), ids(2, 32));
    let of = |identifier| {
        let media = features(&[(identifier, 9, 4)]);
        prompt(&tokens, &media).chain(&hasher)
    };
    let (first, second) = (of("a"), of("b"));
    assert_eq!(first, of("a"));
    assert_eq!(first[..2], second[..2]);
    assert!(first[2..].iter().zip(&second[2..]).all(|(first, second)| first != second));
}

#[test]
fn a_prompt_with_raw_media_is_looked_up_as_its_text() {
    let (hasher, tokens) = (hasher(), ids(3, 42));
    let media = raw(&[(Modality::Image, "data:,", None)]);
    let (with, text) = (prompt(&tokens, &media), prompt(&tokens, &Media::None));
    assert_eq!(with.exact_blocks(), 10);
    assert_eq!(with.chain(&hasher), text.chain(&hasher));
}

#[test]
fn a_prompt_as_it_was_asked_depends_on_all_of_its_raw_media_from_the_first_block_on() {
    use Modality::{Audio, Image};
    let (hasher, tokens) = (hasher(), ids(3, 42));
    let of = |media: &Media| prompt(&tokens, media).asked_chain(&hasher);
    let chains: Vec<Arc<[u64]>> = [
        raw(&[(Image, "data:,a", None)]),
        raw(&[(Image, "data:,b", None)]),
        raw(&[(Audio, "data:,a", None)]),
        raw(&[(Image, "data:,a", Some("x"))]),
        raw(&[(Image, "data:,a", None), (Image, "data:,b", None)]),
        raw(&[(Image, "data:,b", None), (Image, "data:,a", None)]),
        raw(&[(Image, "data:,a", None), (Image, "data:,a", None)]),
        Media::None,
    ]
    .iter()
    .map(of)
    .collect();
    for (at, chain) in chains.iter().enumerate() {
        assert_eq!(chain.len(), 10);
        for other in &chains[..at] {
            assert!(chain.iter().zip(&**other).all(|(chain, other)| chain != other), "chain {at}");
        }
    }
    assert_eq!(of(&raw(&[(Image, "data:,a", None)])), chains[0], "the same again");
    for media in [Media::None, features(&[("a", 5, 2)])] {
        assert_eq!(of(&media), prompt(&tokens, &media).chain(&hasher), "what is known is in the blocks");
    }
    let (media, short) = (raw(&[(Image, "data:,a", None)]), &tokens[..3]);
    let salted = Prompt { salt: Some("s"), ..prompt(&tokens, &media) };
    assert!(salted.asked_chain(&hasher).iter().zip(&*chains[0]).all(|(salted, plain)| salted != plain));
    assert!(prompt(short, &media).asked_chain(&hasher).is_empty());
}

#[test]
fn namespaces_share_no_block() {
    let (hasher, tokens) = (hasher(), ids(4, 40));
    let base = prompt(&tokens, &Media::None);
    let all = [
        base,
        Prompt { salt: Some("s"), ..base },
        Prompt { adapter: Some(("s", 0)), ..base },
        Prompt { adapter: Some(("s", 1)), ..base },
        Prompt { block_tokens: 2, ..base },
    ];
    let mut hashes: Vec<u64> = all.iter().flat_map(|one| one.chain(&hasher).to_vec()).collect();
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(count, hashes.len());
    assert!(Prompt { block_tokens: 0, ..base }.chain(&hasher).is_empty());
}

#[test]
fn the_engine_reports_whole_blocks_and_never_the_whole_prompt() {
    for ((prompt_tokens, block_tokens, overlap), reported) in [
        ((33, 16, 2), 32),
        ((32, 16, 2), 16),
        ((31, 16, 2), 16),
        ((48, 16, 1), 16),
        ((48, 16, 0), 0),
        ((1, 1, 1), 0),
        ((2, 1, 2), 1),
        ((0, 16, 3), 0),
        ((10, 0, 3), 0),
    ] {
        assert_eq!(reported, cached_tokens_max(prompt_tokens, block_tokens, overlap), "{prompt_tokens}");
    }
}
