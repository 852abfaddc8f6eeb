//! What load and missing prefix are worth, in tokens of prefill. Integers inside, so that equal costs are equal.

/// Thousandths of a token of prefill.
pub(crate) type Milli = u64;

/// One token.
pub(crate) const MILLI: u64 = 1000;

/// How much each part of a cost counts. The unit of a cost is one token of prefill that someone has to wait for.
///
/// ```text
/// base(slot)          = prefill × prompt tokens not computed yet, of every request in flight
///                     + decode × tokens those requests hold or will hold, and tokens held by others
///                     + pressure × tokens held beyond 90 % of the slot's KV room
///                     + seat_tokens × continuations, those of others too, beyond what the slot runs at a time
///                     + fill × prompt tokens it was given to compute lately, halved every ten minutes
/// credit(slot, query) = gpu × leading tokens in device memory (or predicted to be there)
///                     + cpu × those that follow in host memory + storage × those that follow in storage
/// cost(slot, query)   = base(slot) + prefill × (prompt tokens − credit)
/// ```
///
/// Others are whoever else sends to the same engine, where the engine tells ([`crate::Board::report`]); nothing elsewhere.
///
/// Lower is better; equal costs go to the lower worker id, then the lower rank. Values below 0 or not finite count as 0,
/// values above 10⁶ as 10⁶.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Per prompt token still to compute.
    pub prefill: f64,
    /// Per token held: decoding reads them in every step, which costs far less than computing them did.
    pub decode: f64,
    /// Per token held when the KV room is nearly used up: the next request makes the engine preempt and recompute.
    pub pressure: f64,
    /// Tokens per continuation that has to wait until another one ends.
    pub seat_tokens: f64,
    /// Per prompt token it was given to compute lately: each took the place of another one in its cache. Without it a
    /// few tokens that all prompts begin with would keep calm traffic on the slots that have them, and leave the
    /// caches of the others empty.
    pub fill: f64,
    /// Credit per leading token in device memory.
    pub gpu: f64,
    /// Credit per token in host memory: copying back costs about a quarter of computing.
    pub cpu: f64,
    /// Credit per token on disk or in a shared store.
    pub storage: f64,
}

impl Weights {
    /// The documented defaults.
    pub const STANDARD: Self = Self {
        prefill: 1.0,
        decode: 0.05,
        pressure: 1.0,
        seat_tokens: 1024.0,
        fill: 0.005,
        gpu: 1.0,
        cpu: 0.75,
        storage: 0.25,
    };

    pub(crate) fn to_milli(self) -> MilliWeights {
        let milli = |weight: f64| (weight.clamp(0.0, 1e6) * MILLI as f64) as u64;
        MilliWeights {
            prefill: milli(self.prefill),
            decode: milli(self.decode),
            pressure: milli(self.pressure),
            seat: milli(self.seat_tokens),
            fill: milli(self.fill),
            gpu: milli(self.gpu).min(MILLI),
            cpu: milli(self.cpu).min(MILLI),
            storage: milli(self.storage).min(MILLI),
        }
    }
}

/// [`Weights`] in thousandths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MilliWeights {
    pub(crate) prefill: u64,
    pub(crate) decode: u64,
    pub(crate) pressure: u64,
    pub(crate) seat: u64,
    pub(crate) fill: u64,
    gpu: u64,
    cpu: u64,
    storage: u64,
}

/// Leading tokens of one prompt on one slot. Each tier continues where the one before ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) gpu: u32,
    pub(crate) cpu: u32,
    pub(crate) storage: u32,
    /// Leading tokens expected in device memory once what was sent there before has run.
    pub(crate) predicted: u32,
}

impl MilliWeights {
    /// Prompt tokens that are not to be computed. At least the last token of a prompt always is.
    pub(crate) fn credit(&self, prompt_tokens: u32, held: Held) -> Milli {
        let limit = u64::from(prompt_tokens.saturating_sub(1));
        let gpu = u64::from(held.gpu);
        let cpu = gpu + u64::from(held.cpu);
        let storage = cpu + u64::from(held.storage);
        let gpu = gpu.max(u64::from(held.predicted)).min(limit);
        let cpu = cpu.min(limit).max(gpu);
        let storage = storage.min(limit).max(cpu);
        self.gpu * gpu + self.cpu * (cpu - gpu) + self.storage * (storage - cpu)
    }

    /// Thousandths of prompt tokens that are to be computed.
    pub(crate) fn uncached(&self, prompt_tokens: u32, held: Held) -> Milli {
        u64::from(prompt_tokens) * MILLI - self.credit(prompt_tokens, held)
    }

    /// The price of computing that many thousandths of prompt tokens.
    pub(crate) fn prefill_price(&self, uncached: Milli) -> Milli {
        self.prefill.saturating_mul(uncached) / MILLI
    }
}

/// A cost as callers see it.
pub(crate) fn tokens(milli: Milli) -> f64 {
    milli as f64 / MILLI as f64
}

#[cfg(test)]
mod tests;
