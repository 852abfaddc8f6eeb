//! What a result is worth: one word for a script, the same that the exit status is made of. Pure.

use serde::Serialize;

use crate::report::Requests;

/// Whether a result may be used, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunVerdict {
    /// Every request got a right reply, and the generator kept up.
    Ok,
    /// The same, but the generator was late, which was allowed.
    Late,
    /// A request failed or was shed, a measured process vanished, or nothing was measured.
    Failed,
    /// The generator was late, so the times are not the server's; whether requests failed too is not told apart.
    Invalid,
}

/// What a run shows of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunSigns {
    pub(crate) requests: Requests,
    /// A measured process vanished, or the run gave up.
    pub(crate) broken: bool,
    pub(crate) late: bool,
    pub(crate) late_allowed: bool,
}

impl RunVerdict {
    pub(crate) fn of(signs: RunSigns) -> Self {
        let RunSigns { requests, broken, late, late_allowed } = signs;
        let Requests { succeeded, failed, shed, prompts: _, warmup_succeeded: _, warmup_failed } = requests;
        if late && !late_allowed {
            Self::Invalid
        } else if broken || succeeded == 0 || failed + shed + warmup_failed > 0 {
            Self::Failed
        } else if late {
            Self::Late
        } else {
            Self::Ok
        }
    }

    /// True when the command may end with status 0.
    pub fn ok(self) -> bool {
        match self {
            Self::Ok | Self::Late => true,
            Self::Failed | Self::Invalid => false,
        }
    }

    /// For a table.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Late => "LATE",
            Self::Failed => "FAILED",
            Self::Invalid => "INVALID",
        }
    }
}

#[cfg(test)]
mod tests;
