//! What two replies have in common besides the ids a model happens to choose.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use bytes::Bytes;
use prost::Message;
use vllm_proto::finish_info::{FinishReason, StopReason};
use vllm_proto::{
    CandidateTokenInfo, FinishInfo, GenerateResponse, GetKvEventSourcesResponse, PromptInfo, SequenceOutput,
    ServerInfo,
};

use super::exceptions::{self, Aspect};

/// What is compared, by name, as text: equal texts are equal replies.
#[derive(Default)]
pub(super) struct Facts(BTreeMap<&'static str, String>);

impl Facts {
    fn add(&mut self, what: &'static str, value: impl Debug) {
        self.0.insert(what, format!("{value:?}"));
    }

    /// One sentence for each fact that differs, or that only one side has.
    pub(super) fn differences(&self, seen: &Self) -> Vec<String> {
        let names: BTreeSet<_> = self.0.keys().chain(seen.0.keys()).collect();
        let differ = names.into_iter().filter(|what| self.0.get(*what) != seen.0.get(*what));
        differ
            .map(|what| format!("{what} is {:?}, recorded {:?}", seen.0.get(what), self.0.get(what)))
            .collect()
    }

    /// Those of a call of the Inference service.
    pub(super) fn of_reply(messages: &[Bytes], name: &str, stream: bool, scripted: bool) -> Self {
        let decode = |message: &Bytes| GenerateResponse::decode(message.clone()).unwrap();
        let messages: Vec<GenerateResponse> = messages.iter().map(decode).collect();
        let outputs: Vec<&SequenceOutput> = messages.iter().filter_map(|m| m.outputs.as_ref()).collect();
        let mut facts = Self::default();
        if stream && let [first, later @ ..] = messages.as_slice() {
            facts.add("prompt alone in the first message", first.outputs.is_none());
            facts.add("prompt in a later message", later.iter().any(|message| message.prompt_info.is_some()));
        }
        if let Some(prompt) = messages.iter().find_map(|message| message.prompt_info.as_ref()) {
            facts.add_prompt(prompt, name);
        }
        if let Some(last) = outputs.last() {
            facts.add("every output is well-formed", outputs.iter().all(|output| is_well_formed(output)));
            facts.add("fields", fields(&outputs));
            let candidates = outputs.iter().flat_map(|output| lengths(&output.candidate_tokens));
            facts.add("candidates per token", candidates.collect::<BTreeSet<_>>());
            facts.add("presence of the end", last.finish_info.is_some());
        }
        if let Some(finish) = outputs.last().and_then(|last| last.finish_info.as_ref()) {
            let tokens: u32 = outputs.iter().map(|output| output.num_tokens).sum();
            facts.add("num_output_tokens counts all", tokens == finish.num_output_tokens);
            facts.add_end(finish, messages.len(), name);
        }
        if scripted && !exceptions::has(name, Aspect::Text) {
            let text_and_ids = outputs.iter().map(|output| (&output.text, &output.token_ids));
            facts.add("text and ids by message", text_and_ids.collect::<Vec<_>>());
        }
        facts
    }

    fn add_prompt(&mut self, prompt: &PromptInfo, name: &str) {
        if exceptions::has(name, Aspect::PromptTokens) {
            return self.add("prompt ids", prompt.num_prompt_tokens as usize == prompt.token_ids.len());
        }
        self.add("prompt ids", (prompt.num_prompt_tokens, &prompt.token_ids));
        self.add("prompt logprobs", (prompt.logprobs.len(), prompt.logprobs.first()));
        self.add("prompt ranks", (prompt.ranks.len(), prompt.ranks.first()));
        self.add("prompt candidates", lengths(&prompt.candidate_tokens));
    }

    fn add_end(&mut self, finish: &FinishInfo, messages: usize, name: &str) {
        self.add("num_cached_tokens", finish.num_cached_tokens.is_some());
        if exceptions::has(name, Aspect::End) {
            return;
        }
        let stop = match &finish.stop_reason {
            None => "none".to_owned(),
            Some(StopReason::StopTokenId(_)) => "stop id".to_owned(),
            Some(StopReason::EosTokenId(id)) => format!("eos {id}"),
            Some(StopReason::StopString(stop)) => format!("string {stop}"),
        };
        self.add("finish reason", (finish.finish_reason, stop));
        let keys = finish.kv_transfer_params.as_ref().map(|params| params.fields.keys().collect::<Vec<_>>());
        self.add("kv_transfer_params", keys);
        self.add("ec_transfer_params", &finish.ec_transfer_params);
        if finish.finish_reason != FinishReason::Stop as i32 {
            self.add("length in tokens and messages", (finish.num_output_tokens, messages));
        }
    }

    /// Those of a call of Control or Health: everything but what is made up at every start.
    pub(super) fn of_control(messages: &[Bytes], path: &str) -> Self {
        let show = |message: &Bytes| match path {
            "/vllm.Control/GetServerInfo" => {
                let info = ServerInfo::decode(message.clone()).unwrap();
                format!("{:?}", ServerInfo { instance_id: String::new(), ..info })
            }
            "/vllm.Control/GetKvEventSources" => {
                let mut reply = GetKvEventSourcesResponse::decode(message.clone()).unwrap();
                for source in &mut reply.sources {
                    for endpoint in [&mut source.endpoint, &mut source.replay_endpoint] {
                        // Tests take free ports.
                        *endpoint =
                            endpoint.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned();
                    }
                }
                format!("{reply:?}")
            }
            _ => format!("{message:?}"),
        };
        let mut facts = Self::default();
        facts.add("messages", messages.iter().map(show).collect::<Vec<_>>());
        facts
    }
}

/// What must hold in every output by itself: lists are left out or have an item per token, candidates come by rank.
fn is_well_formed(output: &SequenceOutput) -> bool {
    let SequenceOutput { token_ids, logprobs, ranks, candidate_tokens, .. } = output;
    let lengths = [token_ids.len(), logprobs.len(), ranks.len(), candidate_tokens.len()];
    let by_rank = |list: &CandidateTokenInfo| {
        list.tokens.iter().map(|candidate| candidate.rank).eq(1..=list.tokens.len() as u32)
    };
    let counted = lengths.iter().all(|&length| length == 0 || length == output.num_tokens as usize);
    output.index == 0 && counted && candidate_tokens.iter().all(by_rank)
}

/// The fields that any message sets, text aside: it depends on the ids.
fn fields(outputs: &[&SequenceOutput]) -> Vec<(&'static str, bool)> {
    let any = |present: fn(&SequenceOutput) -> bool| outputs.iter().any(|output| present(output));
    vec![
        ("num_tokens", any(|output| output.num_tokens > 0)),
        ("token_ids", any(|output| !output.token_ids.is_empty())),
        ("logprobs", any(|output| !output.logprobs.is_empty())),
        ("ranks", any(|output| !output.ranks.is_empty())),
        ("candidate_tokens", any(|output| !output.candidate_tokens.is_empty())),
        ("sampling_mask", any(|output| !output.sampling_mask.is_empty())),
    ]
}

fn lengths(lists: &[CandidateTokenInfo]) -> Vec<usize> {
    lists.iter().map(|list| list.tokens.len()).collect()
}
