//! The order to drop prefix caches: vLLM's `POST /reset_prefix_cache`, whose options are in the query, or in the body as some
//! trainers send them; and the answer.

use serde::Serialize;
use tito_types::{ClearReport, WorkerId};

use crate::Refusal;
use crate::body::text;
use crate::object::{Members, split};

/// Most members of a body.
const MEMBERS_MAX: usize = 16;
/// Workers that one order may name.
const RESET_WORKERS_MAX: usize = 4096;

/// An order to drop prefix caches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResetPrefixCache {
    /// Whose; all when empty.
    pub workers: Vec<WorkerId>,
    /// Also where requests are in flight.
    pub running: bool,
}

/// The options as they were given, in either place.
#[derive(Debug, Default)]
struct Options {
    running: Option<bool>,
    external: Option<bool>,
}

impl ResetPrefixCache {
    /// Reads the query, as `&`-separated pairs, and the body, which may be empty. An option that is given in both must say the same.
    pub fn parse(query: &str, body: &[u8]) -> Result<Self, Refusal> {
        let mut workers = Vec::new();
        let mut options = Options::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "worker" if value.is_empty() => {
                    return Err(Refusal::invalid("worker", "must name a worker"));
                }
                "worker" if workers.len() == RESET_WORKERS_MAX => {
                    let message = format!("must not be given more than {RESET_WORKERS_MAX} times");
                    return Err(Refusal::invalid("worker", message));
                }
                "worker" => workers.push(WorkerId::new(&value)),
                _ if options.slot(&name).is_none() => return Err(unknown(&name)),
                _ => options.set(&name, flag(&name, &value)?)?,
            }
        }
        for (name, value) in object(body)? {
            if name == "worker" {
                return Err(Refusal::invalid("worker", "is an option of the query only"));
            }
            if options.slot(&name).is_none() {
                return Err(unknown(&name));
            }
            options.set(&name, boolean(&name, value.get())?)?;
        }
        if options.external == Some(false) {
            let message =
                "cannot be false: the engine drops what its connector holds together with its own cache";
            return Err(Refusal::invalid("reset_external", message));
        }
        Ok(Self { workers, running: options.running.unwrap_or(false) })
    }
}

impl Options {
    fn slot(&mut self, name: &str) -> Option<&mut Option<bool>> {
        match name {
            "reset_running_requests" => Some(&mut self.running),
            "reset_external" => Some(&mut self.external),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: bool) -> Result<(), Refusal> {
        let slot = self.slot(name).ok_or_else(|| unknown(name))?;
        match *slot {
            Some(other) if other != value => Err(Refusal::invalid(name, "is given twice, and not the same")),
            _ => {
                *slot = Some(value);
                Ok(())
            }
        }
    }
}

fn unknown(name: &str) -> Refusal {
    Refusal::invalid(name, "is not an option: there are worker, reset_running_requests and reset_external")
}

fn boolean(name: &str, value: &str) -> Result<bool, Refusal> {
    serde_json::from_str(value).map_err(|_| Refusal::invalid(name, "must be true or false"))
}

fn flag(name: &str, value: &str) -> Result<bool, Refusal> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Refusal::invalid(name, "must be true or false")),
    }
}

/// The members of the body as they are written, repeated ones included.
fn object(body: &[u8]) -> Result<Members<'_>, Refusal> {
    let text = text(body)?.trim();
    if text.is_empty() {
        return Ok(Members::new());
    }
    let members = split(text, MEMBERS_MAX);
    members.map_err(|error| Refusal::bad_json(format!("the body must be empty or a JSON object: {error}")))
}

/// The answer: vLLM's `success`, true when every worker did, and what came of each.
pub fn reset_body(reports: &[ClearReport]) -> Vec<u8> {
    let workers = reports.iter().map(|ClearReport { worker, error }| Worker {
        id: worker.as_str(),
        success: error.is_none(),
        error: error.as_deref(),
    });
    let body =
        Reset { success: reports.iter().all(|report| report.error.is_none()), workers: workers.collect() };
    serde_json::to_vec(&body).expect("plain structs can be written to memory")
}

#[derive(Serialize)]
struct Reset<'a> {
    success: bool,
    workers: Vec<Worker<'a>>,
}

#[derive(Serialize)]
struct Worker<'a> {
    id: &'a str,
    success: bool,
    error: Option<&'a str>,
}

#[cfg(test)]
mod tests;
