use super::*;

fn outcomes(lines: &str) -> Outcomes {
    lines.lines().filter_map(outcome).collect()
}

#[test]
fn the_matrix_has_a_row_per_test_and_a_column_per_engine() {
    let mock = outcomes(
        "running 2 tests\ntest unary::greedy ... ok\ntest unary::seed ... FAILED\n\ntest result: FAILED. 1 passed",
    );
    let mut light = outcomes("test unary::greedy ... ok\ntest pause ... ok\ntest cases::sleep ... ok");
    mark_skipped(&mut light, "sleep\n");
    let expected = "\
| test          | mock    | light   |
| ------------- | ------- | ------- |
| cases::sleep  | not run | skipped |
| pause         | not run | passed  |
| unary::greedy | passed  | passed  |
| unary::seed   | FAILED  | not run |
| **passed**    | 1 of 2  | 2 of 3  |
";
    assert_eq!(matrix(&[("mock", mock), ("light", light)]), expected);
}

#[test]
fn other_lines_are_no_outcomes() {
    for line in
        ["", "test result: ok. 3 passed; 0 failed", "test a ... ignored", "thread 'a' panicked at ... ok"]
    {
        assert_eq!(outcome(line), None, "{line}");
    }
}

#[test]
fn ports_of_events_are_free_with_those_of_the_replay_and_below_the_ephemeral_range() {
    let port = events_port().unwrap();
    assert!(EVENTS_PORTS.contains(&port) && EVENTS_PORTS.end + REPLAY_OFFSET + EVENTS_RANKS_MAX <= 32_768);
    for taken in [0, 1, REPLAY_OFFSET, REPLAY_OFFSET + 1] {
        let held = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port + taken)).unwrap();
        assert!(!has_room(port), "{taken} after it is taken");
        drop(held);
        assert!(has_room(port));
    }
}
