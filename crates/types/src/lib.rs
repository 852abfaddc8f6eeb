//! The words every crate shares: requests, deltas, finish reasons, model catalogue and errors.
//!
//! Standard library only. Nothing here knows JSON, protobuf, HTTP or async: each boundary converts into these
//! types and out of them. JSON that we must not interpret travels as [`RawJson`] text.

mod catalog;
mod engine_info;
mod error;
mod ids;
mod kv;
mod load;
mod media;
mod output;
mod placement;
mod raw_json;
mod report;
mod request;
mod sampling;

pub use catalog::{Catalog, CatalogModel, Resolution};
pub use engine_info::{Adapter, Capabilities, EngineInfo, Identity, KvSupport, ModelInfo, Parallelism};
pub use error::{EngineError, Retry};
pub use ids::{InvalidRequestId, REQUEST_ID_LEN_MAX, RequestId, TokenId, WorkerId};
pub use kv::{
    BlockExtras, EngineHash, KvCounters, KvEvent, KvNews, KvUpdate, MediaInBlock, StoredBlocks, Tier,
};
pub use load::EngineLoad;
pub use media::{Media, MediaFeatures, Modality, Pixels, RawMedia};
pub use output::{
    Candidate, Delta, Extras, Finish, FinishReason, PromptOutput, StopCause, TokenLogprob, VersionSpan,
};
pub use placement::Placement;
pub use raw_json::RawJson;
pub use report::{
    CandidateReport, ClearReport, EngineReport, IndexReport, LoadReport, RouteReport, TargetReport,
    WorkerReport,
};
pub use request::{Delivery, GenerateRequest, KvOptions, Outputs, Reasoning};
pub use sampling::{Candidates, Sampling, Stopping, StructuredOutput};
