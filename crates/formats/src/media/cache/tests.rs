use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn known(payload: &[u8]) -> Known {
    Known::new(Modality::Image, payload.into())
}

/// What is found under a name, in the shared scope.
fn found(cache: &MediaCache, name: &str) -> Option<Vec<u8>> {
    cache.get(Scope::SHARED, Modality::Image, &name.into()).map(|known| known.payload.to_vec())
}

fn put(cache: &MediaCache, name: &str, payload: &[u8]) {
    cache.put(Scope::SHARED, Modality::Image, &name.into(), known(payload));
}

/// Room for so many entries with names of one byte and payloads of ten.
fn room(entries: usize) -> MediaCache {
    MediaCache::new(entries * (ENTRY_BYTES + 11))
}

#[test]
fn the_same_scope_modality_and_name_find_a_payload_and_nothing_else_does() {
    let cache = room(8);
    let [one, two] = [1, 2].map(|key| Scope::of_key([key; 32]));
    let name: Arc<str> = "a".into();
    cache.put(one, Modality::Image, &name, known(b"mine"));
    assert!(cache.get(one, Modality::Image, &name).is_some());
    for (scope, modality, name) in [
        (two, Modality::Image, "a"),
        (Scope::SHARED, Modality::Image, "a"),
        (one, Modality::Audio, "a"),
        (one, Modality::Image, "b"),
    ] {
        assert!(cache.get(scope, modality, &name.into()).is_none(), "{scope:?} {modality:?} {name}");
    }
}

#[test]
fn other_bytes_under_a_name_take_its_place_and_have_their_own_identity() {
    let cache = room(4);
    put(&cache, "a", b"first");
    let before = cache.get(Scope::SHARED, Modality::Image, &"a".into()).unwrap();
    put(&cache, "a", b"second");
    let after = cache.get(Scope::SHARED, Modality::Image, &"a".into()).unwrap();
    assert_eq!((&*before.payload, &*after.payload), (&b"first"[..], &b"second"[..]));
    assert_ne!(before.identifier, after.identifier);
    assert_eq!(cache.stats(), MediaCacheStats { entries: 1, bytes: 1 + 6 + ENTRY_BYTES });
}

#[test]
fn a_peek_finds_the_same_and_is_no_use_of_it() {
    let cache = room(2);
    put(&cache, "a", &[0; 10]);
    put(&cache, "b", &[0; 10]);
    let peeked = cache.peek(Scope::SHARED, Modality::Image, &"a".into());
    assert_eq!(&*peeked.unwrap().payload, &[0; 10]);
    assert!(cache.peek(Scope::SHARED, Modality::Audio, &"a".into()).is_none());
    put(&cache, "c", &[0; 10]);
    assert!(found(&cache, "a").is_none(), "it was still the one not used for longest");
    assert!(found(&cache, "b").is_some());
}

#[test]
fn what_was_not_used_for_longest_is_forgotten_first() {
    let cache = room(3);
    for name in ["a", "b", "c"] {
        put(&cache, name, &[0; 10]);
    }
    assert!(found(&cache, "a").is_some(), "a use of a");
    put(&cache, "d", &[0; 10]);
    let left = ["a", "b", "c", "d"].map(|name| found(&cache, name).is_some());
    assert_eq!(left, [true, false, true, true]);
    put(&cache, "e", &[0; 2 * (ENTRY_BYTES + 11) - ENTRY_BYTES - 1]);
    let left = ["a", "b", "c", "d", "e"].map(|name| found(&cache, name).is_some());
    assert_eq!(left, [false, false, false, true, true]);
}

#[test]
fn a_payload_larger_than_the_bound_is_not_kept_and_costs_no_other() {
    let cache = room(1);
    put(&cache, "a", &[0; 10]);
    put(&cache, "b", &[0; 11]);
    assert_eq!(["a", "b"].map(|name| found(&cache, name).is_some()), [true, false]);
    put(&cache, "a", &[0; 11]);
    assert_eq!(found(&cache, "a"), None, "the old bytes would be the wrong ones");
    assert_eq!(cache.stats(), MediaCacheStats::default());
    let nothing = MediaCache::new(0);
    put(&nothing, "a", b"");
    assert_eq!(nothing.stats(), MediaCacheStats::default());
}

#[test]
fn neither_payloads_nor_names_nor_keys_are_shown() {
    let scopes = [Scope::SHARED, Scope::of_key([7; 32])];
    assert_eq!(format!("{scopes:?}"), "[Scope(shared), Scope(key)]");
    let cache = room(1);
    put(&cache, "n", b"secretpixl");
    assert_eq!(
        format!("{cache:?}"),
        format!("MediaCache {{ entries: 1, bytes: {0}, bytes_max: {0} }}", ENTRY_BYTES + 11)
    );
}

proptest! {
    #[test]
    fn the_bound_holds_and_a_find_is_the_last_put(puts in vec((0u8..6, 0usize..400, any::<bool>()), 0..60)) {
        let cache = MediaCache::new(4 * ENTRY_BYTES);
        let mut last = BTreeMap::new();
        for (at, (name, bytes, look)) in puts.into_iter().enumerate() {
            let (text, payload) = (name.to_string(), vec![at as u8; bytes]);
            if look {
                if let Some(found) = found(&cache, &text) {
                    prop_assert_eq!(Some(&found), last.get(&name));
                }
            } else {
                put(&cache, &text, &payload);
                prop_assert_eq!(found(&cache, &text), Some(payload.clone()));
                last.insert(name, payload);
            }
            let bytes: usize = cache.with(|entries| {
                assert_eq!(entries.by_key.len(), entries.by_use.len());
                entries.by_key.iter().map(|(key, entry)| cost(key, &entry.known)).sum()
            });
            prop_assert_eq!(cache.stats().bytes, bytes);
            prop_assert!(bytes <= 4 * ENTRY_BYTES);
        }
    }
}
