//! Sizes of tables and of the index as the metrics show them, by value.

use super::*;

/// A block after `parent`, in `tier`.
fn block(parent: Option<u64>, name: u64, tier: Tier) -> KvNews {
    KvNews::Events(vec![KvEvent::Stored(StoredBlocks {
        parent: parent.map(EngineHash),
        hashes: vec![EngineHash(name)],
        tokens: vec![name as u32; 4],
        block_tokens: 4,
        tier,
        adapter: None,
        adapter_id: None,
        salt: None,
        extras: Vec::new(),
    })])
}

#[test]
fn blocks_are_shown_by_tier_and_those_without_a_known_parent_are_counted() {
    let bench = Bench::new(ON, 16 << 20);
    let target = &bench.targets[0];
    let check = |tiers: [u64; 3], orphans: u64, complete: u64, partials: u64| {
        let metrics = bench.metrics();
        let labels = "worker=\"w\",rank=\"2\"";
        let sizes = ["gpu", "cpu", "storage"].into_iter().zip(tiers);
        let mut lines: Vec<String> =
            sizes.map(|(tier, blocks)| format!("kv_blocks{{{labels},tier=\"{tier}\"}} {blocks}\n")).collect();
        lines.push(format!("kv_orphans_total{{{labels}}} {orphans}\n"));
        lines.push(format!("kv_complete{{{labels}}} {complete}\n"));
        lines.push(format!("kv_partials_total{{{labels}}} {partials}\n"));
        for line in lines {
            assert!(metrics.contains(&line), "no {line}{metrics}");
        }
    };
    check([0, 0, 0], 0, 0, 0);
    target.apply(&bench.blocks, KvNews::Complete);
    for (parent, name) in [(None, 1), (Some(1), 2), (Some(2), 3)] {
        target.apply(&bench.blocks, block(parent, name, Tier::Gpu));
    }
    target.apply(&bench.blocks, block(None, 1, Tier::Cpu));
    target.apply(&bench.blocks, block(Some(1), 2, Tier::Cpu));
    target.apply(&bench.blocks, block(None, 1, Tier::Storage));
    check([3, 2, 1], 0, 1, 0);
    target.apply(&bench.blocks, block(Some(77), 78, Tier::Gpu));
    check([3, 2, 1], 1, 0, 1);
    let copied = KvEvent::Copied { hashes: vec![EngineHash(79), EngineHash(80)], tier: Tier::Storage };
    target.apply(&bench.blocks, KvNews::Events(vec![copied]));
    check([3, 2, 1], 3, 0, 1);
    target.apply(&bench.blocks, KvNews::Events(vec![KvEvent::Cleared]));
    check([0, 0, 0], 3, 1, 1);
}

#[test]
fn a_target_is_asked_for_lower_tiers_while_it_holds_blocks_there() {
    for lower in [Tier::Cpu, Tier::Storage] {
        let bench = Bench::new(ON, 16 << 20);
        let target = &bench.targets[0];
        let check = |news: KvNews, expected: bool| {
            target.apply(&bench.blocks, news);
            assert_eq!(target.lower_tiers(), expected, "{lower:?}");
        };
        check(block(None, 1, Tier::Gpu), false);
        check(block(None, 1, lower), true);
        check(KvNews::Events(vec![KvEvent::Removed { hashes: vec![EngineHash(1)], tier: Tier::Gpu }]), true);
        check(KvNews::Events(vec![KvEvent::Removed { hashes: vec![EngineHash(1)], tier: lower }]), false);
    }
}

#[test]
fn the_shape_has_another_version_when_it_changed_and_only_then() {
    let bench = Bench::new(ON, 16 << 20);
    let check = |news: KvNews, changes: u64| {
        let (before, said) = (bench.blocks.shape_version(), format!("{news:?}"));
        bench.targets[0].apply(&bench.blocks, news);
        assert_eq!(bench.blocks.shape_version() - before, changes, "{said}");
    };
    check(KvNews::Complete, 1);
    check(block(None, 1, Tier::Gpu), 0);
    check(KvNews::MediaInexact("no offsets".into()), 1);
    check(KvNews::MediaInexact("no offsets".into()), 0);
    check(block(Some(1), 2, Tier::Gpu), 0);
    check(KvNews::Partial("a gap".into()), 1);
    check(KvNews::Partial("a gap".into()), 0);
}

#[test]
fn the_index_is_shown_as_large_as_it_is() {
    let (mut registry, blocks) =
        (Registry::default(), Arc::new(Blocks::new(IndexConfig { bytes_max: tito_kv_index::BYTES_MIN }, 7)));
    blocks.register(&mut registry);
    let metrics = FleetMetrics::register(&mut Registry::default());
    let targets = Target::of_engine(&blocks, &WorkerId::new("w"), &info(ON, 2, 2), &metrics);
    let check = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a string takes it");
        let stats = blocks.stats();
        for (name, value) in [
            ("index_bytes", stats.bytes as u64),
            ("index_bytes_max", tito_kv_index::BYTES_MIN as u64),
            ("index_blocks", stats.blocks),
            ("index_memberships", stats.memberships),
            ("index_evicted_blocks_total", stats.evicted),
        ] {
            assert!(text.contains(&format!("\n{name} {value}\n")), "{name} is not {value}: {text}");
        }
        stats
    };
    let empty = check();
    assert_eq!((empty.blocks, empty.memberships, empty.evicted), (0, 0, 0));
    targets[0].apply(&blocks, block(None, 1, Tier::Gpu));
    targets[0].apply(&blocks, block(Some(1), 2, Tier::Gpu));
    targets[1].apply(&blocks, block(None, 1, Tier::Gpu));
    let few = check();
    assert_eq!((few.blocks, few.memberships, few.evicted), (2, 3, 0));
    assert!(few.bytes >= empty.bytes);
    for name in 3..100_000 {
        targets[0].apply(&blocks, block(None, name, Tier::Gpu));
    }
    let full = check();
    assert!(full.evicted > 0 && full.blocks + full.evicted >= 99_999, "{full:?}");
    assert!(full.bytes > few.bytes && full.bytes <= tito_kv_index::BYTES_MIN, "{full:?}");
}

#[test]
fn what_a_target_holds_of_a_prompt_can_be_read() {
    let bench = Bench::new(ON, 16 << 20);
    let target = &bench.targets[0];
    for (parent, name) in [(None, 1), (Some(1), 2), (Some(2), 3)] {
        target.apply(&bench.blocks, block(parent, name, Tier::Gpu));
    }
    target.apply(&bench.blocks, block(None, 1, Tier::Cpu));
    let tokens: Vec<u32> = [1, 2, 3, 9].into_iter().flat_map(|name| [name; 4]).collect();
    let prompt = Prompt { tokens: &tokens, media: &Media::None, adapter: None, salt: None, block_tokens: 4 };
    let chain = prompt.chain(bench.blocks.hasher());
    let held = target.try_overlap(&bench.blocks, &chain).expect("nobody books news");
    assert_eq!(
        (held.gpu, held.cpu, held.storage),
        (3, 0, 0),
        "a lower tier counts from where the upper one ends"
    );
    let none = bench.targets[1].try_overlap(&bench.blocks, &chain).expect("nobody books news");
    assert_eq!((none.gpu, none.cpu, none.storage), (0, 0, 0));
}

#[test]
fn each_time_that_everything_is_forgotten_is_counted() {
    let bench = Bench::new(ON, 16 << 20);
    let (target, other) = (&bench.targets[0], &bench.targets[1]);
    let counts = || (target.emptied(), other.emptied(), bench.blocks.emptied());
    target.apply(&bench.blocks, KvNews::Complete);
    target.apply(&bench.blocks, block(None, 1, Tier::Gpu));
    assert_eq!(counts(), (0, 0, 0));
    target.apply(&bench.blocks, KvNews::Events(vec![KvEvent::Cleared]));
    assert_eq!(counts(), (1, 0, 1));
    target.apply(&bench.blocks, KvNews::Partial("a gap".into()));
    other.apply(&bench.blocks, KvNews::Partial("a gap".into()));
    assert_eq!(counts(), (2, 1, 3));
    target.cleared(&bench.blocks);
    assert_eq!(counts(), (3, 1, 4));
    // What the engine stored before it says that it dropped its blocks is left out, and so is the word itself.
    target.apply(&bench.blocks, block(None, 1, Tier::Gpu));
    target.apply(&bench.blocks, block(Some(1), 2, Tier::Gpu));
    target.apply(&bench.blocks, KvNews::Events(vec![KvEvent::Cleared]));
    target.apply(&bench.blocks, block(None, 3, Tier::Gpu));
    assert_eq!(counts(), (3, 1, 4));
    let metrics = bench.metrics();
    for line in ["kv_skipped_total{worker=\"w\",rank=\"2\"} 2\n", "tier=\"gpu\"} 1\n"] {
        assert!(metrics.contains(line), "no {line}{metrics}");
    }
}
