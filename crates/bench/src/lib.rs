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
mod decimal;
mod export;
mod failure;
mod goodput;
mod input;
mod lag;
mod latency;
mod lateness;
mod pacer;
mod page;
mod percentiles;
mod phase;
mod process;
mod progress;
mod reply;
mod report;
mod rng;
mod run;
mod series;
mod session;
mod sse;
mod stats;
mod steady;
mod sweep;
mod table;
mod target;
#[cfg(test)]
mod testing;
mod times;
mod verdict;
mod workload;

pub use compare::{Comparison, MinMax, TargetSummary, compare};
pub use config::{
    Api, ApiKey, ArrivalProcess, Bell, BenchConfig, Choice, ConfigError, ConfigErrors, Header, Lengths,
    Limits, Load, ParseError, PrefixConfig, PromptSource, ReportConfig, SessionConfig, Span, Stop, Target,
    TimeSpan, Trust, WorkloadConfig, defaults,
};
pub use connection::TlsError;
pub use export::{Export, ExportError, ExportWriter, RequestRecord};
pub use failure::FailureKind;
pub use goodput::{Goodput, Slo};
pub use input::{DataSet, InputError, LineOrder, Trace};
pub use page::{comparison_html, run_html, sweep_html};
pub use percentiles::{LowerBounds, Percentiles};
pub use process::ProcessError;
pub use progress::{Progress, Silent, Total, bar};
pub use report::{Clock, Failures, GeneratorUse, ProcessUse, Report, Requests, TargetLabel};
pub use run::{Error, run};
pub use series::{Interval, Series};
pub use steady::SteadyWindow;
pub use sweep::{RateVerdict, Sweep, SweepConfig, SweepStep, sweep};
pub use verdict::RunVerdict;
