//! What is asked: sessions of several turns from a seed, more of them in every other quarter.

use std::time::Duration;

/// Longest prompt and output together, in tokens: the context of the small engines.
const CONTEXT_TOKENS: u32 = 2048;
/// Prompt tokens that every session begins with.
const SHARED_TOKENS: u32 = 96;
/// Ids that are ordinary tokens of the small models.
const ORDINARY_IDS: u64 = 1000;
/// Most turns of a session.
const TURNS_MAX: u64 = 7;

/// The traffic of a recording.
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) sessions_per_second: f64,
    /// Sessions begin within this time.
    pub(super) seconds: f64,
}

/// A conversation.
pub(super) struct Session {
    /// Since the start.
    pub(super) start: Duration,
    pub(super) turns: Vec<Turn>,
}

pub(super) struct Turn {
    /// What the prompt gains after the last reply.
    pub(super) tokens: Vec<u32>,
    /// Tokens to generate.
    pub(super) output: u32,
    /// From the reply to the next turn.
    pub(super) think: Duration,
}

impl Plan {
    /// Arrivals are Poisson, at half the rate in the first and third quarter and half more than it in the others.
    pub(super) fn sessions(&self) -> Vec<Session> {
        let mut random = Random(self.seed);
        let mut sessions = Vec::new();
        let mut now = 0.0;
        loop {
            let quarter = (now / self.seconds * 4.0) as u32;
            let rate = self.sessions_per_second * if quarter.is_multiple_of(2) { 0.5 } else { 1.5 };
            now += random.exponential() / rate;
            if now >= self.seconds {
                return sessions;
            }
            sessions.push(session(Duration::from_secs_f64(now), &mut random));
        }
    }
}

fn session(start: Duration, random: &mut Random) -> Session {
    let mut turns = Vec::new();
    let mut length = 0;
    for turn in 0..=random.below(TURNS_MAX) {
        let shared = if turn == 0 { SHARED_TOKENS } else { 0 };
        // Mostly short, sometimes a document.
        let new = if random.below(5) == 0 { 200 + random.below(600) } else { 16 + random.below(150) } as u32;
        let output = 4 + (random.exponential() * 36.0).min(160.0) as u32;
        if length + shared + new + output > CONTEXT_TOKENS {
            break;
        }
        length += shared + new + output;
        let own = (0..new).map(|_| random.below(ORDINARY_IDS) as u32);
        let tokens = (0..shared).map(|token| (token * 17 + 5) % ORDINARY_IDS as u32).chain(own).collect();
        let think = Duration::from_secs_f64(0.2 + random.exponential() * 2.0);
        turns.push(Turn { tokens, output, think });
    }
    Session { start, turns }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Mean 1.
    fn exponential(&mut self) -> f64 {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        -(1.0 - unit).ln()
    }
}
