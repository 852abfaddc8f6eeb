use super::*;
use crate::trace::order;

/// Tokens per block of the trace.
const BLOCK: u32 = 10;

/// Timestamp, prompt tokens, output tokens, ids.
type Line = (f64, u32, u32, &'static [u64]);

fn trace(lines: &[Line]) -> Vec<TraceRequest> {
    let request = |&(timestamp, input_length, output_length, ids): &Line| TraceRequest {
        timestamp,
        input_length,
        output_length,
        hash_ids: ids.to_vec(),
        ..TraceRequest::default()
    };
    lines.iter().map(request).collect()
}

/// `previous` is the turn before each request; `ambiguous` the requests that could have had another.
#[track_caller]
fn check(trace: &[TraceRequest], previous: &[Option<u32>], ambiguous: &[usize]) {
    let turns = Turns::new(trace, &order(trace), BLOCK);
    assert_eq!(turns.previous, previous);
    let found: Vec<usize> = (0..trace.len()).filter(|&index| turns.ambiguous[index]).collect();
    assert_eq!(found, ambiguous);
    for (index, before) in previous.iter().enumerate() {
        if let Some(before) = before {
            assert_eq!(turns.next[*before as usize], Some(index as u32));
        }
    }
    assert_eq!(turns.next.iter().flatten().count(), previous.iter().flatten().count());
}

/// All begin with block 0; a conversation has blocks of its own after it.
const OTHER: Line = (0.0, 19, 1, &[0, 90]);

#[test]
fn a_turn_follows_the_one_whose_prompt_and_output_it_can_hold() {
    // Full blocks 0 and 1 match, and 25 + 8 tokens fit into 33.
    check(&trace(&[OTHER, (0.0, 25, 8, &[0, 1, 2]), (1.0, 33, 1, &[0, 1, 3])]), &[None, None, Some(1)], &[]);
    // One token too short.
    check(&trace(&[OTHER, (0.0, 25, 9, &[0, 1, 2]), (1.0, 33, 1, &[0, 1, 3])]), &[None; 3], &[]);
    // The last full block differs.
    check(&trace(&[OTHER, (0.0, 25, 8, &[0, 1, 2]), (1.0, 33, 1, &[0, 4, 3])]), &[None; 3], &[]);
    // An output of nothing is one token.
    check(&trace(&[OTHER, (0.0, 25, 0, &[0, 1, 2]), (1.0, 25, 1, &[0, 1, 3])]), &[None; 3], &[]);
}

#[test]
fn what_all_requests_begin_with_makes_no_conversation() {
    check(&trace(&[OTHER, (0.0, 15, 2, &[0, 1]), (1.0, 33, 1, &[0, 4, 3])]), &[None; 3], &[]);
    let two = trace(&[(0.0, 15, 2, &[0, 1]), (1.0, 33, 1, &[0, 1, 3])]);
    assert_eq!(shared_blocks(&two), 2);
    assert_eq!(shared_blocks(&two[..1]), 2);
    assert_eq!(shared_blocks(&[]), 0);
}

#[test]
fn the_longest_common_prefix_wins_and_then_the_last_to_arrive() {
    let lines = [
        OTHER,
        (0.0, 25, 1, &[0, 1, 2]),
        (1.0, 35, 1, &[0, 1, 3, 4]),
        (2.0, 45, 1, &[0, 1, 3, 5, 6]),
        (3.0, 21, 1, &[0, 1]),
        (3.0, 22, 1, &[0, 1]),
        (4.0, 30, 1, &[0, 1, 7]),
    ];
    let mut previous = vec![None; 7];
    previous[2] = Some(1);
    previous[3] = Some(2);
    // 22 tokens are not enough for 1.
    previous[5] = Some(4);
    // It extends 1, 4 and 5.
    previous[6] = Some(5);
    check(&trace(&lines), &previous, &[6]);
}

#[test]
fn each_request_has_one_next_turn_and_a_branch_is_ambiguous() {
    let lines = [OTHER, (0.0, 25, 1, &[0, 1, 2]), (1.0, 30, 1, &[0, 1, 3]), (2.0, 30, 1, &[0, 1, 4])];
    check(&trace(&lines), &[None, None, Some(1), None], &[3]);
}

#[test]
fn a_session_needs_no_match_and_stays_apart() {
    let mut lines =
        trace(&[OTHER, (0.0, 25, 1, &[0, 1, 2]), (2.0, 30, 1, &[0, 8, 9]), (1.0, 30, 1, &[0, 1, 4])]);
    for index in [1, 2] {
        lines[index].session_id = Some("a".to_owned());
    }
    check(&lines, &[None, None, Some(1), None], &[]);
}

#[test]
fn only_so_many_requests_with_one_prefix_are_remembered() {
    let mut lines = vec![OTHER];
    lines.extend((0..2 * CANDIDATES_MAX).map(|at| (at as f64, 25, 1, &[0, 1, 2][..])));
    // As many next turns as there were requests: only the last ones find one before them.
    lines.extend((0..2 * CANDIDATES_MAX).map(|at| (100.0 + at as f64, 27, 200, &[0, 1, 3][..])));
    let trace = trace(&lines);
    let turns = Turns::new(&trace, &order(&trace), BLOCK);
    assert!(turns.previous.iter().flatten().count() <= CANDIDATES_MAX);
    assert!(turns.previous.iter().flatten().count() > 0);
}
