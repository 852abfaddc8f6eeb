//! The adapters that an engine has loaded: asked for when it is reached, and again every few seconds, as nothing tells
//! of a change. Nothing is asked unless the feed is polled.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{pending, unfold};
use tito_engine::AdapterFeed;
use tito_types::{Adapter, EngineInfo, WorkerId};
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;
use tonic::{Code, Response, Status};
use tracing::{info, warn};
use vllm_proto::control_client::ControlClient;
use vllm_proto::{ListLorasRequest, ListLorasResponse, LoraAdapter};

use crate::status::describe;

/// Between two looks. A client may use an adapter as soon as its load was answered, and waits this long at most.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Adapters taken from one engine; names that sort behind them are not served.
const ADAPTERS_MAX: usize = 4096;

/// One question. What is to be made of the answer says [`listed`].
pub(crate) async fn ask(control: &ControlClient<Channel>) -> Result<Response<ListLorasResponse>, Status> {
    let answered = control.clone().list_loras(ListLorasRequest {}).await;
    answered.or_else(|status| match status.code() {
        // Adapters are off, or the engine is older than they are: it has none.
        Code::FailedPrecondition | Code::Unimplemented => Ok(Response::new(ListLorasResponse::default())),
        _ => Err(status),
    })
}

/// By name, each once, without those that no request could name: a served name means the model itself.
pub(crate) fn listed(answer: ListLorasResponse, served: &[String]) -> Vec<Adapter> {
    let mut by_name = BTreeMap::new();
    for LoraAdapter { lora_id, lora_name, source_path } in answer.adapters {
        let Ok(id) = u64::try_from(lora_id) else { continue };
        if !lora_name.is_empty() && !served.contains(&lora_name) {
            by_name.insert(lora_name.clone(), Adapter { name: lora_name, id, source: source_path });
        }
    }
    by_name.into_values().take(ADAPTERS_MAX).collect()
}

/// Each whole list that differs from the one before, beginning with what comes after `now`. It never ends.
pub(crate) fn feed(
    worker: &WorkerId,
    info: &EngineInfo,
    control: ControlClient<Channel>,
    answer_within: Duration,
    now: Vec<Adapter>,
) -> AdapterFeed {
    if info.identity.capabilities.max_loras == 0 {
        return Box::pin(pending());
    }
    let served = info.identity.model.names.clone();
    let look = Look { worker: worker.clone(), served, control, answer_within, now, failing: false };
    Box::pin(unfold(look, |mut look| async move { Some((look.change().await, look)) }))
}

struct Look {
    worker: WorkerId,
    served: Vec<String>,
    control: ControlClient<Channel>,
    answer_within: Duration,
    now: Vec<Adapter>,
    failing: bool,
}

impl Look {
    /// Looks until there is a change. What is known holds while the engine does not answer.
    async fn change(&mut self) -> Vec<Adapter> {
        loop {
            sleep(LOOK_EVERY).await;
            let problem = match timeout(self.answer_within, ask(&self.control)).await {
                Ok(Ok(answer)) => {
                    if std::mem::take(&mut self.failing) {
                        info!(worker = %self.worker, "ListLoras answers again");
                    }
                    let adapters = listed(answer.into_inner(), &self.served);
                    if adapters != self.now {
                        self.now.clone_from(&adapters);
                        return adapters;
                    }
                    continue;
                }
                Ok(Err(status)) => describe(&status),
                Err(_) => format!("no answer within {:?}", self.answer_within),
            };
            if !self.failing {
                self.failing = true;
                warn!(worker = %self.worker, problem, "ListLoras failed; its adapters are taken to be the same");
            }
        }
    }
}

#[cfg(test)]
mod tests;
