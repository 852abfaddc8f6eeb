//! Random scenarios: everything that may happen, in any order.

use std::time::Duration;

use tito_mock::{
    EventEncoding, Fault, FaultSpec, FrameFault, HashAlgorithm, KvStyle, MockConfig, ReplayLayout,
};
use tito_test_support::random::Random;
use tito_types::{KvCounters, Modality};
use tokio::task::JoinSet;

use crate::ask::{Ask, Item};
use crate::bench::{Bench, config};

/// Scenarios of a normal run.
const SEEDS: u64 = 32;
/// Scenarios at a time: most of their time they wait.
const SIDE_BY_SIDE: usize = 8;
/// Things that happen in one scenario.
const STEPS: u32 = 60;

const SALTS: [Option<&str>; 4] = [None, None, Some("one"), Some("two")];
const ADAPTERS: [Option<&str>; 4] = [None, None, Some("ad1"), Some("ad2")];
const PICTURES: [&str; 3] = ["picture 1", "picture 2", "picture 3"];
/// What a replay brings back.
const HARMLESS: [FrameFault; 4] =
    [FrameFault::Drop, FrameFault::Duplicate, FrameFault::Reorder, FrameFault::TruncateSeq];
const MODALITIES: [Modality; 3] = [Modality::Image, Modality::Video, Modality::Audio];

/// One scenario as it runs.
struct Scenario {
    random: Random,
    bench: Bench,
    configs: Vec<MockConfig>,
    /// Conversations that can go on.
    turns: Vec<Ask>,
    /// Whether something happened that no replay makes good, by mock.
    damaged: Vec<bool>,
    /// Whether an adapter was loaded again, by mock.
    reloaded: Vec<bool>,
}

fn random_config(random: &mut Random) -> MockConfig {
    let style = KvStyle {
        encoding: random.pick(&[EventEncoding::Map, EventEncoding::Array]),
        replay: random.pick(&[ReplayLayout::Topic, ReplayLayout::NoTopic]),
        hash_algorithm: random.pick(&[HashAlgorithm::Sha256, HashAlgorithm::Sha256Cbor]),
        hash_seed: random.pick(&[None, Some("1"), Some("2")]).map(str::to_owned),
        whole_digests: random.percent(50),
    };
    let mut config = config(style);
    config.num_gpu_blocks = random.pick(&[18, 24, 200]);
    config.data_parallel_size = 1 + random.below(2);
    // As with a real engine, what waits too long for the publisher is lost.
    let events = config.kv_events.as_mut().unwrap();
    events.max_queue_size = random.pick(&[2, 1000]);
    random.pick(&["", "kv"]).clone_into(&mut events.topic);
    config
}

impl Scenario {
    /// Returns what each feed had counted in the end.
    async fn run(seed: u64) -> Vec<KvCounters> {
        let mut random = Random::new(seed);
        let configs = vec![random_config(&mut random), random_config(&mut random)];
        let bench = Bench::start(format!("seed {seed}"), configs.clone()).await;
        let (damaged, reloaded) = (vec![false; 2], vec![false; 2]);
        let mut scenario = Self { random, bench, configs, turns: Vec::new(), damaged, reloaded };
        for _ in 0..2 {
            for _ in 0..STEPS / 2 {
                scenario.step().await;
            }
            scenario.verify(seed).await;
        }
        scenario.bench.clear_and_check().await;
        scenario.bench.check().into_values().map(|seen| seen.counters).collect()
    }

    async fn verify(&mut self, seed: u64) {
        self.bench.settle().await;
        if !self.damaged.contains(&true) {
            self.bench.until_complete().await;
        }
        for ((mock, rank), seen) in self.bench.check() {
            let known = seen.complete || self.damaged[mock];
            assert!(known, "seed {seed}: rank {rank} of mock {mock} is {seen:?}");
        }
    }

    async fn step(&mut self) {
        let mock = self.random.below(2) as usize;
        let rank = self.random.below(self.configs[mock].data_parallel_size);
        match self.random.below(100) {
            0..72 => {
                let ask = self.prompt();
                let output = self.bench.ask(mock, rank, &ask).await;
                self.remember(ask.continued(&output));
            }
            72..78 => {
                let asks = (0..4).map(|_| (mock, rank, self.prompt())).collect();
                self.bench.ask_all(asks).await;
            }
            78..91 => {
                let (frame, count) = (self.random.pick(&HARMLESS), 1 + self.random.below(3));
                self.bench.fault(mock, rank, frame, count);
            }
            91..92 => {
                self.damaged[mock] = true;
                self.bench.fault(mock, rank, FrameFault::Corrupt, 1);
            }
            92..93 => {
                self.damaged[mock] = true;
                self.bench.set(mock, Fault::KvReplaySilent { rank: Some(rank) }, 1);
                self.bench.fault(mock, rank, FrameFault::Drop, 1);
            }
            93..95 => {
                let delay = Duration::from_millis(u64::from(self.random.below(200)));
                self.bench.set(mock, Fault::KvReplayDelay { rank: Some(rank), delay }, 1);
                self.bench.fault(mock, rank, FrameFault::Drop, 1);
            }
            95..97 => self.bench.clear(mock).await,
            97 if !self.reloaded[mock] => {
                // The same process, out of reach for a moment: a new connection reads its whole history.
                self.bench.handle(mock).add_fault(FaultSpec::new(Fault::Drain)).unwrap();
                self.bench.reconnect(mock).await;
            }
            98 => {
                // What is told of an earlier load once the next one is known counts for nothing, though it is there still:
                // all of it is to be told before, and not again by a new connection.
                let name = self.random.pick(&["ad1", "ad2"]);
                self.bench.settle().await;
                self.bench.reload(mock, name).await;
                self.reloaded[mock] = true;
            }
            _ => {
                self.damaged[mock] = false;
                self.reloaded[mock] = false;
                self.bench.restart(mock, self.configs[mock].clone()).await;
            }
        }
    }

    fn remember(&mut self, turn: Ask) {
        if turn.tokens.len() < 200 {
            self.turns.push(turn);
        }
    }

    /// A new prompt that shares its beginning with others, or the next turn of a conversation.
    fn prompt(&mut self) -> Ask {
        let random = &mut self.random;
        let output = 1 + random.below(40);
        let length = 1 + random.below(200);
        if !self.turns.is_empty() && random.percent(40) {
            let turn = &self.turns[random.below(self.turns.len() as u32) as usize];
            let more = (0..length % 40).map(|_| random.below(800)).collect::<Vec<_>>();
            return Ask { output: output.min(15), ..turn.continued(&more) };
        }
        let (family, own) = (random.below(4), random.below(3));
        let tokens = (0..length).map(|index| (index * 7 + family + if index > 90 { own } else { 0 }) % 800);
        let mut ask = Ask { output, ..Ask::text(tokens) };
        ask.salt = random.pick(&SALTS);
        ask.adapter = random.pick(&ADAPTERS);
        let mut from = 0;
        while random.percent(30) && from + 2 < length {
            let offset = from + random.below((length - from).min(64));
            let length = 1 + random.below((length - offset).min(40));
            let (modality, identifier) = (random.pick(&MODALITIES), random.pick(&PICTURES));
            ask.media.push(Item { modality, identifier, offset, length });
            from = offset + length;
        }
        ask
    }
}

fn seeds() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "how long a test runs is the caller's to say")]
    let told = std::env::var("TITO_EVENTS_SEEDS");
    told.map_or(SEEDS, |told| told.parse().expect("TITO_EVENTS_SEEDS is a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_anything_in_any_order_the_index_is_the_truth() {
    let (mut running, mut counters) = (JoinSet::new(), Vec::new());
    for seed in 0..seeds() {
        if running.len() >= SIDE_BY_SIDE {
            counters.extend(running.join_next().await.unwrap().unwrap());
        }
        running.spawn(Scenario::run(seed));
    }
    counters.extend(running.join_all().await.into_iter().flatten());
    let sum = |count: fn(&KvCounters) -> u64| counters.iter().map(count).sum::<u64>();
    let seen = [
        sum(|c| c.batches),
        sum(|c| c.gaps),
        sum(|c| c.replays),
        sum(|c| c.duplicates),
        sum(|c| c.unreadable),
    ];
    println!("batches, gaps, replays, duplicates, unreadable: {seen:?}");
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
    assert_eq!(sum(|c| c.skipped), 0, "the mock publishes nothing that is to be left out");
}
