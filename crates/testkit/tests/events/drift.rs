//! No drift: what is predicted of an engine's cache is what it reports, request after request, under eviction.
//!
//! `cargo xtask drift --minutes 10` runs this for longer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tito_engine::{Engine, TokenStream};
use tito_kv_index::cached_tokens_max;
use tito_mock::{Fault, FaultSpec, HashAlgorithm, KvStyle, MockConfig};
use tito_test_support::random::Random;
use tito_types::{Delivery, GenerateRequest, Modality, Placement};

use crate::ask::{Ask, Item};
use crate::bench::{Bench, config};

/// How long requests are made in a normal run.
const SECS: u64 = 4;
/// Conversations that go on at a time.
const CONVERSATIONS: usize = 24;
/// A conversation that is longer starts anew.
const TURN_TOKENS_MAX: usize = 360;
/// Requests of the phase with many at a time, and how many at a time.
const CROWD: u32 = 400;
const CROWD_AT_A_TIME: usize = 16;
/// Between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(15);

/// How late events come in a stretch of lag: longer than a turn takes.
const LAG: Duration = Duration::from_millis(40);
const LAG_JITTER: Duration = Duration::from_millis(40);
const LAGGING_ROUNDS: u32 = 8;
/// Requests between two stretches of lag.
const LAG_EVERY: u64 = 400;

#[derive(Debug, Default)]
struct Tally {
    /// Those whose prediction was compared.
    requests: u64,
    /// Those that did not wait for the events of the one before, and how many were predicted wrongly.
    hasty: u64,
    outrun: u64,
    cached_tokens: u64,
    prompt_tokens: u64,
    evictions: u64,
    resets: u64,
}

/// A request that has ended.
struct Answered {
    ask: Ask,
    placement: Placement,
    mock: usize,
    rank: u32,
    /// Cached tokens as the engine reports them.
    reported: u32,
    /// The same as it follows from the index.
    predicted: u32,
}

struct Drift {
    random: Random,
    bench: Bench,
    conversations: Vec<Ask>,
    tally: Tally,
    /// Names of the blocks that each rank has, to count what it evicts.
    resident: BTreeMap<(usize, u32), std::collections::BTreeSet<u64>>,
}

/// Two ranks with room for two or three conversations each.
fn engine(hash_seed: Option<&str>, hash_algorithm: HashAlgorithm) -> MockConfig {
    let style = KvStyle { hash_seed: hash_seed.map(str::to_owned), hash_algorithm, ..KvStyle::default() };
    MockConfig { num_gpu_blocks: 66, max_model_len: 512, ..config(style) }
}

impl Drift {
    async fn start(seed: u64) -> Self {
        let engines = vec![engine(None, HashAlgorithm::Sha256), engine(Some("5"), HashAlgorithm::Sha256Cbor)];
        let bench = Bench::start(format!("drift of seed {seed}"), engines).await;
        let mut random = Random::new(seed);
        let conversations = (0..CONVERSATIONS).map(|_| conversation(&mut random)).collect();
        Self { random, bench, conversations, tally: Tally::default(), resident: BTreeMap::new() }
    }

    /// The next turn of some conversation, and which one it is.
    fn turn(&mut self) -> (usize, Ask) {
        let at = self.random.index(CONVERSATIONS);
        (at, self.turn_of(at))
    }

    /// The next turn of a conversation.
    fn turn_of(&mut self, at: usize) -> Ask {
        if self.conversations[at].tokens.len() > TURN_TOKENS_MAX {
            self.conversations[at] = conversation(&mut self.random);
        }
        // Some turns are asked again as they were, some break off in the middle of a block.
        let more = self.random.pick(&[0, 0, 1, 16, 33, 60]);
        let more: Vec<u32> = (0..more).map(|_| self.random.below(800)).collect();
        let ask = self.conversations[at].continued(&more);
        Ask { output: 1 + self.random.below(48), ..ask }
    }

    fn request(&mut self, ask: &Ask) -> GenerateRequest {
        let delivery = self.random.pick(&[Delivery::Whole, Delivery::Deltas]);
        let mut request = ask.routed(delivery);
        request.kv.bypass_prefix_cache = self.random.percent(3);
        if self.random.percent(10) {
            request.worker = Some(self.bench.cluster.worker(self.random.below(2) as usize));
            request.rank = Some(self.random.below(2));
        }
        if self.random.percent(10) {
            request.session = Some(format!("session {}", self.random.below(8)));
        }
        request
    }

    /// One turn of a conversation from the choice to its end, and what was predicted of it.
    async fn ask(&mut self, at: usize) -> Answered {
        let ask = self.turn_of(at);
        let request = self.request(&ask);
        let bypassed = request.kv.bypass_prefix_cache;
        let stream = self.bench.cluster.engine().generate(request).await.unwrap();
        let (placement, output, reported) = answer(stream).await;
        let mock = usize::from(placement.worker != self.bench.cluster.worker(0));
        let target = self.bench.target(mock, placement.rank.expect("an engine of two ranks is told which"));
        assert!(target.complete(), "nothing is lost here");
        let blocks = placement.overlap_tokens / u64::from(target.block_tokens());
        let size = target.block_tokens() as usize;
        let predicted = cached_tokens_max(ask.tokens.len(), size, blocks as usize);
        let predicted = if bypassed { 0 } else { predicted as u32 };
        self.conversations[at] = ask.continued(&output);
        Answered { ask, placement, mock, rank: target.rank, reported, predicted }
    }

    /// One request with nothing else going on, once every event has come: the prediction has to be exact.
    async fn one(&mut self) {
        let at = self.random.index(CONVERSATIONS);
        let Answered { ask, placement, mock, rank, reported, predicted } = self.ask(at).await;
        assert_eq!(reported, predicted, "{placement:?} after {:?}: {ask:?}", self.tally);
        self.tally.requests += 1;
        self.tally.cached_tokens += u64::from(reported);
        self.tally.prompt_tokens += ask.tokens.len() as u64;
        self.bench.caught_up().await;
        self.count_evictions(mock, rank);
    }

    /// Events come late for a while. Of turns that outrun them no prediction can be exact; once they have caught up, the next
    /// one has to be.
    async fn lagging(&mut self) {
        for mock in 0..2 {
            let lag = Fault::KvDelay { rank: None, delay: LAG, jitter: LAG_JITTER };
            self.bench.handle(mock).add_fault(FaultSpec::new(lag)).unwrap();
        }
        for _ in 0..LAGGING_ROUNDS {
            let at = self.random.index(CONVERSATIONS);
            for _ in 0..2 + self.random.below(2) {
                let Answered { reported, predicted, .. } = self.ask(at).await;
                self.tally.hasty += 1;
                self.tally.outrun += u64::from(reported != predicted);
            }
            self.bench.caught_up().await;
            self.one().await;
        }
        (0..2).for_each(|mock| self.bench.handle(mock).clear_faults());
    }

    fn count_evictions(&mut self, mock: usize, rank: u32) {
        let resident = self.bench.handle(mock).kv_state(rank).unwrap().resident;
        let before = self.resident.insert((mock, rank), resident.clone()).unwrap_or_default();
        self.tally.evictions += before.difference(&resident).count() as u64;
    }

    /// An engine drops its cache because we told it to.
    async fn reset(&mut self) {
        let mock = self.random.below(2) as usize;
        self.bench.command_clear(mock).await;
        self.resident.retain(|(of, _), _| *of != mock);
        self.tally.resets += 1;
    }

    /// Many requests at a time, of which no prediction can be exact; after them the index has to be.
    async fn crowd(&mut self) {
        let asks: Vec<_> = (0..CROWD)
            .map(|_| {
                let (at, ask) = self.turn();
                (at, self.request(&ask), ask)
            })
            .collect();
        let engine = self.bench.cluster.engine().clone();
        let mut waiting = asks.into_iter().map(|(at, request, ask)| {
            let engine = engine.clone();
            async move { (at, ask, answer(engine.generate(request).await.unwrap()).await.1) }
        });
        let mut running: FuturesUnordered<_> = waiting.by_ref().take(CROWD_AT_A_TIME).collect();
        let mut ended = Vec::new();
        while let Some(turn) = running.next().await {
            ended.push(turn);
            running.extend(waiting.next());
            if self.random.percent(2) {
                self.bench.command_clear(self.random.below(2) as usize).await;
                self.tally.resets += 1;
            }
        }
        for (at, ask, output) in ended {
            self.conversations[at] = ask.continued(&output);
            self.bench.remember(ask.continued(&output));
        }
        self.bench.caught_up().await;
        self.truth().await;
    }

    /// The index is exact for every conversation and every rank.
    async fn truth(&mut self) {
        // An engine tells of a clear with its next block.
        self.bench.settle().await;
        for ask in self.conversations.clone() {
            self.bench.remember(ask);
        }
        assert!(self.bench.check().values().all(|seen| seen.complete));
        self.bench.forget();
    }

    /// How often the router itself saw an engine report this (`equal`, `less_cached`, `more_cached`).
    fn routers(&self, result: &str) -> u64 {
        let line = format!("router_cache_reports_total{{result=\"{result}\"}} ");
        let metrics = self.bench.cluster.metrics();
        metrics.lines().find_map(|text| text.strip_prefix(&line)).map_or(0, |count| count.parse().unwrap())
    }

    fn router_agrees(&self) {
        let seen = ["equal", "less_cached", "more_cached"].map(|result| self.routers(result));
        let [equal, less, more] = seen;
        let Tally { requests, hasty, outrun, .. } = self.tally;
        let expected = (requests + hasty - outrun, outrun);
        assert_eq!((equal, less + more), expected, "equal and not, by the router's metric");
    }
}

/// A beginning that is shared with others, sometimes with a picture in it.
fn conversation(random: &mut Random) -> Ask {
    let system = random.below(3);
    let own = random.below(800);
    let tokens = (0..100).map(|index| if index < 70 { index * 3 + system } else { (index * 5 + own) % 800 });
    let mut ask = Ask::text(tokens);
    ask.salt = random.pick(&[None, None, Some("one"), Some("two")]);
    ask.adapter = random.pick(&[None, None, None, Some("ad1")]);
    if random.percent(20) {
        let identifier = random.pick(&["picture 1", "picture 2"]);
        ask.media.push(Item { modality: Modality::Image, identifier, offset: 20, length: 30 });
    }
    ask
}

/// Where it went, the output, and the cached tokens that the engine reported.
async fn answer(mut stream: TokenStream) -> (Placement, Vec<u32>, u32) {
    let (mut output, mut cached) = (Vec::new(), None);
    while let Some(delta) = stream.next().await {
        let delta = delta.unwrap();
        output.extend(delta.token_ids);
        cached = delta.finish.and_then(|finish| finish.cached_tokens).or(cached);
    }
    (stream.placement().unwrap(), output, cached.expect("a finish says what was cached"))
}

fn secs() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "how long a test runs is the caller's to say")]
    let told = std::env::var("TITO_DRIFT_SECS");
    told.map_or(SECS, |told| told.parse().expect("TITO_DRIFT_SECS is a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_predicted_is_what_engines_report() {
    let mut drift = Drift::start(1).await;
    let (started, length) = (Instant::now(), Duration::from_secs(secs()));
    let mut told = Instant::now();
    while started.elapsed() < length {
        drift.one().await;
        if drift.random.percent(1) && drift.random.percent(20) {
            drift.reset().await;
        }
        if drift.tally.requests % LAG_EVERY == 1 {
            drift.lagging().await;
        }
        if drift.tally.requests % 1000 == 0 {
            drift.truth().await;
        }
        if told.elapsed() >= PROGRESS_EVERY {
            told = Instant::now();
            println!("{:?} after {:?}", drift.tally, started.elapsed());
        }
    }
    drift.truth().await;
    drift.router_agrees();
    let tally = &drift.tally;
    assert!(tally.evictions > tally.requests / 10, "without pressure this shows nothing: {tally:?}");
    assert!(tally.cached_tokens > tally.prompt_tokens / 10, "without hits this shows nothing: {tally:?}");
    assert!(tally.outrun > 0, "without a turn that outruns its events this shows nothing: {tally:?}");
    println!("{tally:?}, disagreements: 0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_many_requests_at_a_time_the_index_is_the_truth() {
    let mut drift = Drift::start(2).await;
    for _ in 0..3 {
        drift.crowd().await;
        drift.reset().await;
        let before = drift.routers("equal");
        for _ in 0..50 {
            drift.one().await;
        }
        assert_eq!(drift.routers("equal"), before + 50, "once it is quiet every prediction is exact");
    }
}
