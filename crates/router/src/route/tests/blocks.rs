//! What targets hold decides where prompts go.

use super::*;

/// Stores a prompt's full blocks on a target, as an engine would tell it.
pub(super) fn store(
    bench: &Bench,
    target: &Target,
    tokens: &[u32],
    extras: Vec<BlockExtras>,
    salt: Option<&str>,
) {
    let stored = StoredBlocks { extras, salt: salt.map(Into::into), ..stored(tokens) };
    target.apply(&bench.blocks, KvNews::Complete);
    target.apply(&bench.blocks, KvNews::Events(vec![KvEvent::Stored(stored)]));
}

/// A prompt's full blocks, as an engine would tell them.
pub(super) fn stored(tokens: &[u32]) -> StoredBlocks {
    let full = tokens.len() / BLOCK as usize * BLOCK as usize;
    // Names differ between prompts, as digests do.
    let name = |at: usize| EngineHash(u64::from(tokens[at * BLOCK as usize]) << 32 | at as u64);
    StoredBlocks {
        parent: None,
        hashes: (0..full / BLOCK as usize).map(name).collect(),
        tokens: tokens[..full].to_vec(),
        block_tokens: BLOCK,
        tier: Tier::Gpu,
        adapter: None,
        adapter_id: None,
        salt: None,
        extras: Vec::new(),
    }
}

impl Bench {
    /// Stores a prompt's full blocks as an adapter's, on the first rank of a worker.
    pub(super) fn store_of(&self, worker: usize, adapter: &str, tokens: &[u32]) {
        let mut blocks = StoredBlocks { adapter: Some(adapter.into()), ..stored(tokens) };
        blocks
            .hashes
            .iter_mut()
            .for_each(|name| name.0 ^= 1 << 63 | u64::from(tokens[0]) << 20 | tokens.len() as u64);
        self.target(worker, 0).apply(&self.blocks, KvNews::Events(vec![KvEvent::Stored(blocks)]));
    }
}

pub(super) fn asked(tokens: &[u32]) -> GenerateRequest {
    GenerateRequest { prompt: tokens.into(), ..request(Delivery::Deltas) }
}

/// Where a dry run sends it, and the tokens found there.
pub(super) fn goes(bench: &Bench, request: &GenerateRequest) -> (String, u64) {
    let report = bench.route.explain(request);
    let (worker, rank) = report.chosen.expect("a target fits");
    let here =
        |candidate: &&tito_types::CandidateReport| candidate.worker == worker && candidate.rank == rank;
    let overlap = report.candidates.iter().find(here).expect("the chosen one is a candidate").overlap_tokens;
    (worker.as_str().to_owned(), overlap)
}

#[test]
fn a_prompt_goes_where_its_prefix_is_and_salts_share_nothing() {
    let bench = Bench::new(&[answering(1), answering(2)]);
    let prompt: Vec<u32> = (1..=14).collect();
    store(&bench, &bench.target(1, 0), &prompt, Vec::new(), Some("s"));
    assert_eq!(goes(&bench, &asked(&prompt)), ("a".into(), 0), "the unsalted prompt is held nowhere");
    let mut salted = asked(&prompt);
    salted.kv.cache_salt = Some("s".into());
    assert_eq!(goes(&bench, &salted), ("b".into(), 12));
    store(&bench, &bench.target(0, 0), &prompt[..8], Vec::new(), None);
    assert_eq!(goes(&bench, &asked(&prompt)), ("a".into(), 8));
    assert_eq!(goes(&bench, &salted), ("b".into(), 12));
}

type Change = fn(&Bench, &Target);

#[test]
fn what_was_reset_or_cleared_is_not_found() {
    let bench = Bench::new(&[answering(1), answering(2)]);
    let prompt: Vec<u32> = (1..=14).collect();
    let target = bench.target(1, 0);
    let changes: [Change; 2] = [
        |bench, target| target.apply(&bench.blocks, KvNews::Partial("gap".into())),
        |bench, target| target.apply(&bench.blocks, KvNews::Events(vec![KvEvent::Cleared])),
    ];
    for change in changes {
        store(&bench, &target, &prompt, Vec::new(), None);
        assert_eq!(goes(&bench, &asked(&prompt)), ("b".into(), 12));
        change(&bench, &target);
        assert_eq!(goes(&bench, &asked(&prompt)), ("a".into(), 0));
    }
}

pub(super) fn image(identifier: &str) -> Media {
    let item = MediaFeatures {
        modality: Modality::Image,
        identifier: identifier.into(),
        offset: 5,
        length: 2,
        is_embed: None,
        payload: Arc::new([1]),
    };
    Media::Features(Arc::new([item]))
}

#[test]
fn images_of_one_layout_differ_and_targets_that_cannot_tell_match_only_the_text_before() {
    let bench = Bench::new(&[answering(1), answering(2)]);
    let prompt: Vec<u32> = (1..=14).collect();
    let target = bench.target(1, 0);
    let seen =
        BlockExtras { media: vec![MediaInBlock { identifier: "x".into(), offset: 1 }], opaque: Vec::new() };
    let extras = vec![BlockExtras::default(), seen, BlockExtras::default()];
    store(&bench, &target, &prompt, extras, None);
    let with = |media| GenerateRequest { media, ..asked(&prompt) };
    assert_eq!(goes(&bench, &with(image("x"))), ("b".into(), 12));
    assert_eq!(goes(&bench, &with(image("y"))), ("b".into(), 4), "the text before is the same");
    assert_eq!(goes(&bench, &asked(&prompt)), ("b".into(), 4));
    target.apply(&bench.blocks, KvNews::MediaInexact("bare identifiers".into()));
    assert_eq!(goes(&bench, &with(image("x"))), ("b".into(), 4));
}

#[tokio::test]
async fn requests_with_media_that_a_target_cannot_tell_apart_are_counted() {
    let bench = Bench::new(&[answering(1), answering(2)]);
    let prompt: Vec<u32> = (1..=14).collect();
    let counted = async |media, total: u32| {
        drop(bench.route.generate(GenerateRequest { media, ..asked(&prompt) }).await.expect("accepted"));
        let metrics = bench.metrics();
        assert!(metrics.contains(&format!("token_only_requests_total {total}\n")), "not {total}: {metrics}");
    };
    counted(image("x"), 0).await;
    bench.target(1, 0).apply(&bench.blocks, KvNews::MediaInexact("bare identifiers".into()));
    counted(image("x"), 1).await;
    counted(Media::None, 1).await;
}

#[tokio::test]
async fn what_the_engine_found_is_compared_with_what_was_known_of_it() {
    let cached = Fake::new(|_| {
        let mut end = last(0, &[1], 1);
        end.finish.as_mut().expect("it is the last").cached_tokens = Some(12);
        Script { items: vec![Ok(end)], ..Script::default() }
    });
    let bench = Bench::new(&[cached]);
    let prompt: Vec<u32> = (1..=14).collect();
    let run = async || {
        let mut tokens = bench.route.generate(asked(&prompt)).await.expect("accepted");
        while TokenStream::next(&mut tokens).await.is_some() {}
    };
    // Nothing is compared while it is not known what the target holds.
    run().await;
    assert!(!bench.metrics().contains("cache_reports_total{"), "{}", bench.metrics());
    bench.target(0, 0).apply(&bench.blocks, KvNews::Complete);
    run().await;
    store(&bench, &bench.target(0, 0), &prompt, Vec::new(), None);
    run().await;
    store(&bench, &bench.target(0, 0), &(1..=20).collect::<Vec<u32>>(), Vec::new(), None);
    run().await;
    let metrics = bench.metrics();
    assert!(metrics.contains("cache_reports_total{result=\"more_cached\"} 1"), "{metrics}");
    assert!(metrics.contains("cache_reports_total{result=\"equal\"} 2"), "{metrics}");
    for news in [KvNews::Unproven, KvNews::NotCompared("a window".into())] {
        bench.target(0, 0).apply(&bench.blocks, KvNews::Complete);
        bench.target(0, 0).apply(&bench.blocks, news);
        run().await;
        assert_eq!(reports(&bench.metrics()), reports(&metrics), "nor when the events are no measure");
    }
    let told = &bench.route.workers()[0];
    assert_eq!(told.engine.as_ref().and_then(|engine| engine.kv_replay), Some(true));
}

/// What was compared so far.
fn reports(metrics: &str) -> Vec<&str> {
    metrics.lines().filter(|line| line.contains("cache_reports_total{")).collect()
}

#[tokio::test]
async fn a_silent_request_is_past_its_prefill_once_its_last_block_is_seen() {
    let bench = Bench::new(&[hanging()]);
    let prompt: Vec<u32> = (1..=14).collect();
    let whole = GenerateRequest { delivery: Delivery::Whole, ..asked(&prompt) };
    let _held = bench.route.generate(whole).await.expect("accepted");
    let load = || bench.route.workers()[0].targets[0].load;
    assert_eq!((load().prefill_tokens, load().decode_tokens), (14, 0));
    store(&bench, &bench.target(0, 0), &prompt, Vec::new(), None);
    // Looked at with the next request.
    let _next = bench.route.generate(asked(&[99])).await.expect("accepted");
    assert_eq!((load().prefill_tokens, load().decode_tokens), (1, 14));
}

#[tokio::test]
async fn siblings_are_known_by_the_finest_block_size_among_the_targets() {
    let bench = Bench::new(&[hanging(), hanging()]);
    let (fine, coarse): (Vec<u32>, Vec<u32>) = ((100..116).collect(), (200..216).collect());
    store(&bench, &bench.target(0, 0), &fine, Vec::new(), None);
    let hashes = vec![EngineHash(1), EngineHash(2)];
    let coarse = StoredBlocks { block_tokens: 2 * BLOCK, hashes, ..stored(&coarse) };
    bench.target(1, 0).apply(&bench.blocks, KvNews::Events(vec![KvEvent::Stored(coarse)]));
    let prompt: Vec<u32> = (1..=14).collect();
    let _running = bench.route.generate(asked(&prompt)).await.expect("accepted");
    let candidates = bench.route.explain(&asked(&prompt)).candidates;
    let predicted = candidates.iter().map(|candidate| candidate.predicted_tokens).max();
    assert_eq!(predicted, Some(12), "three blocks of four tokens, not one of eight");
}
