//! Calls, and what holds of every reply whatever was asked.

use tito_test_support::wait::within;
use tonic::{Code, Response, Status, Streaming};
use vllm_proto::finish_info::{FinishReason, StopReason};
use vllm_proto::{FinishInfo, GenerateRequest, GenerateResponse, PromptInfo, SequenceOutput};

use crate::target::Target;

/// Log-probs of one position move this much with what was computed beside it.
const LOGPROB_TOLERANCE: f32 = 2e-3;

/// A complete reply, unary or added up from a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) prompt: PromptInfo,
    /// Everything that was generated; its own `finish_info` is taken out.
    pub(crate) output: SequenceOutput,
    pub(crate) finish: FinishInfo,
}

impl Reply {
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.output.token_ids
    }

    pub(crate) fn text(&self) -> &str {
        &self.output.text
    }

    pub(crate) fn cached(&self) -> u32 {
        self.finish.num_cached_tokens.expect("every finish reports cached tokens")
    }

    /// How it ended, in words that a failure prints.
    pub(crate) fn end(&self) -> String {
        end_of(&self.finish)
    }
}

/// How a finish reads: the reason, and what stopped it.
pub(crate) fn end_of(finish: &FinishInfo) -> String {
    let reason = match finish.finish_reason() {
        FinishReason::NotFinished => "not finished",
        FinishReason::Length => "length",
        FinishReason::Stop => "stop",
        FinishReason::Aborted => "aborted",
    };
    match &finish.stop_reason {
        None => reason.to_owned(),
        Some(StopReason::StopTokenId(id)) => format!("{reason} on token {id}"),
        Some(StopReason::EosTokenId(id)) => format!("{reason} on eos {id}"),
        Some(StopReason::StopString(text)) => format!("{reason} on text {text}"),
    }
}

/// A stream that is being read.
pub(crate) struct Reading {
    messages: Streaming<GenerateResponse>,
    asked_ids: bool,
    prompt: Option<PromptInfo>,
    output: SequenceOutput,
    finish: Option<FinishInfo>,
}

impl Reading {
    /// The next message's output; `None` once the stream has ended. The first call also reads the prompt message.
    pub(crate) async fn next(&mut self) -> Result<Option<SequenceOutput>, Status> {
        loop {
            let message = within("next message", self.messages.message()).await?;
            let Some(GenerateResponse { prompt_info, outputs }) = message else { return Ok(None) };
            if let Some(info) = prompt_info {
                assert!(self.prompt.is_none(), "the prompt came twice");
                assert_eq!(outputs, None, "the prompt's message holds output");
                self.prompt = Some(info);
                continue;
            }
            assert!(self.prompt.is_some(), "output before the prompt: {outputs:?}");
            assert!(self.finish.is_none(), "a message after the finish: {outputs:?}");
            let output = outputs.expect("a message without prompt holds output");
            check_part(&output, self.asked_ids);
            if output.finish_info.is_none() {
                assert!(output.sampling_mask.is_empty(), "a sampling mask before the end");
            }
            let mut part = output.clone();
            self.finish = part.finish_info.take();
            append(&mut self.output, part);
            return Ok(Some(output));
        }
    }

    /// Whether the finish was read.
    pub(crate) fn finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Tokens so far.
    pub(crate) fn tokens(&self) -> u32 {
        self.output.num_tokens
    }

    /// The rest, added to what was read.
    pub(crate) async fn rest(mut self) -> Result<Reply, Status> {
        while self.next().await?.is_some() {}
        let finish = self.finish.expect("a stream ends with a finish or a status");
        check_finish(&finish, &self.output);
        let prompt =
            self.prompt.expect("a stream begins with the prompt, even one that is aborted in the queue");
        Ok(Reply { prompt, output: self.output, finish })
    }
}

impl Target {
    pub(crate) async fn unary(&self, request: GenerateRequest) -> Result<Reply, Status> {
        let asked_ids = wants_ids(&request);
        let reply = within("unary reply", self.inference().generate(request)).await?.into_inner();
        let prompt = reply.prompt_info.expect("a unary reply has the prompt");
        let mut output = reply.outputs.expect("a unary reply has output");
        check_part(&output, asked_ids);
        let finish = output.finish_info.take().expect("a unary reply has a finish");
        check_finish(&finish, &output);
        Ok(Reply { prompt, output, finish })
    }

    pub(crate) async fn open_stream(&self, request: GenerateRequest) -> Result<Reading, Status> {
        let asked_ids = wants_ids(&request);
        let opened = within("headers", self.inference().generate_stream(request)).await?;
        let (prompt, output, finish) = (None, SequenceOutput::default(), None);
        Ok(Reading { messages: opened.into_inner(), asked_ids, prompt, output, finish })
    }

    pub(crate) async fn stream(&self, request: GenerateRequest) -> Result<Reply, Status> {
        self.open_stream(request).await?.rest().await
    }

    /// The unary reply, after the stream was found to add up to the same.
    pub(crate) async fn both(&self, request: &GenerateRequest) -> Reply {
        let unary = self.unary(request.clone()).await.expect("unary");
        let stream = self.stream(request.clone()).await.expect("stream");
        let end = |reply: &Reply| (reply.end(), reply.finish.num_output_tokens);
        assert_eq!(end(&stream), end(&unary), "stream and unary end alike");
        assert_eq!(stream.tokens(), unary.tokens(), "stream and unary give the same tokens");
        assert_eq!(stream.text(), unary.text(), "stream and unary give the same text");
        assert_eq!(stream.prompt.token_ids, unary.prompt.token_ids, "stream and unary saw the same prompt");
        assert_eq!(stream.output.num_tokens, unary.output.num_tokens, "stream and unary count alike");
        near(&stream.output.logprobs, &unary.output.logprobs);
        near(&stream.prompt.logprobs, &unary.prompt.logprobs);
        let rows = |reply: &Reply| reply.output.candidate_tokens.len();
        assert_eq!(rows(&stream), rows(&unary), "candidate rows");
        assert_eq!(stream.output.sampling_mask, unary.output.sampling_mask, "sampling masks");
        unary
    }

    /// Refused by either method, before any message of a stream.
    pub(crate) async fn refusal(&self, request: GenerateRequest) -> Result<Code, String> {
        let unary = match self.unary(request.clone()).await {
            Ok(reply) => return Err(format!("unary: accepted, {}", reply.end())),
            Err(status) => status.code(),
        };
        match self.open_stream(request).await {
            Ok(_) => Err("stream: accepted, or refused after the headers".to_owned()),
            Err(status) if status.code() == unary => Ok(unary),
            Err(status) => Err(format!("stream: {:?}, unary: {unary:?}", status.code())),
        }
    }
}

/// How a call of the control service ended.
pub(crate) async fn code_of<T>(call: impl Future<Output = Result<Response<T>, Status>>) -> Code {
    call.await.map_or_else(|status| status.code(), |_| Code::Ok)
}

/// Equal but for what parallel arithmetic may change.
pub(crate) fn near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "log-prob rows");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let close = found.total_cmp(expected).is_eq() || (found - expected).abs() <= LOGPROB_TOLERANCE;
        assert!(close, "log-prob {at}: expected {expected}, found {found}");
    }
}

fn wants_ids(request: &GenerateRequest) -> bool {
    request.response.as_ref().is_some_and(|response| response.output_token_ids)
}

/// Holds of every output message.
fn check_part(output: &SequenceOutput, asked_ids: bool) {
    assert_eq!(output.index, 0, "the index of the only sequence");
    let expected = if asked_ids { output.num_tokens as usize } else { 0 };
    assert_eq!(output.token_ids.len(), expected, "ids in a message of {} tokens", output.num_tokens);
    if !output.logprobs.is_empty() {
        assert_eq!(output.logprobs.len(), output.num_tokens as usize, "one log-prob per token");
        assert_eq!(output.ranks.len(), output.num_tokens as usize, "one rank per token");
    }
}

/// Holds of every end.
fn check_finish(finish: &FinishInfo, output: &SequenceOutput) {
    assert_ne!(finish.finish_reason(), FinishReason::NotFinished, "a finish has a reason");
    assert_eq!(finish.num_output_tokens, output.num_tokens, "the finish counts every token");
    assert!(finish.num_cached_tokens.is_some(), "the finish reports cached tokens");
}

fn append(whole: &mut SequenceOutput, mut part: SequenceOutput) {
    whole.text.push_str(&part.text);
    whole.num_tokens += part.num_tokens;
    whole.token_ids.append(&mut part.token_ids);
    whole.logprobs.append(&mut part.logprobs);
    whole.ranks.append(&mut part.ranks);
    whole.candidate_tokens.append(&mut part.candidate_tokens);
    whole.sampling_mask.append(&mut part.sampling_mask);
}
