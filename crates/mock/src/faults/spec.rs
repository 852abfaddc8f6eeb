//! The JSON of a fault: one flat object with a `kind`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tonic::Code;

use super::{BadFrame, Fault, FaultSpec, FrameFault};

/// Why a fault was not set.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// The JSON is none, or holds a field that no fault has.
    #[error("fault: {0}")]
    Json(#[from] serde_json::Error),
    /// A field has a value that means nothing.
    #[error("fault: {field} must be {wanted}")]
    Value {
        /// The field.
        field: &'static str,
        /// What it may be.
        wanted: &'static str,
    },
    /// The kind has no such field.
    #[error("fault: {kind} takes no {field}")]
    Field {
        /// The kind.
        kind: &'static str,
        /// The field.
        field: &'static str,
    },
    /// As many faults are set as may be.
    #[error("fault: {} are set already", super::FAULTS_MAX)]
    TooMany,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Flat {
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_token: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frame: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_seq: Option<u64>,
}

const CODES: [(&str, Code); 16] = [
    ("CANCELLED", Code::Cancelled),
    ("UNKNOWN", Code::Unknown),
    ("INVALID_ARGUMENT", Code::InvalidArgument),
    ("DEADLINE_EXCEEDED", Code::DeadlineExceeded),
    ("NOT_FOUND", Code::NotFound),
    ("ALREADY_EXISTS", Code::AlreadyExists),
    ("PERMISSION_DENIED", Code::PermissionDenied),
    ("RESOURCE_EXHAUSTED", Code::ResourceExhausted),
    ("FAILED_PRECONDITION", Code::FailedPrecondition),
    ("ABORTED", Code::Aborted),
    ("OUT_OF_RANGE", Code::OutOfRange),
    ("UNIMPLEMENTED", Code::Unimplemented),
    ("INTERNAL", Code::Internal),
    ("UNAVAILABLE", Code::Unavailable),
    ("DATA_LOSS", Code::DataLoss),
    ("UNAUTHENTICATED", Code::Unauthenticated),
];

const FRAMES: [(&str, BadFrame); 4] = [
    ("malformed", BadFrame::Malformed),
    ("token_count", BadFrame::TokenCount),
    ("missing_finish", BadFrame::MissingFinish),
    ("index", BadFrame::Index),
];

const KV_FRAMES: [(&str, FrameFault); 5] = [
    ("drop", FrameFault::Drop),
    ("duplicate", FrameFault::Duplicate),
    ("reorder", FrameFault::Reorder),
    ("corrupt", FrameFault::Corrupt),
    ("truncate_seq", FrameFault::TruncateSeq),
];

const VALUES: [(&str, f32); 3] = [("nan", f32::NAN), ("-inf", f32::NEG_INFINITY), ("inf", f32::INFINITY)];

pub(super) fn parse(json: &str) -> Result<FaultSpec, FaultError> {
    let flat: Flat = serde_json::from_str(json)?;
    let at_token = flat.at_token.unwrap_or(0);
    let fault = match flat.kind.as_str() {
        "die" => Fault::Die { at_token },
        "engine_dead" => Fault::EngineDead { at_token },
        "stall" => Fault::Stall { at_token },
        "abort" => Fault::Abort { at_token },
        "refuse" => Fault::Refuse,
        "drain" => Fault::Drain,
        "slow" => Fault::Slow { delay: Duration::from_millis(need(flat.delay_ms, "delay_ms", "a number")?) },
        "error" => Fault::Error {
            at_token,
            code: named(&CODES, flat.code.as_deref().unwrap_or("INTERNAL"), "code", "a gRPC code by name")?,
            message: flat.message.clone().unwrap_or_else(|| "a fault was set".to_owned()),
        },
        "bad_frame" => Fault::BadFrame {
            at_token,
            frame: named(
                &FRAMES,
                flat.frame.as_deref().unwrap_or(""),
                "frame",
                "malformed, token_count, missing_finish or index",
            )?,
        },
        "logprob" => Fault::Logprob {
            at_token,
            value: named(&VALUES, flat.value.as_deref().unwrap_or(""), "value", "nan, -inf or inf")?,
        },
        "kv_frame" => Fault::KvFrame {
            rank: flat.rank,
            at_seq: flat.at_seq.unwrap_or(0),
            frame: named(
                &KV_FRAMES,
                flat.frame.as_deref().unwrap_or(""),
                "frame",
                "drop, duplicate, reorder, corrupt or truncate_seq",
            )?,
        },
        "kv_delay" => Fault::KvDelay {
            rank: flat.rank,
            delay: Duration::from_millis(need(flat.delay_ms, "delay_ms", "a number")?),
            jitter: Duration::from_millis(flat.jitter_ms.unwrap_or(0)),
        },
        "kv_replay_delay" => Fault::KvReplayDelay {
            rank: flat.rank,
            delay: Duration::from_millis(need(flat.delay_ms, "delay_ms", "a number")?),
        },
        "kv_replay_silent" => Fault::KvReplaySilent { rank: flat.rank },
        _ => {
            let wanted = "die, engine_dead, stall, abort, refuse, drain, slow, error, bad_frame, logprob, kv_frame, \
                          kv_delay, kv_replay_delay or kv_replay_silent";
            return Err(FaultError::Value { field: "kind", wanted });
        }
    };
    check_fields(&flat, &fault)?;
    Ok(FaultSpec { fault, request: flat.request, count: flat.count })
}

/// A field that the kind does not have is a mistake, not a wish to ignore.
fn check_fields(flat: &Flat, fault: &Fault) -> Result<(), FaultError> {
    let fields = fields_of(fault);
    let given = [
        ("request", flat.request.is_some()),
        ("count", flat.count.is_some()),
        ("at_token", flat.at_token.is_some()),
        ("delay_ms", flat.delay_ms.is_some()),
        ("jitter_ms", flat.jitter_ms.is_some()),
        ("code", flat.code.is_some()),
        ("message", flat.message.is_some()),
        ("frame", flat.frame.is_some()),
        ("value", flat.value.is_some()),
        ("rank", flat.rank.is_some()),
        ("at_seq", flat.at_seq.is_some()),
    ];
    match given.iter().find(|(field, given)| *given && !fields.contains(field)) {
        Some((field, _)) => Err(FaultError::Field { kind: kind_of(fault), field }),
        None => Ok(()),
    }
}

fn kind_of(fault: &Fault) -> &'static str {
    match fault {
        Fault::Die { .. } => "die",
        Fault::EngineDead { .. } => "engine_dead",
        Fault::Stall { .. } => "stall",
        Fault::Slow { .. } => "slow",
        Fault::Error { .. } => "error",
        Fault::Refuse => "refuse",
        Fault::Drain => "drain",
        Fault::BadFrame { .. } => "bad_frame",
        Fault::Logprob { .. } => "logprob",
        Fault::Abort { .. } => "abort",
        Fault::KvFrame { .. } => "kv_frame",
        Fault::KvDelay { .. } => "kv_delay",
        Fault::KvReplayDelay { .. } => "kv_replay_delay",
        Fault::KvReplaySilent { .. } => "kv_replay_silent",
    }
}

fn fields_of(fault: &Fault) -> &'static [&'static str] {
    match fault {
        Fault::Refuse | Fault::Drain => &[],
        Fault::KvFrame { .. } => &["count", "rank", "at_seq", "frame"],
        Fault::KvDelay { .. } => &["count", "rank", "delay_ms", "jitter_ms"],
        Fault::KvReplayDelay { .. } => &["count", "rank", "delay_ms"],
        Fault::KvReplaySilent { .. } => &["count", "rank"],
        Fault::Slow { .. } => &["request", "count", "delay_ms"],
        Fault::Error { .. } => &["request", "count", "at_token", "code", "message"],
        Fault::BadFrame { .. } => &["request", "count", "at_token", "frame"],
        Fault::Logprob { .. } => &["request", "count", "at_token", "value"],
        Fault::Die { .. } | Fault::EngineDead { .. } | Fault::Stall { .. } | Fault::Abort { .. } => {
            &["request", "count", "at_token"]
        }
    }
}

impl FaultSpec {
    /// The object that [`FaultSpec::parse`] reads back.
    pub fn to_json(&self) -> serde_json::Value {
        let mut flat = Flat {
            kind: kind_of(&self.fault).to_owned(),
            request: self.request.clone(),
            count: self.count,
            ..Flat::default()
        };
        match &self.fault {
            Fault::Die { at_token }
            | Fault::EngineDead { at_token }
            | Fault::Stall { at_token }
            | Fault::Abort { at_token } => flat.at_token = Some(*at_token),
            Fault::Slow { delay } => flat.delay_ms = Some(delay.as_millis() as u64),
            Fault::Error { at_token, code, message } => {
                flat.at_token = Some(*at_token);
                flat.code = name_of(&CODES, |other| other == code);
                flat.message = Some(message.clone());
            }
            Fault::BadFrame { at_token, frame } => {
                flat.at_token = Some(*at_token);
                flat.frame = name_of(&FRAMES, |other| other == frame);
            }
            Fault::Logprob { at_token, value } => {
                flat.at_token = Some(*at_token);
                flat.value = name_of(&VALUES, |other| other.to_bits() == value.to_bits());
            }
            Fault::KvFrame { rank, at_seq, frame } => {
                (flat.rank, flat.at_seq) = (*rank, Some(*at_seq));
                flat.frame = name_of(&KV_FRAMES, |other| other == frame);
            }
            Fault::KvDelay { rank, delay, jitter } => {
                (flat.rank, flat.delay_ms) = (*rank, Some(delay.as_millis() as u64));
                flat.jitter_ms = Some(jitter.as_millis() as u64);
            }
            Fault::KvReplayDelay { rank, delay } => {
                (flat.rank, flat.delay_ms) = (*rank, Some(delay.as_millis() as u64));
            }
            Fault::KvReplaySilent { rank } => flat.rank = *rank,
            Fault::Refuse | Fault::Drain => {}
        }
        serde_json::to_value(flat).expect("a flat struct of numbers and strings becomes JSON")
    }
}

fn need<T>(value: Option<T>, field: &'static str, wanted: &'static str) -> Result<T, FaultError> {
    value.ok_or(FaultError::Value { field, wanted })
}

fn named<T: Copy>(
    table: &[(&str, T)],
    name: &str,
    field: &'static str,
    wanted: &'static str,
) -> Result<T, FaultError> {
    need(table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value), field, wanted)
}

fn name_of<T>(table: &[(&str, T)], is: impl Fn(&T) -> bool) -> Option<String> {
    table.iter().find(|(_, value)| is(value)).map(|(name, _)| (*name).to_owned())
}
