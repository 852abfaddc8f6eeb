//! The weight session as a state machine: which call may follow which, and what a worker checks.

use serde_json::{Map, Value};

/// A worker's refusal; on gRPC it is INTERNAL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WeightError {
    #[error("a weight update is active already")]
    Active,
    #[error("no weight update was started")]
    NotStarted,
    #[error("the transfer engine is not initialized")]
    NotInitialized,
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("unknown key {0}")]
    Unknown(String),
    #[error("names, dtype_names and shapes differ in length")]
    Lengths,
}

/// Weights of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Weights {
    pub(crate) version: String,
    initialized: bool,
    updating: bool,
}

impl Weights {
    pub(crate) fn new() -> Self {
        Self { version: "default".to_owned(), initialized: false, updating: false }
    }

    /// Joins the trainer's group. The real engine blocks until the trainer joins too; here it always has.
    pub(crate) fn init(&mut self, backend: &str, info: &Map<String, Value>) -> Result<(), WeightError> {
        const GROUP: [&str; 6] = [
            "master_address",
            "master_port",
            "nccl_unique_id_b64",
            "packed",
            "packed_buffer_size_bytes",
            "packed_num_buffers",
        ];
        match backend {
            "nccl" | "sparse_nccl" => check_keys(info, &["rank_offset", "world_size"], &GROUP)?,
            "ipc" => check_keys(info, &[], &["packed"])?,
            // Backends whose payload is not known take any.
            _ => {}
        }
        self.initialized = true;
        Ok(())
    }

    pub(crate) fn start(&mut self) -> Result<(), WeightError> {
        if self.updating {
            return Err(WeightError::Active);
        }
        self.updating = true;
        Ok(())
    }

    /// Takes one batch of tensors. A failure closes the session.
    pub(crate) fn update(&mut self, backend: &str, info: &Map<String, Value>) -> Result<(), WeightError> {
        let result = self.try_update(backend, info);
        if result.is_err() {
            self.updating = false;
        }
        result
    }

    fn try_update(&self, backend: &str, info: &Map<String, Value>) -> Result<(), WeightError> {
        const REQUIRED: [&str; 3] = ["names", "dtype_names", "shapes"];
        if !self.initialized {
            return Err(WeightError::NotInitialized);
        }
        if !self.updating {
            return Err(WeightError::NotStarted);
        }
        let optional: &[&str] = match backend {
            "nccl" => &[],
            "sparse_nccl" => &["num_updates_list"],
            "ipc" => &["ipc_handles", "ipc_handles_pickled", "tensor_sizes"],
            _ => return Ok(()),
        };
        check_keys(info, &REQUIRED, optional)?;
        let length = |name: &str| info.get(name).and_then(Value::as_array).map(Vec::len);
        if length("names").is_none() || REQUIRED.iter().any(|name| length(name) != length("names")) {
            return Err(WeightError::Lengths);
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<(), WeightError> {
        if !std::mem::take(&mut self.updating) {
            return Err(WeightError::NotStarted);
        }
        Ok(())
    }
}

fn check_keys(
    info: &Map<String, Value>,
    required: &[&'static str],
    optional: &[&str],
) -> Result<(), WeightError> {
    if let Some(missing) = required.iter().find(|name| !info.contains_key(**name)) {
        return Err(WeightError::Missing(missing));
    }
    let known = |name: &str| required.contains(&name) || optional.contains(&name);
    match info.keys().find(|name| !known(name)) {
        Some(unknown) => Err(WeightError::Unknown(unknown.clone())),
        None => Ok(()),
    }
}
