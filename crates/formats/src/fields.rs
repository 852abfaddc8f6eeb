//! Every field that is known, and what becomes of it: the one list behind refusals, acceptance and the docs.
//!
//! A field that is in no list is unknown: reported, or refused in strict mode. `docs/generate.md` and
//! `docs/completions.md` have one row per entry, which a test compares.

pub(crate) mod completions;
pub(crate) mod generate;
mod sampling;

/// One known field of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    /// The key.
    pub(crate) name: &'static str,
    /// What becomes of it.
    pub(crate) treatment: Treatment,
}

/// What becomes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// Takes effect; wrong types and values are refused.
    Executed,
    /// Known to vLLM and not possible here. Null, and the JSON texts in `neutral`, ask for nothing and pass.
    Refused {
        /// For the client.
        reason: &'static str,
        /// Values that mean what happens anyway.
        neutral: &'static [&'static str],
    },
    /// Accepted without effect: nothing in the reply depends on it.
    Ignored,
}

/// The known fields of one kind of object, in parts so that objects can share some.
pub(crate) type Known = &'static [&'static [Field]];

/// An object's place in a body (`sampling_params`, or empty for the body itself) and its known fields.
#[cfg(test)]
pub(crate) type Listing = &'static [(&'static str, Known)];

pub(crate) const fn executed(name: &'static str) -> Field {
    Field { name, treatment: Treatment::Executed }
}

pub(crate) const fn ignored(name: &'static str) -> Field {
    Field { name, treatment: Treatment::Ignored }
}

pub(crate) const fn refused(
    name: &'static str,
    neutral: &'static [&'static str],
    reason: &'static str,
) -> Field {
    Field { name, treatment: Treatment::Refused { reason, neutral } }
}

pub(crate) use sampling::STRUCTURED;

/// `stream_options`.
pub(crate) const STREAM_OPTIONS: Known = &[&[executed("include_usage"), executed("continuous_usage_stats")]];
