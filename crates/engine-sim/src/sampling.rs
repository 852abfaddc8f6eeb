//! How the next id is chosen from the model's distribution.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::hash::mix;
use crate::model::{Context, Curve, Model};

#[cfg(test)]
mod tests;

/// Leading ranks that a constrained choice looks at, besides the ids that the constraints name.
const LOOK_AT_RANKS: u32 = 64;
/// Keeps numbers of arrivals apart from seeds.
const ARRIVAL: u64 = 0x4152_5256;
/// A bias of this size or larger decides alone, whatever the model says.
const DECISIVE_BIAS: f32 = 100.0;

/// Sampling parameters, already validated.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f32,
    /// Most probable ids to draw from; 0 is all.
    pub top_k: u32,
    /// Probability mass to draw from, in (0, 1].
    pub top_p: f32,
    /// Least probability relative to the best id, in [0, 1].
    pub min_p: f32,
    /// Gives the request draws of its own.
    pub seed: Option<i64>,
    /// Number of the request's arrival. Where ids are drawn without a seed, the first one is drawn with it, so that equal
    /// requests differ; all others follow from the ids before. None draws the first one like the others.
    pub arrival: Option<u64>,
    /// Added to logits. +100 forces an id, -100 forbids it.
    pub logit_bias: Vec<(u32, f32)>,
    /// If not empty, the only ids there are.
    pub allowed_ids: Vec<u32>,
    /// Sequences that must not appear in the output; none is empty.
    pub bad_words: Vec<Vec<u32>>,
}

impl Sampling {
    /// The best id, always.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            seed: None,
            arrival: None,
            logit_bias: Vec::new(),
            allowed_ids: Vec::new(),
            bad_words: Vec::new(),
        }
    }
}

/// The sampling of one request, with its curve.
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    /// None for greedy.
    curve: Option<Arc<Curve>>,
    constrained: bool,
}

impl Sampler {
    /// Prepares the parameters for one model.
    pub fn new(model: &Model, sampling: Sampling) -> Self {
        let curve = (sampling.temperature > 0.0).then(|| model.curve(sampling.temperature));
        let constrained = !sampling.logit_bias.is_empty()
            || !sampling.allowed_ids.is_empty()
            || !sampling.bad_words.is_empty();
        Self { sampling, curve, constrained }
    }

    /// The next id. `output` is what the request has generated, `masked` the ids that must not come yet.
    pub(crate) fn next(&self, model: &Model, context: Context, output: &[u32], masked: &[u32]) -> u32 {
        let eos = model.config().eos_id;
        let may_end = !self.constrained && !masked.contains(&eos);
        if may_end && model.ends(context) {
            return eos;
        }
        if self.constrained || !masked.is_empty() {
            return self.constrained_next(model, context, output, masked);
        }
        let Some(curve) = &self.curve else { return model.id_at(context, 1) };
        let shape = Model::shape(context);
        let support = self.support(curve, shape);
        model.id_at(context, curve.rank(shape, support, self.draw(context, output)))
    }

    /// The ids that could have been chosen, in order of id.
    pub fn mask(&self, model: &Model, context: Context, output: &[u32], masked: &[u32]) -> Vec<u32> {
        let mut ids: Vec<u32> = if self.curve.is_none() && !self.constrained {
            (0..model.config().vocabulary_rows).collect()
        } else if self.constrained || !masked.is_empty() {
            let mut weighed = self.weigh(model, context, output, masked);
            let kept = if self.curve.is_some() { self.truncate(&mut weighed) } else { weighed.len() };
            weighed[..kept].iter().map(|entry| entry.id).collect()
        } else {
            let shape = Model::shape(context);
            let curve = self.curve.as_ref().expect("greedy requests took the first branch");
            (1..=self.support(curve, shape)).map(|rank| model.id_at(context, rank)).collect()
        };
        ids.sort_unstable();
        ids
    }

    /// The uniform draw of the id after `output`.
    fn draw(&self, context: Context, output: &[u32]) -> f64 {
        match (self.sampling.seed, self.sampling.arrival) {
            (Some(seed), _) => Model::draw(context, Some(seed as u64)),
            (None, Some(arrival)) if output.is_empty() => Model::draw(context, Some(mix(arrival ^ ARRIVAL))),
            (None, _) => Model::draw(context, None),
        }
    }

    fn support(&self, curve: &Curve, shape: usize) -> u32 {
        curve.support(shape, self.sampling.top_k, self.sampling.top_p, self.sampling.min_p)
    }

    fn constrained_next(&self, model: &Model, context: Context, output: &[u32], masked: &[u32]) -> u32 {
        let mut weighed = self.weigh(model, context, output, masked);
        if weighed.is_empty() {
            // Everything is forbidden; the engine's arg-max over nothing but -inf is as arbitrary as this.
            return self.sampling.allowed_ids.first().copied().unwrap_or_else(|| model.id_at(context, 1));
        }
        if self.curve.is_none() {
            return weighed[0].id;
        }
        let kept = self.truncate(&mut weighed);
        let total: f64 = weighed[..kept].iter().map(|entry| entry.weight).sum();
        let mut left = self.draw(context, output) * total;
        for entry in &weighed[..kept] {
            left -= entry.weight;
            if left < 0.0 {
                return entry.id;
            }
        }
        weighed[kept - 1].id
    }

    /// The ids worth looking at with their tilted logits, best first.
    fn weigh(&self, model: &Model, context: Context, output: &[u32], masked: &[u32]) -> Vec<Weighed> {
        let sampling = &self.sampling;
        let bias_of = |id: u32| {
            sampling.logit_bias.iter().find(|(biased, _)| *biased == id).map_or(0.0, |(_, bias)| *bias)
        };
        let forbidden = |id: u32| masked.contains(&id) || self.completes_bad_word(output, id);
        let mut ids: Vec<u32> = if sampling.allowed_ids.is_empty() {
            let skipped = (masked.len() + sampling.bad_words.len()) as u32;
            let ranks = LOOK_AT_RANKS + sampling.logit_bias.len() as u32 + skipped;
            let ordinary = ranks.min(model.config().ordinary_ids);
            let biased = sampling.logit_bias.iter().map(|(id, _)| *id);
            (1..=ordinary).map(|rank| model.id_at(context, rank)).chain(biased).collect()
        } else {
            sampling.allowed_ids.clone()
        };
        ids.sort_unstable();
        ids.dedup();
        let weigh = |id: u32| {
            let bias = bias_of(id);
            let candidate = model.candidate(context, id);
            let keep = bias > -DECISIVE_BIAS && !forbidden(id);
            keep.then_some(Weighed { id, logit: f64::from(candidate.logprob) + f64::from(bias), weight: 0.0 })
        };
        let mut weighed: Vec<Weighed> = ids.into_iter().filter_map(weigh).collect();
        let by_logit = |a: &Weighed, b: &Weighed| {
            b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal).then(a.id.cmp(&b.id))
        };
        weighed.sort_by(by_logit);
        weighed
    }

    /// Turns logits into weights and returns how many of them top-k, top-p and min-p leave. At least 1.
    fn truncate(&self, weighed: &mut [Weighed]) -> usize {
        let temperature = f64::from(self.sampling.temperature).max(1e-6);
        let best = weighed[0].logit;
        let mut kept = match self.sampling.top_k {
            0 => weighed.len(),
            top_k => weighed.len().min(top_k as usize),
        };
        for entry in weighed.iter_mut() {
            entry.weight = ((entry.logit - best) / temperature).exp();
        }
        let min_p = f64::from(self.sampling.min_p);
        kept = weighed[..kept].partition_point(|entry| entry.weight >= min_p).max(1);
        let wanted =
            weighed[..kept].iter().map(|entry| entry.weight).sum::<f64>() * f64::from(self.sampling.top_p);
        let mut mass = 0.0;
        for (index, entry) in weighed[..kept].iter().enumerate() {
            mass += entry.weight;
            if mass >= wanted {
                return index + 1;
            }
        }
        kept
    }

    fn completes_bad_word(&self, output: &[u32], id: u32) -> bool {
        self.sampling.bad_words.iter().any(|word| match word.split_last() {
            Some((last, before)) => *last == id && output.ends_with(before),
            None => false,
        })
    }
}

/// An id that could be chosen.
struct Weighed {
    id: u32,
    logit: f64,
    weight: f64,
}
