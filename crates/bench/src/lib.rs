//! The load generator behind `tito bench`.
//!
//! It drives any HTTP server that takes token ids (`POST /inference/v1/generate`, or `POST /v1/completions` with a
//! list of ids as prompt), checks every reply, and reports latency, throughput and what the server cost. It knows
//! the wire only as a client does and shares no code with the servers it measures, so that a mistake on their side
//! cannot hide behind the same mistake here.
//!
//! [`run`] is one measurement, [`compare`] alternates several targets in interleaved rounds. Both are driven on the
//! caller's runtime; one thread is enough (`docs/bench.md` has the numbers).

mod arrivals;
mod caller;
mod compare;
mod config;
mod connection;
mod failure;
mod pacer;
mod phase;
mod process;
mod progress;
mod reply;
mod report;
mod rng;
mod run;
mod sse;
mod stats;
mod table;
mod target;
#[cfg(test)]
mod testing;
mod workload;

pub use compare::{Comparison, Spread, TargetSummary, compare};
pub use config::{
    Api, ApiKey, ArrivalProcess, BenchConfig, ConfigError, ConfigErrors, Limits, Load, ParseError,
    PrefixConfig, Span, Stop, Target, WorkloadConfig, defaults,
};
pub use failure::FailureKind;
pub use process::ProcessError;
pub use progress::{Progress, Silent, Total, bar};
pub use report::{Clock, Failures, GeneratorUse, Percentiles, ProcessUse, Report, Requests, TargetLabel};
pub use run::{Error, run};
