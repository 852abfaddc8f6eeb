use super::*;
use crate::trace::order;

const BLOCK: u32 = 10;

fn request(input_length: u32, output_length: u32, hash_ids: &[u64]) -> TraceRequest {
    TraceRequest { input_length, output_length, hash_ids: hash_ids.to_vec(), ..TraceRequest::default() }
}

/// Something that shares only its first block with the others, so that it makes no conversation.
fn other() -> TraceRequest {
    request(11, 1, &[0])
}

/// Prompt and output of every request; they arrive in the order of the list.
fn all(mut trace: Vec<TraceRequest>) -> Vec<Vec<u32>> {
    for (index, request) in trace.iter_mut().enumerate() {
        request.timestamp = index as f64;
    }
    let turns = Turns::new(&trace, &order(&trace), BLOCK);
    let content = Content { trace: &trace, turns: &turns, block_tokens: BLOCK };
    let tokens: Vec<_> = (0..trace.len() as u32).map(|index| content.tokens(index)).collect();
    for (tokens, request) in tokens.iter().zip(&trace) {
        assert_eq!(tokens.len() as u32, request.input_length + request.output_tokens());
    }
    tokens
}

/// How many leading tokens two requests have in common, their outputs included.
#[track_caller]
fn common(a: TraceRequest, b: TraceRequest, expected: usize) {
    let tokens = all(vec![other(), a, b]);
    let common = tokens[1].iter().zip(&tokens[2]).take_while(|(a, b)| a == b).count();
    assert_eq!(common, expected);
}

#[test]
fn equal_ids_are_equal_tokens_and_nothing_else_is() {
    common(request(30, 1, &[0, 1, 2]), request(30, 1, &[0, 1, 3]), 20);
    common(request(12, 8, &[0, 1]), request(14, 8, &[0, 2]), 10);
    // Without an id a partial block is nobody else's.
    common(request(19, 8, &[0]), request(19, 8, &[0]), 10);
    // With one it is equal as far as both prompts go, and the outputs are not.
    common(request(13, 8, &[0, 5]), request(13, 8, &[0, 5]), 13);
}

#[test]
fn the_next_turn_names_an_output_and_the_partial_block_before_it() {
    // 25 + 8 tokens lie in the blocks 1 and 2 and the partial block 3 of the next turn.
    common(request(25, 8, &[0, 1, 2]), request(37, 1, &[0, 1, 3, 4]), 33);
    common(request(25, 8, &[0, 1]), request(37, 1, &[0, 1, 3]), 33);
    // Too short for a next turn: the partial blocks have different ids.
    common(request(25, 8, &[0, 1, 2]), request(32, 1, &[0, 1, 3, 4]), 20);
}

#[test]
fn a_name_is_handed_back_through_a_whole_conversation() {
    let turn = |blocks: u32, output| {
        let ids: Vec<u64> =
            (0..=u64::from(blocks)).map(|block| if block == 0 { 0 } else { 100 + block }).collect();
        // The partial block at the end has another id in every turn.
        let ids = [&ids[..blocks as usize], &[1000 + u64::from(blocks)]].concat();
        request(blocks * BLOCK + 5, output, &ids)
    };
    let tokens = all(vec![other(), turn(2, 3), turn(3, 1), turn(4, 25), turn(7, 1)]);
    for pair in tokens[1..].windows(2) {
        assert_eq!(pair[1][..pair[0].len()], pair[0]);
    }
}

#[test]
fn the_traces_own_ids_name_outputs_without_a_next_turn() {
    let named = |ids: &[u64]| TraceRequest { output_hash_ids: Some(ids.to_vec()), ..request(25, 8, &[0, 1]) };
    common(named(&[7, 8]), request(40, 1, &[0, 1, 7, 9]), 33);
    // It is not long enough to be a next turn, and equal as far as the ids say so.
    common(named(&[7, 8]), request(32, 1, &[0, 1, 7, 8]), 32);
    common(named(&[7]), request(32, 1, &[0, 1, 7, 8]), 30);
    // A turn that extends it does not overrule its full blocks.
    common(named(&[6]), request(40, 1, &[0, 1, 7, 9]), 20);
}

#[test]
fn an_output_that_has_no_name_is_counted_as_such() {
    let own = TraceRequest { output_hash_ids: Some(vec![7]), ..request(25, 8, &[0, 9]) };
    let mut trace = vec![other(), request(25, 8, &[0, 1]), request(37, 1, &[0, 1, 3]), own];
    for (index, request) in trace.iter_mut().enumerate() {
        request.timestamp = index as f64;
    }
    let turns = Turns::new(&trace, &order(&trace), BLOCK);
    let content = Content { trace: &trace, turns: &turns, block_tokens: BLOCK };
    let named: Vec<bool> = (0..4).map(|index| content.output_is_named(index)).collect();
    assert_eq!(named, [false, true, false, true]);
}
