use tito_types::{Media, MediaFeatures, MediaInBlock, Modality};

use super::*;
use crate::{IndexConfig, Prompt};

mod model;

const SIZE: u32 = 4;

struct Bench {
    index: Index,
    hasher: Hasher,
    table: Table,
}

impl Bench {
    fn new() -> Self {
        let index = Index::new(IndexConfig { bytes_max: 8 << 20 });
        Self { index, hasher: Hasher::new(9), table: Table::new(SIZE) }
    }

    fn apply(&mut self, event: &KvEvent) -> Applied {
        self.table.apply(&self.index, &self.hasher, event)
    }

    /// Leading blocks of `tokens` in device memory, host memory and storage.
    fn overlap(
        &self,
        tokens: &[u32],
        media: &Media,
        salt: Option<&str>,
        adapter: Option<&str>,
    ) -> [usize; 3] {
        let adapter = adapter.map(|name| (name, self.table.generations().of(name)));
        let block_tokens = self.table.block_tokens();
        let prompt = Prompt { tokens, media, adapter, salt, block_tokens };
        let TierOverlap { gpu, cpu, storage } = self.table.overlap(&self.index, &prompt.chain(&self.hasher));
        [gpu, cpu, storage]
    }

    fn text(&self, tokens: &[u32]) -> [usize; 3] {
        self.overlap(tokens, &Media::None, None, None)
    }
}

/// Blocks `names` of `tokens` after `parent`.
fn stored(parent: Option<u64>, names: &[u64], tokens: &[u32]) -> StoredBlocks {
    StoredBlocks {
        parent: parent.map(EngineHash),
        hashes: names.iter().map(|name| EngineHash(*name)).collect(),
        tokens: tokens.to_vec(),
        block_tokens: SIZE,
        tier: Tier::Gpu,
        adapter: None,
        adapter_id: None,
        salt: None,
        extras: Vec::new(),
    }
}

fn removed(names: &[u64], tier: Tier) -> KvEvent {
    KvEvent::Removed { hashes: names.iter().map(|name| EngineHash(*name)).collect(), tier }
}

fn prompt() -> Vec<u32> {
    (1..=17).collect()
}

#[test]
fn events_in_pieces_make_one_prefix_and_removals_shorten_it() {
    let (mut bench, prompt) = (Bench::new(), prompt());
    assert_eq!(bench.apply(&KvEvent::Stored(stored(None, &[1, 2], &prompt[..8]))).stored, 2);
    assert_eq!(bench.apply(&KvEvent::Stored(stored(Some(2), &[3, 4], &prompt[8..16]))).stored, 2);
    assert_eq!(bench.text(&prompt), [4, 0, 0]);
    assert_eq!(bench.text(&prompt[1..]), [0, 0, 0]);
    bench.apply(&KvEvent::Stored(stored(Some(2), &[3, 4], &prompt[8..16])));
    assert_eq!(bench.table.blocks(&bench.index), [4, 0, 0], "two copies of a block are one block");
    bench.apply(&removed(&[3, 77], Tier::Gpu));
    assert_eq!(bench.text(&prompt), [4, 0, 0], "the other copy is left");
    bench.apply(&removed(&[3, 77], Tier::Gpu));
    assert_eq!(bench.text(&prompt), [2, 0, 0]);
    bench.apply(&KvEvent::Stored(stored(Some(2), &[3], &prompt[8..12])));
    assert_eq!(bench.text(&prompt), [4, 0, 0], "what follows a hole comes back with it");
    bench.apply(&KvEvent::Cleared);
    assert_eq!((bench.text(&prompt), bench.table.blocks(&bench.index)), ([0; 3], [0; 3]));
}

#[test]
fn tiers_are_kept_apart_and_continue_each_other() {
    let (mut bench, prompt) = (Bench::new(), prompt());
    bench.apply(&KvEvent::Stored(stored(None, &[1, 2, 3, 4], &prompt[..16])));
    let cpu = StoredBlocks { tier: Tier::Cpu, ..stored(None, &[1, 2, 3], &prompt[..12]) };
    bench.apply(&KvEvent::Stored(cpu));
    let storage = StoredBlocks { tier: Tier::Storage, ..stored(Some(3), &[4], &prompt[12..16]) };
    bench.apply(&KvEvent::Stored(storage));
    assert_eq!(bench.text(&prompt), [4, 0, 0]);
    bench.apply(&removed(&[4, 3, 2], Tier::Gpu));
    assert_eq!(bench.text(&prompt), [1, 2, 1], "a block gone from one tier is still on the others");
    bench.apply(&removed(&[2], Tier::Cpu));
    assert_eq!(bench.text(&prompt), [1, 0, 0]);
}

#[test]
fn salts_adapters_and_media_are_namespaces_of_their_own() {
    let (mut bench, prompt) = (Bench::new(), prompt());
    bench.apply(&KvEvent::Stored(StoredBlocks {
        salt: Some("s".into()),
        ..stored(None, &[1, 2], &prompt[..8])
    }));
    bench.apply(&KvEvent::Stored(StoredBlocks {
        adapter: Some("ad".into()),
        ..stored(None, &[5, 6, 7], &prompt[..12])
    }));
    let media = vec![
        BlockExtras::default(),
        BlockExtras {
            media: vec![MediaInBlock { identifier: "img".into(), offset: -1 }],
            opaque: Vec::new(),
        },
    ];
    bench.apply(&KvEvent::Stored(StoredBlocks { extras: media, ..stored(None, &[8, 9], &prompt[..8]) }));
    let image = |identifier: &str, offset| {
        let item = MediaFeatures {
            modality: Modality::Image,
            identifier: identifier.into(),
            offset,
            length: 3,
            is_embed: None,
            payload: [0].into(),
        };
        Media::Features([item].into())
    };
    assert_eq!(bench.overlap(&prompt, &Media::None, Some("s"), None), [2, 0, 0]);
    assert_eq!(bench.overlap(&prompt, &Media::None, Some("t"), None), [0, 0, 0]);
    assert_eq!(bench.overlap(&prompt, &Media::None, None, Some("ad")), [3, 0, 0]);
    assert_eq!(bench.overlap(&prompt, &Media::None, Some("s"), Some("ad")), [0, 0, 0]);
    // The first block of the media event has no extras here although the item overlaps it: not the same prompt.
    assert_eq!(bench.overlap(&prompt, &image("img", 3), None, None), [0, 0, 0]);
    assert_eq!(bench.overlap(&prompt, &image("other", 5), None, None), [1, 0, 0]);
    bench.table.adapter_reloaded("ad");
    assert_eq!(bench.overlap(&prompt, &Media::None, None, Some("ad")), [0, 0, 0], "reloaded is cold");
}

#[test]
fn events_that_contradict_themselves_are_skipped_whole() {
    let (mut bench, prompt) = (Bench::new(), prompt());
    let sound = stored(None, &[1, 2], &prompt[..8]);
    for (what, event) in [
        ("tokens missing", StoredBlocks { tokens: prompt[..7].to_vec(), ..sound.clone() }),
        ("no blocks", stored(None, &[], &[])),
        ("no block size", StoredBlocks { block_tokens: 0, ..sound.clone() }),
        ("extras missing", StoredBlocks { extras: vec![BlockExtras::default()], ..sound.clone() }),
    ] {
        let applied = bench.apply(&KvEvent::Stored(event));
        assert_eq!((applied.stored, applied.reset), (0, false), "{what}");
    }
    assert_eq!(bench.apply(&KvEvent::Stored(stored(Some(66), &[1], &prompt[..4]))).orphaned, 1);
    assert_eq!(bench.table.blocks(&bench.index), [0; 3]);
}

#[test]
fn another_block_size_starts_over() {
    let (mut bench, prompt) = (Bench::new(), prompt());
    // Finer than the engine said, and nothing was told before: no news is lost.
    let fine = StoredBlocks { block_tokens: 2, ..stored(None, &[1, 2, 3], &prompt[..6]) };
    assert!(!bench.apply(&KvEvent::Stored(fine)).reset);
    assert_eq!((bench.table.block_tokens(), bench.text(&prompt)), (2, [3, 0, 0]));
    let coarse = StoredBlocks { block_tokens: 8, ..stored(None, &[4], &prompt[..8]) };
    assert!(bench.apply(&KvEvent::Stored(coarse)).reset);
    assert_eq!((bench.table.block_tokens(), bench.text(&prompt)), (8, [1, 0, 0]));
}

#[test]
fn a_single_shorter_block_is_a_guess_until_another_event_decides() {
    let single = |size: usize, parent, name: u64, from: usize| StoredBlocks {
        block_tokens: size as u32,
        ..stored(parent, &[name], &prompt()[from..from + size])
    };
    let whole = || stored(None, &[9], &prompt()[..4]);
    // Events on a fresh table; then block size, leading blocks, blocks, whether it is a guess, and what was counted in all.
    let check = |what: &str,
                 events: &[StoredBlocks],
                 seen: (u32, usize, u64, bool),
                 counts: (u64, u64, bool)| {
        let mut bench = Bench::new();
        let mut sum = Applied::default();
        for event in events {
            let applied = bench.apply(&KvEvent::Stored(event.clone()));
            sum.skipped += applied.skipped;
            sum.orphaned += applied.orphaned;
            sum.reset |= applied.reset;
        }
        let table = &bench.table;
        let found =
            (table.block_tokens(), bench.text(&prompt())[0], table.blocks(&bench.index)[0], table.guessing());
        assert_eq!((found, (sum.skipped, sum.orphaned, sum.reset)), (seen, counts), "{what}");
        bench.apply(&KvEvent::Cleared);
        let size = if seen.3 { SIZE } else { seen.0 };
        assert_eq!((bench.table.block_tokens(), bench.table.guessing()), (size, false), "{what}, cleared");
    };
    let none = (0, 0, false);
    check("alone", &[single(2, None, 1, 0)], (2, 1, 1, true), none);
    check("two of a size", &[single(2, None, 1, 0), single(2, None, 2, 5)], (2, 1, 2, true), none);
    check("continued", &[single(2, None, 1, 0), single(2, Some(1), 2, 2)], (2, 2, 2, false), none);
    let two = StoredBlocks { block_tokens: 2, ..stored(None, &[3, 4], &prompt()[..4]) };
    check("two at once", &[single(2, None, 1, 5), two.clone()], (2, 2, 3, false), none);
    check("an orphan", &[single(2, Some(8), 1, 0)], (2, 0, 0, true), (0, 1, false));
    check("a full one", &[single(2, None, 1, 0), whole()], (4, 1, 1, false), (1, 0, false));
    check("a longer one", &[single(2, None, 1, 0), single(3, None, 2, 0)], (3, 1, 1, true), (1, 0, false));
    check("a shorter one", &[single(3, None, 1, 0), single(2, None, 2, 0)], (3, 1, 1, true), (1, 0, false));
    check("shorter ones", &[single(3, None, 1, 0), two], (2, 2, 2, false), (0, 0, true));
    check("after a full one", &[whole(), single(2, None, 1, 0)], (4, 1, 1, false), (1, 0, false));
}

#[test]
fn a_lower_tier_with_blocks_of_its_own_size_is_skipped() {
    let (mut bench, prompt) = (Bench::new(), prompt());
    bench.apply(&KvEvent::Stored(stored(None, &[1, 2], &prompt[..8])));
    let coarse = StoredBlocks { block_tokens: 8, tier: Tier::Cpu, ..stored(None, &[9, 10], &prompt[..16]) };
    let applied = bench.apply(&KvEvent::Stored(coarse));
    assert_eq!((applied.skipped, applied.reset), (2, false));
    assert_eq!(bench.text(&prompt), [2, 0, 0]);
}

#[test]
fn a_lower_tier_that_leaves_out_salts_and_media_is_what_device_memory_calls_so() {
    let (mut bench, prompt) = (Bench::new(), prompt());
    let media = |offset| BlockExtras {
        media: vec![MediaInBlock { identifier: "img".into(), offset }],
        opaque: Vec::new(),
    };
    let salted = StoredBlocks { salt: Some("s".into()), ..stored(None, &[1, 2, 3], &prompt[..12]) };
    let pictured = StoredBlocks {
        extras: vec![media(1), media(-3), BlockExtras::default()],
        ..stored(None, &[5, 6, 7], &prompt[..12])
    };
    bench.apply(&KvEvent::Stored(salted));
    bench.apply(&KvEvent::Stored(pictured));
    // One block more than device memory has told of each.
    let below =
        |parent, names: &[u64], tokens| StoredBlocks { tier: Tier::Cpu, ..stored(parent, names, tokens) };
    bench.apply(&KvEvent::Stored(below(None, &[1, 2, 3, 4], &prompt[..16])));
    bench.apply(&KvEvent::Stored(below(None, &[5], &prompt[..4])));
    bench.apply(&KvEvent::Stored(below(Some(5), &[6, 7, 8], &prompt[4..16])));
    let picture = MediaFeatures {
        modality: Modality::Image,
        identifier: "img".into(),
        offset: 1,
        length: 5,
        is_embed: None,
        payload: [0].into(),
    };
    let picture = Media::Features([picture].into());
    let found = |bench: &Bench| {
        let salted = bench.overlap(&prompt, &Media::None, Some("s"), None);
        (salted, bench.overlap(&prompt, &picture, None, None), bench.text(&prompt))
    };
    assert_eq!(found(&bench), ([3, 1, 0], [3, 1, 0], [0; 3]), "device memory keeps what it had");
    bench.apply(&removed(&[1, 2, 3, 5, 6, 7], Tier::Gpu));
    assert_eq!(found(&bench), ([0, 4, 0], [0, 4, 0], [0; 3]));
}

#[test]
fn a_copy_names_what_the_engine_has_and_nothing_else() {
    let (mut bench, prompt) = (Bench::new(), prompt());
    let copied = |names: &[u64]| KvEvent::Copied {
        hashes: names.iter().copied().map(EngineHash).collect(),
        tier: Tier::Cpu,
    };
    bench.apply(&KvEvent::Stored(stored(None, &[1, 2, 3], &prompt[..12])));
    let applied = bench.apply(&copied(&[1, 9, 2]));
    assert_eq!((applied.stored, applied.orphaned), (2, 1), "9 is no name of a block");
    bench.apply(&removed(&[3, 2, 1], Tier::Gpu));
    assert_eq!(bench.text(&prompt), [0, 2, 0]);
    bench.apply(&removed(&[1, 2], Tier::Cpu));
    let applied = bench.apply(&copied(&[1, 2]));
    assert_eq!((applied.stored, applied.orphaned), (0, 2), "nothing is left to copy");
    assert_eq!(bench.text(&prompt), [0, 0, 0]);
}

#[test]
fn a_lower_tier_continues_from_a_parent_that_only_device_memory_holds() {
    let (mut bench, prompt) = (Bench::new(), prompt());
    bench.apply(&KvEvent::Stored(stored(None, &[1, 2], &prompt[..8])));
    let cpu = StoredBlocks { tier: Tier::Cpu, ..stored(Some(2), &[3], &prompt[8..12]) };
    assert_eq!(bench.apply(&KvEvent::Stored(cpu)).stored, 1);
    assert_eq!(bench.text(&prompt), [2, 1, 0]);
}

#[test]
fn engines_with_names_of_their_own_match_one_prompt() {
    let (mut bench, prompt) = (Bench::new(), prompt());
    let mut other = Table::new(SIZE);
    bench.apply(&KvEvent::Stored(stored(None, &[1, 2, 3], &prompt[..12])));
    // The names of the first engine, for other blocks.
    for event in [stored(None, &[3, 1], &prompt[..8]), stored(Some(1), &[2], &prompt[8..12])] {
        assert_eq!(other.apply(&bench.index, &bench.hasher, &KvEvent::Stored(event)).orphaned, 0);
    }
    other.apply(&bench.index, &bench.hasher, &removed(&[2], Tier::Gpu));
    let mut chain = Vec::new();
    bench.hasher.extend(bench.hasher.root(SIZE, None, None), &prompt, SIZE as usize, &mut chain);
    assert_eq!((3, 2), (bench.text(&prompt)[0], other.overlap(&bench.index, &chain).gpu));
}

#[test]
fn reloads_are_counted_by_name_and_in_bounded_memory() {
    let (mut bench, mut other) = (Bench::new(), Table::new(SIZE));
    for name in ["a", "b", "a"] {
        bench.table.adapter_reloaded(name);
    }
    for name in ["b", "a", "a"] {
        other.adapter_reloaded(name);
    }
    for (name, generation) in [("a", 2), ("b", 1), ("c", 0)] {
        assert_eq!(
            (generation, generation),
            (bench.table.generations().of(name), other.generations().of(name))
        );
    }
    let mut seen = vec![other.generations().of("a")];
    for n in 0..ADAPTERS_MAX {
        other.adapter_reloaded(&format!("adapter {n}"));
        assert!(other.generations().reloaded().count() <= ADAPTERS_MAX);
    }
    seen.push(other.generations().of("a"));
    other.adapter_reloaded("a");
    seen.push(other.generations().of("a"));
    assert!(seen.is_sorted_by(|before, after| before < after), "{seen:?}");
}

#[test]
fn a_greater_load_of_an_adapter_starts_cold_whoever_tells_of_it_first() {
    let (mut bench, prompt) = (Bench::new(), prompt());
    let store = |bench: &mut Bench, id, names: &[u64], blocks: usize| {
        let tokens = &prompt[..blocks * SIZE as usize];
        let event =
            StoredBlocks { adapter: Some("ad".into()), adapter_id: id, ..stored(None, names, tokens) };
        bench.apply(&KvEvent::Stored(event)).skipped
    };
    let held = |bench: &Bench| bench.overlap(&prompt, &Media::None, None, Some("ad"))[0];
    store(&mut bench, Some(4), &[1, 2, 3], 3);
    assert!(bench.table.adapter_loaded("ad", 4));
    assert_eq!((held(&bench), bench.table.generations().of("ad")), (3, 0), "the first one seen");
    store(&mut bench, Some(6), &[5, 6], 2);
    assert_eq!((held(&bench), bench.table.generations().of("ad")), (2, 1), "an event tells of the second");
    assert!(bench.table.adapter_loaded("ad", 6) && !bench.table.adapter_loaded("ad", 4));
    assert_eq!(store(&mut bench, Some(4), &[1, 2, 3], 3), 3, "stragglers of the first count for nothing");
    assert_eq!(held(&bench), 2);
    assert!(bench.table.adapter_loaded("ad", 9), "the list tells of the third");
    assert_eq!((held(&bench), bench.table.generations().of("ad")), (0, 2));
    store(&mut bench, None, &[7], 1);
    assert_eq!(held(&bench), 1, "an engine that does not number its loads");
    for n in 0..=ADAPTERS_MAX as u64 {
        bench.table.adapter_loaded(&format!("adapter {n}"), n);
    }
    assert!(bench.table.loads.len() <= ADAPTERS_MAX);
    assert_eq!((held(&bench), bench.table.generations().of("ad")), (0, 3), "all start over together");
}

#[test]
fn a_closed_table_leaves_nothing_behind() {
    let (mut bench, prompt) = (Bench::new(), prompt());
    for _ in 0..3 {
        bench.apply(&KvEvent::Stored(stored(None, &[1, 2], &prompt[..8])));
        assert_eq!(bench.text(&prompt), [2, 0, 0]);
        bench.table.close(&bench.index);
        assert_eq!((bench.text(&prompt), bench.index.stats().memberships), ([0; 3], 0));
    }
}
