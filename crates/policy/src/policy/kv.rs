//! By cost.

use super::Policy;
use crate::random::Random;
use crate::tournament::Key;
use crate::view::View;

/// The least cost; ties as [`crate::Weights`] says. Does not look at every slot.
#[derive(Debug)]
pub(super) struct Cheapest;

impl Policy for Cheapest {
    fn pick(&self, view: &View<'_>, _: &mut Random) -> Option<Key> {
        view.cheapest()
    }
}

/// A slot with probability ∝ exp(−x / temperature), where x is its cost brought to 0…1 between the cheapest and the
/// dearest slot that fit. Looks at every slot.
#[derive(Debug)]
pub(super) struct Softmax {
    pub(super) temperature: f64,
}

impl Policy for Softmax {
    fn pick(&self, view: &View<'_>, random: &mut Random) -> Option<Key> {
        let mut picks: Vec<(Key, f64)> = view.fitting().map(|slot| (view.pick(slot), 0.0)).collect();
        let least = picks.iter().map(|(pick, _)| pick.value()).min()?;
        let most = picks.iter().map(|(pick, _)| pick.value()).max()?;
        let range = (most - least).max(1) as f64;
        let mut total = 0.0;
        for (pick, upto) in &mut picks {
            total += (-((pick.value() - least) as f64 / range) / self.temperature).exp();
            *upto = total;
        }
        let drawn = random.unit() * total;
        let chosen = picks.iter().find(|(_, upto)| drawn < *upto).or(picks.last());
        chosen.map(|(pick, _)| *pick)
    }
}
