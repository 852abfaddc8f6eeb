//! What two replies have in common besides the ids a model happens to choose.

use std::collections::BTreeSet;

use bytes::Bytes;
use prost::Message;
use vllm_proto::finish_info::{FinishReason, StopReason};
use vllm_proto::{
    CandidateTokenInfo, FinishInfo, GenerateResponse, GetKvEventSourcesResponse, GetWeightVersionResponse,
    IsPausedResponse, IsSleepingResponse, ModelInfo, PromptInfo, SequenceOutput, ServerInfo,
};

use super::exceptions::{self, Aspect};

/// A whole reply.
pub(super) struct Reply {
    messages: Vec<GenerateResponse>,
    prompt: Option<PromptInfo>,
    outputs: Vec<SequenceOutput>,
}

/// Notes on what differs.
struct Notes(Vec<String>);

impl Notes {
    fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, recorded: &T, seen: &T) {
        if recorded != seen {
            self.0.push(format!("{what} is {seen:?}, recorded {recorded:?}"));
        }
    }
}

impl Reply {
    pub(super) fn read(messages: &[Bytes]) -> Self {
        let messages: Vec<GenerateResponse> =
            messages.iter().map(|message| GenerateResponse::decode(message.clone()).unwrap()).collect();
        let prompt = messages.iter().find_map(|message| message.prompt_info.clone());
        let outputs = messages.iter().filter_map(|message| message.outputs.clone()).collect();
        Self { messages, prompt, outputs }
    }

    pub(super) fn differences(&self, seen: &Self, name: &str, stream: bool, scripted: bool) -> Vec<String> {
        let mut notes = Notes(Vec::new());
        if stream && let Some(first) = seen.messages.first() {
            notes.same("prompt alone in the first message", &true, &first.outputs.is_none());
            let later = seen.messages[1..].iter().any(|message| message.prompt_info.is_some());
            notes.same("prompt in a later message", &false, &later);
        }
        self.compare_prompt(seen, name, &mut notes);
        notes.same("presence of output", &self.outputs.is_empty(), &seen.outputs.is_empty());
        if !self.outputs.is_empty() && !seen.outputs.is_empty() {
            seen.check_counts(&mut notes);
            self.compare_outputs(seen, &mut notes);
            self.compare_end(seen, name, &mut notes);
        }
        if scripted && !exceptions::has(name, Aspect::Text) {
            let deltas = |reply: &Self| -> Vec<(String, Vec<u32>)> {
                reply.outputs.iter().map(|output| (output.text.clone(), output.token_ids.clone())).collect()
            };
            notes.same("text and ids by message", &deltas(self), &deltas(seen));
        }
        notes.0
    }

    fn compare_prompt(&self, seen: &Self, name: &str, notes: &mut Notes) {
        notes.same("presence of the prompt", &self.prompt.is_some(), &seen.prompt.is_some());
        let (Some(recorded), Some(seen)) = (&self.prompt, &seen.prompt) else { return };
        if exceptions::has(name, Aspect::PromptTokens) {
            notes.same("prompt ids", &(seen.num_prompt_tokens as usize), &seen.token_ids.len());
            return;
        }
        notes.same("num_prompt_tokens", &recorded.num_prompt_tokens, &seen.num_prompt_tokens);
        notes.same("prompt ids", &recorded.token_ids, &seen.token_ids);
        notes.same("prompt logprobs", &recorded.logprobs.len(), &seen.logprobs.len());
        notes.same("prompt ranks", &recorded.ranks.len(), &seen.ranks.len());
        notes.same("first prompt rank", &recorded.ranks.first(), &seen.ranks.first());
        notes.same("first prompt logprob", &recorded.logprobs.first(), &seen.logprobs.first());
        notes.same(
            "prompt candidates",
            &lengths(&recorded.candidate_tokens),
            &lengths(&seen.candidate_tokens),
        );
    }

    /// What must hold in every reply by itself.
    fn check_counts(&self, notes: &mut Notes) {
        let mut total = 0;
        for output in &self.outputs {
            total += output.num_tokens;
            let count = output.num_tokens as usize;
            notes.same("index", &0, &output.index);
            for (what, length) in [
                ("token_ids", output.token_ids.len()),
                ("logprobs", output.logprobs.len()),
                ("ranks", output.ranks.len()),
                ("candidate_tokens", output.candidate_tokens.len()),
            ] {
                notes.same(what, &true, &(length == 0 || length == count));
            }
            for list in &output.candidate_tokens {
                let ranks: Vec<u32> = list.tokens.iter().map(|candidate| candidate.rank).collect();
                notes.same("candidate ranks", &(1..=ranks.len() as u32).collect::<Vec<_>>(), &ranks);
            }
        }
        if let Some(finish) = self.finish() {
            notes.same("num_output_tokens", &total, &finish.num_output_tokens);
        }
    }

    fn compare_outputs(&self, seen: &Self, notes: &mut Notes) {
        notes.same("fields", &self.fields(), &seen.fields());
        let per_token = |reply: &Self| -> BTreeSet<usize> {
            reply.outputs.iter().flat_map(|output| lengths(&output.candidate_tokens)).collect()
        };
        notes.same("candidates per token", &per_token(self), &per_token(seen));
    }

    fn compare_end(&self, seen: &Self, name: &str, notes: &mut Notes) {
        let (Some(recorded), Some(finish)) = (self.finish(), seen.finish()) else {
            notes.same("presence of the end", &self.finish().is_some(), &seen.finish().is_some());
            return;
        };
        notes.same(
            "num_cached_tokens",
            &recorded.num_cached_tokens.is_some(),
            &finish.num_cached_tokens.is_some(),
        );
        if exceptions::has(name, Aspect::End) {
            return;
        }
        notes.same("finish reason", &recorded.finish_reason, &finish.finish_reason);
        notes.same("stop", &stop_kind(recorded), &stop_kind(finish));
        let keys = |params: &Option<prost_types::Struct>| -> Option<BTreeSet<String>> {
            params.as_ref().map(|params| params.fields.keys().cloned().collect())
        };
        notes.same(
            "kv_transfer_params",
            &keys(&recorded.kv_transfer_params),
            &keys(&finish.kv_transfer_params),
        );
        notes.same("ec_transfer_params", &recorded.ec_transfer_params, &finish.ec_transfer_params);
        if recorded.finish_reason != FinishReason::Stop as i32 {
            notes.same("output tokens", &recorded.num_output_tokens, &finish.num_output_tokens);
            notes.same("messages", &self.messages.len(), &seen.messages.len());
        }
    }

    fn finish(&self) -> Option<&FinishInfo> {
        self.outputs.last()?.finish_info.as_ref()
    }

    /// The fields that any message sets, text aside: it depends on the ids.
    fn fields(&self) -> BTreeSet<&'static str> {
        let any = |present: fn(&SequenceOutput) -> bool| self.outputs.iter().any(present);
        let fields = [
            ("num_tokens", any(|output| output.num_tokens > 0)),
            ("token_ids", any(|output| !output.token_ids.is_empty())),
            ("logprobs", any(|output| !output.logprobs.is_empty())),
            ("ranks", any(|output| !output.ranks.is_empty())),
            ("candidate_tokens", any(|output| !output.candidate_tokens.is_empty())),
            ("sampling_mask", any(|output| !output.sampling_mask.is_empty())),
        ];
        fields.into_iter().filter(|(_, present)| *present).map(|(name, _)| name).collect()
    }
}

fn lengths(lists: &[CandidateTokenInfo]) -> Vec<usize> {
    lists.iter().map(|list| list.tokens.len()).collect()
}

fn stop_kind(finish: &FinishInfo) -> String {
    match &finish.stop_reason {
        None => "none".to_owned(),
        Some(StopReason::StopTokenId(_)) => "stop id".to_owned(),
        Some(StopReason::EosTokenId(id)) => format!("eos {id}"),
        Some(StopReason::StopString(stop)) => format!("string {stop}"),
    }
}

/// Replies of Control and Health: equal, apart from what is made up at every start.
pub(super) fn compare_control(path: &str, recorded: &[Bytes], seen: &[Bytes]) -> Result<(), String> {
    for (recorded, seen) in recorded.iter().zip(seen) {
        let same = match path {
            "/vllm.Control/GetServerInfo" => {
                let strip = |bytes: &Bytes| ServerInfo {
                    instance_id: String::new(),
                    ..ServerInfo::decode(bytes.clone()).unwrap()
                };
                note(&strip(recorded), &strip(seen))
            }
            "/vllm.Control/GetModelInfo" => decoded::<ModelInfo>(recorded, seen),
            "/vllm.Control/GetKvEventSources" => note(&without_ports(recorded), &without_ports(seen)),
            "/vllm.Control/GetWeightVersion" => decoded::<GetWeightVersionResponse>(recorded, seen),
            "/vllm.Control/IsPaused" => decoded::<IsPausedResponse>(recorded, seen),
            "/vllm.Control/IsSleeping" => decoded::<IsSleepingResponse>(recorded, seen),
            _ => note(recorded, seen),
        };
        same?;
    }
    Ok(())
}

/// Tests take free ports.
fn without_ports(bytes: &Bytes) -> GetKvEventSourcesResponse {
    let mut reply = GetKvEventSourcesResponse::decode(bytes.clone()).unwrap();
    for source in &mut reply.sources {
        for endpoint in [&mut source.endpoint, &mut source.replay_endpoint] {
            let end = endpoint.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
            endpoint.truncate(end);
        }
    }
    reply
}

fn decoded<T: Message + Default + PartialEq + std::fmt::Debug>(
    recorded: &Bytes,
    seen: &Bytes,
) -> Result<(), String> {
    note(&T::decode(recorded.clone()).unwrap(), &T::decode(seen.clone()).unwrap())
}

fn note<T: PartialEq + std::fmt::Debug>(recorded: &T, seen: &T) -> Result<(), String> {
    if recorded == seen { Ok(()) } else { Err(format!("{seen:?}, recorded {recorded:?}")) }
}
