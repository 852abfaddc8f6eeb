//! The stand-in for weights: a distribution over the next id as a function of the seed and all ids before.
//!
//! Every position has a permutation of the ordinary ids (its ranking) and one of a few power-law shapes (how
//! fast probability falls with rank). Rank of an id, id at a rank and log-prob of a rank are all constant-time,
//! so greedy decoding costs a hash, and candidate lists are genuine at any length.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::hash::{fold, mix, unit};

mod curve;
#[cfg(test)]
mod tests;

pub(crate) use curve::Curve;

/// Salts that keep what is derived from one hash independent of each other.
const ADAPTER: u64 = 0x4144_4150;
const RANKING: u64 = 0x5241_4e4b;
const SHAPE: u64 = 0x5348_4150;
const DRAW: u64 = 0x4452_4157;
const END: u64 = 0x454e_4421;

/// How many different multipliers rank the vocabulary.
const MULTIPLIERS: usize = 61;
/// How many temperatures keep their curve; further ones compute it per request.
const CURVES_MAX: usize = 16;

/// The hash of everything before a position: adapter, media and every id of prompt and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Context(u64);

impl Context {
    /// The context after one more id.
    #[must_use]
    pub fn push(self, id: u32) -> Self {
        Self(fold(self.0, u64::from(id)))
    }

    /// The context after something that is not an id, such as the content of an image.
    #[must_use]
    pub fn push_content(self, key: u64) -> Self {
        Self(fold(self.0, mix(key)))
    }

    /// The context after a run of ids.
    #[must_use]
    pub fn extend(self, ids: &[u32]) -> Self {
        ids.iter().fold(self, |context, &id| context.push(id))
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }
}

/// What a [`Model`] is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Two models with one seed are the same model.
    pub seed: u64,
    /// Rows of the output layer, in ids. Special and padding ids are those from `ordinary_ids` up.
    pub vocabulary_rows: u32,
    /// Ids below this one are ordinary: they are sampled. At least 1 and at most `vocabulary_rows`.
    pub ordinary_ids: u32,
    /// The id that ends a sequence.
    pub eos_id: u32,
    /// The probability, per position, that the model ends by itself. 0 means never.
    pub eos_probability: f64,
}

/// One candidate for a position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The id.
    pub id: u32,
    /// Natural logarithm of its probability at temperature 1, before any constraint: finite and negative.
    pub logprob: f32,
    /// 1 is the most probable id.
    pub rank: u32,
}

/// A seeded distribution over next ids.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    /// Multiplier and its inverse modulo `ordinary_ids`.
    multipliers: Vec<(u32, u32)>,
    /// Natural logarithms of the normalizers, one per shape.
    log_normalizers: [f64; curve::SHAPES],
    /// The sampling curve at temperature 1, which most sampled requests use.
    unit_curve: Arc<Curve>,
    /// Curves of other temperatures, by the bits of the temperature.
    curves: Mutex<BTreeMap<u32, Arc<Curve>>>,
}

impl Model {
    /// Builds the tables. Sizes of zero are taken as one, so that every model can make at least one id.
    pub fn new(mut config: ModelConfig) -> Self {
        config.ordinary_ids = config.ordinary_ids.max(1);
        config.vocabulary_rows = config.vocabulary_rows.max(config.ordinary_ids);
        let multipliers = multipliers(config.ordinary_ids);
        let log_normalizers = curve::log_normalizers(config.vocabulary_rows);
        let unit_curve = Arc::new(Curve::new(config.ordinary_ids, 1.0));
        Self { config, multipliers, log_normalizers, unit_curve, curves: Mutex::default() }
    }

    /// The configuration, with sizes as they are used.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The context before the first id. Adapters with different keys continue a prompt differently.
    pub fn start(&self, adapter: Option<u64>) -> Context {
        let base = mix(self.config.seed);
        Context(adapter.map_or(base, |key| fold(base, mix(key ^ ADAPTER))))
    }

    /// The id at a rank, 1 being the most probable. Ranks beyond the vocabulary give its last row.
    pub fn id_at(&self, context: Context, rank: u32) -> u32 {
        let ids = self.config.ordinary_ids;
        if rank > ids {
            return (rank - 1).min(self.config.vocabulary_rows - 1);
        }
        let (multiplier, _, offset) = self.ranking(context);
        let index = u64::from(multiplier) * u64::from(rank.max(1) - 1) + u64::from(offset);
        (index % u64::from(ids)) as u32
    }

    /// The rank of an id. Special and padding ids follow the ordinary ones.
    pub fn rank_of(&self, context: Context, id: u32) -> u32 {
        let ids = self.config.ordinary_ids;
        if id >= ids {
            return id.min(self.config.vocabulary_rows - 1) + 1;
        }
        let (_, inverse, offset) = self.ranking(context);
        let distance = u64::from(id) + u64::from(ids) - u64::from(offset);
        (distance % u64::from(ids) * u64::from(inverse) % u64::from(ids)) as u32 + 1
    }

    /// Natural logarithm of the probability at a rank: finite, negative, strictly falling.
    pub fn logprob_at(&self, context: Context, rank: u32) -> f32 {
        let shape = Self::shape(context);
        let logprob = -curve::SLOPES[shape] * f64::from(rank.max(1)).ln() - self.log_normalizers[shape];
        logprob as f32
    }

    /// An id with its genuine rank and log-prob.
    pub fn candidate(&self, context: Context, id: u32) -> Candidate {
        let rank = self.rank_of(context, id);
        Candidate { id, logprob: self.logprob_at(context, rank), rank }
    }

    /// The `count` most probable ids, best first; at most the whole vocabulary.
    pub fn candidates(&self, context: Context, count: u32) -> Vec<Candidate> {
        let at =
            |rank| Candidate { id: self.id_at(context, rank), logprob: self.logprob_at(context, rank), rank };
        (1..=count.min(self.config.vocabulary_rows)).map(at).collect()
    }

    /// Whether the model ends by itself here.
    pub(crate) fn ends(&self, context: Context) -> bool {
        self.config.eos_probability > 0.0 && unit(fold(context.word(), END)) < self.config.eos_probability
    }

    /// The uniform draw of a position; a key gives it another one.
    pub(crate) fn draw(context: Context, key: Option<u64>) -> f64 {
        let word = fold(context.word(), DRAW);
        unit(key.map_or(word, |key| fold(word, mix(key))))
    }

    /// Which of the shapes a position has.
    pub(crate) fn shape(context: Context) -> usize {
        (fold(context.word(), SHAPE) % curve::SHAPES as u64) as usize
    }

    /// The sampling curve of a temperature.
    pub(crate) fn curve(&self, temperature: f32) -> Arc<Curve> {
        if (temperature - 1.0).abs() < f32::EPSILON {
            return Arc::clone(&self.unit_curve);
        }
        let mut curves = self.curves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(curve) = curves.get(&temperature.to_bits()) {
            return Arc::clone(curve);
        }
        let curve = Arc::new(Curve::new(self.config.ordinary_ids, temperature));
        if curves.len() < CURVES_MAX {
            curves.insert(temperature.to_bits(), Arc::clone(&curve));
        }
        curve
    }

    /// Multiplier, inverse and offset of the affine ranking at a position.
    fn ranking(&self, context: Context) -> (u32, u32, u32) {
        let word = fold(context.word(), RANKING);
        let (multiplier, inverse) = self.multipliers[(word >> 40) as usize % self.multipliers.len()];
        (multiplier, inverse, (word % u64::from(self.config.ordinary_ids)) as u32)
    }
}

/// Numbers coprime to `modulus` that are spread over it, each with its inverse.
fn multipliers(modulus: u32) -> Vec<(u32, u32)> {
    let mut found = Vec::with_capacity(MULTIPLIERS);
    let spread = (f64::from(modulus) * 0.618) as u32;
    for step in 0..modulus.min(4096) {
        let multiplier = ((u64::from(spread) + u64::from(step) * 7) % u64::from(modulus)) as u32;
        if let Some(inverse) = inverse(multiplier, modulus) {
            found.push((multiplier, inverse));
        }
        if found.len() == MULTIPLIERS {
            break;
        }
    }
    if found.is_empty() {
        found.push((1 % modulus, 1 % modulus));
    }
    found
}

/// The inverse modulo `modulus`, if the two are coprime.
fn inverse(value: u32, modulus: u32) -> Option<u32> {
    let (mut old, mut new) = ((i64::from(value), 1i64), (i64::from(modulus), 0i64));
    while new.0 != 0 {
        let quotient = old.0 / new.0;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    (old.0 == 1).then(|| old.1.rem_euclid(i64::from(modulus)) as u32)
}
