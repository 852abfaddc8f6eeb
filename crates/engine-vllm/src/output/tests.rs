use prost_types::{Struct, Value, value::Kind};
use tito_types::Candidates;
use vllm_proto::TokenIds;
use vllm_proto::candidate_token_info::TokenInfo;

use super::*;

/// A greedy request for the prompt `[1, 2, 3]`.
pub(crate) fn request() -> GenerateRequest {
    tito_engine::fake::request(&[1, 2, 3])
}

fn prompt() -> GenerateResponse {
    GenerateResponse {
        prompt_info: Some(PromptInfo { num_prompt_tokens: 3, ..PromptInfo::default() }),
        outputs: None,
    }
}

fn output(token_ids: &[u32]) -> SequenceOutput {
    SequenceOutput {
        num_tokens: token_ids.len() as u32,
        token_ids: token_ids.to_vec(),
        ..SequenceOutput::default()
    }
}

fn finish(num_output_tokens: u32, reason: WireReason) -> FinishInfo {
    FinishInfo { num_output_tokens, finish_reason: reason.into(), ..FinishInfo::default() }
}

fn message(outputs: SequenceOutput) -> GenerateResponse {
    GenerateResponse { prompt_info: None, outputs: Some(outputs) }
}

fn read(request: &GenerateRequest, messages: Vec<GenerateResponse>) -> Result<Vec<Delta>, EngineError> {
    let mut reader = Reader::new(request);
    messages.into_iter().filter_map(|message| reader.read(message).transpose()).collect()
}

/// The last delta's change by `change` must break the contract in this way.
#[track_caller]
fn check(change: impl FnOnce(&mut SequenceOutput), expected: &str) {
    let mut asked = request();
    asked.outputs.logprobs = Some(Candidates::Top(1));
    let row = CandidateTokenInfo { tokens: vec![TokenInfo { id: 5, logprob: -0.5, rank: 1 }] };
    let mut last = SequenceOutput {
        logprobs: vec![-0.5],
        ranks: vec![1],
        candidate_tokens: vec![row],
        finish_info: Some(finish(1, WireReason::Stop)),
        ..output(&[5])
    };
    change(&mut last);
    let found = match read(&asked, vec![prompt(), message(last)]) {
        Ok(deltas) => format!("{} delta", deltas.len()),
        Err(EngineError::Protocol(what)) => what,
        Err(other) => format!("{other:?}"),
    };
    assert_eq!(found, expected);
}

#[test]
fn a_message_that_does_not_add_up_is_a_broken_contract() {
    check(|_| {}, "1 delta");
    check(|out| out.index = 1, "a sequence index other than 0");
    check(|out| out.num_tokens = 2, "a token count that differs from the ids");
    let rows = "log-probs whose rows differ from the tokens";
    check(|out| out.logprobs.clear(), rows);
    check(|out| out.ranks.push(1), rows);
    check(|out| out.candidate_tokens.clear(), "1 delta");
    check(|out| out.candidate_tokens.push(CandidateTokenInfo::default()), rows);
    check(|out| out.logprobs[0] = f32::NAN, "a log-prob that is not a number");
    check(|out| out.candidate_tokens[0].tokens[0].logprob = f32::NAN, "a log-prob that is not a number");
    check(|out| out.logprobs[0] = f32::NEG_INFINITY, "1 delta");
    let count = "a final token count that differs from the tokens sent";
    check(|out| out.finish_info = Some(finish(2, WireReason::Stop)), count);
    check(|out| out.finish_info = Some(finish(1, WireReason::NotFinished)), "a finish without a reason");
    let rows = "a sampling mask whose rows differ from the tokens";
    check(|out| out.sampling_mask = vec![TokenIds::default(); 2], rows);
    check(|out| out.sampling_mask = vec![TokenIds { ids: vec![5, 6] }], "1 delta");
}

#[test]
fn messages_out_of_order_are_a_broken_contract() {
    for (messages, problem) in [
        (vec![message(output(&[5]))], "output before prompt information"),
        (vec![prompt(), prompt()], "prompt information twice"),
    ] {
        assert_eq!(read(&request(), messages), Err(EngineError::Protocol(problem.to_owned())));
    }
}

#[test]
fn prompt_information_rides_on_the_first_output_and_every_field_arrives() {
    let mut asked = request();
    asked.outputs.prompt_logprobs = Some(Candidates::Top(1));
    let rival = CandidateTokenInfo { tokens: vec![TokenInfo { id: 8, logprob: -0.25, rank: 1 }] };
    let scored = PromptInfo {
        num_prompt_tokens: 3,
        token_ids: vec![],
        logprobs: vec![0.0, -1.5, -2.5],
        ranks: vec![0, 7, 9],
        candidate_tokens: vec![CandidateTokenInfo::default(), rival, CandidateTokenInfo::default()],
    };
    let port = Value { kind: Some(Kind::NumberValue(5600.0)) };
    let params = Struct { fields: [("port".to_owned(), port)].into() };
    let last = FinishInfo {
        kv_transfer_params: Some(params),
        num_cached_tokens: Some(2),
        stop_reason: Some(StopReason::EosTokenId(6)),
        ..finish(2, WireReason::Stop)
    };
    let messages = vec![
        GenerateResponse { prompt_info: Some(scored), outputs: None },
        message(output(&[5])),
        message(SequenceOutput { finish_info: Some(last), ..output(&[6]) }),
    ];
    let deltas = read(&asked, messages).expect("in order");
    assert_eq!(deltas.len(), 2);
    let prompt = deltas[0].prompt.as_deref().expect("on the first delta");
    let scored: Vec<_> = prompt.logprobs.iter().map(|row| (row.token, row.logprob, row.rank)).collect();
    assert_eq!(scored, [(1, 0.0, 0), (2, -1.5, 7), (3, -2.5, 9)]);
    assert_eq!(prompt.logprobs[1].candidates, [Candidate { token: 8, logprob: -0.25, rank: 1 }]);
    assert!(deltas[1].prompt.is_none());
    let finish = deltas[1].finish.as_deref().expect("on the last delta");
    assert_eq!((finish.reason, finish.output_tokens, finish.cached_tokens), (FinishReason::Stop, 2, Some(2)));
    assert_eq!(finish.stop, Some(StopCause::Eos(6)));
    let params = finish.extras.kv_transfer_params.as_ref().map(tito_types::RawJson::as_str);
    assert_eq!(params, Some(r#"{"port":5600}"#));
}

proptest::proptest! {
    /// Whatever an engine sends is read or refused; the counts that are passed on add up.
    #[test]
    fn any_bytes_are_read_or_refused(wire in proptest::collection::vec(message_bytes(), 0..6)) {
        let mut asked = request();
        asked.outputs.logprobs = Some(Candidates::Top(2));
        asked.outputs.prompt_logprobs = Some(Candidates::Top(2));
        let mut reader = Reader::new(&asked);
        let mut tokens = 0;
        for bytes in wire {
            let Ok(message) = <GenerateResponse as prost::Message>::decode(bytes.as_slice()) else { return Ok(()) };
            let Ok(delta) = reader.read(message) else { return Ok(()) };
            let Some(delta) = delta else { continue };
            tokens += delta.token_ids.len();
            proptest::prop_assert_eq!(delta.logprobs.len(), delta.token_ids.len());
            if let Some(finish) = delta.finish {
                proptest::prop_assert_eq!(finish.output_tokens as usize, tokens);
            }
        }
    }
}

/// Random bytes, or a good message with one byte changed.
fn message_bytes() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::*;
    let scored = SequenceOutput { logprobs: vec![-0.5], ranks: vec![1], ..output(&[5]) };
    let last = SequenceOutput { finish_info: Some(finish(1, WireReason::Length)), ..output(&[]) };
    let good = [prompt(), message(scored), message(last)].map(|good| prost::Message::encode_to_vec(&good));
    let good = proptest::sample::select(good.to_vec());
    let changed = (good, any::<prop::sample::Index>(), any::<u8>(), any::<bool>());
    let changed = changed.prop_map(|(mut bytes, at, value, change)| {
        if change && !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes
    });
    prop_oneof![3 => changed, 1 => proptest::collection::vec(any::<u8>(), 0..64)]
}
