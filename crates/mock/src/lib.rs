//! A vLLM look-alike over the simulation, with faults on demand.
//!
//! [`MockConfig::build`] binds the ports, [`Mock::run`] serves `vllm.Inference`, `vllm.Control`,
//! `grpc.health.v1` and a few HTTP routes as vLLM 0.32 does. Everything belongs to one [`Mock`]: a process may
//! run many. What reaches the engine can be read back ([`MockHandle::requests`], `GET /mock/requests`), and what
//! goes wrong can be chosen ([`FaultSpec`], `POST /mock/faults`).

mod call;
mod compose;
mod config;
mod control;
mod engine;
mod faults;
mod frame;
mod grpc;
mod instance;
mod journal;
mod knobs;
mod kv;
mod lifecycle;
mod listen;
mod mock;
mod routes;
mod text;
mod transfer;
mod validate;

pub use config::{
    ConfigError, EventEncoding, GenerationConfig, HashAlgorithm, KvEventsConfig, KvStyle, MockConfig,
    Multimodal, ReplayLayout, TlsFiles, Vocabulary,
};
pub use faults::{ActiveFault, BadFrame, FAULTS_MAX, Fault, FaultError, FaultSpec, FrameFault};
pub use journal::{AbortCause, JournalEntry, RequestState};
pub use kv::{EndpointError, KvBindError, KvState};
pub use mock::{BuildError, Exit, Mock, MockHandle, RunError};
pub use tito_engine_sim::{SchedulingPolicy, Timing};
