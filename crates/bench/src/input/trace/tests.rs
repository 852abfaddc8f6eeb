use std::io::Write as _;

use tempfile::NamedTempFile;

use super::Trace;
use crate::config::Span;

fn read(text: &str, block_tokens: u32) -> Result<Trace, String> {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    Trace::read(file.path(), None, block_tokens).map_err(|error| {
        let error = error.to_string();
        error.strip_prefix(&file.path().display().to_string()).unwrap().to_owned()
    })
}

fn prompt(trace: &Trace, number: u64, seed: u64) -> Vec<u32> {
    let mut text = Vec::new();
    trace.write(number, Span { first: 10, last: 999 }, seed, &mut text);
    let ids: Vec<_> =
        String::from_utf8(text).unwrap().split(',').map(|id| id.parse::<u32>().unwrap()).collect();
    assert_eq!(ids.len(), trace.prompt_tokens(number) as usize);
    assert!(ids.iter().all(|id| (10..=999).contains(id)));
    ids
}

/// The second line came first; the third continues it by a block; the fourth leaves its partial block unnamed.
const FOUR: &str = r#"{"timestamp":3000,"input_length":20,"output_length":5,"hash_ids":[7,8,9]}
{"timestamp":1000.5,"input_length":18,"output_length":0,"hash_ids":[1,2,3]}
{"timestamp":2000.5,"input_length":24,"output_length":3,"hash_ids":[1,2,4],"more":1}
{"timestamp":3000,"input_length":20,"output_length":6,"hash_ids":[7,8]}
"#;

#[test]
fn requests_come_in_the_order_and_at_the_distances_of_their_timestamps() {
    let trace = read(FOUR, 8).unwrap();
    let arrivals = |speed| trace.arrivals(speed).map(|due| due.as_secs_f64() * 1e3).collect::<Vec<_>>();
    assert_eq!(arrivals(1.0), [0.0, 1000.0, 1999.5, 1999.5]);
    assert_eq!(arrivals(2.0), [0.0, 500.0, 999.75, 999.75]);
    let outputs: Vec<_> = (0..5).map(|number| trace.output_tokens(number)).collect();
    assert_eq!(outputs, [1, 3, 5, 6, 1]);
}

#[test]
fn prompts_share_exactly_the_blocks_that_the_trace_names() {
    let trace = read(FOUR, 8).unwrap();
    let [a, b, c, d] = [0, 1, 2, 3].map(|number| prompt(&trace, number, 1));
    assert_eq!(a[..16], b[..16]);
    assert_ne!(a[16..18], b[16..18]);
    assert_eq!(c[..16], d[..16]);
    assert_ne!(c[16..], d[16..], "what no id covers belongs to one request");
    assert_ne!(a[..8], c[..8]);
    assert_eq!(prompt(&trace, 4, 1), a, "after the last comes the first");
    assert_ne!(prompt(&trace, 0, 2)[..8], a[..8], "another seed, other ids");
}

#[test]
fn a_line_that_makes_no_request_is_refused() {
    let check = |line: &str, expected: &str| assert_eq!(read(line, 8).unwrap_err(), expected);
    check(
        r#"{"timestamp":-1,"input_length":1,"output_length":1,"hash_ids":[]}"#,
        ":1: timestamp -1, must be milliseconds from 0 to a year",
    );
    check(
        r#"{"timestamp":0,"input_length":0,"output_length":1,"hash_ids":[]}"#,
        ":1: input_length 0, must be 1 to 10000000",
    );
    check(
        r#"{"timestamp":0,"input_length":1,"output_length":1000001,"hash_ids":[]}"#,
        ":1: output_length 1000001, must be at most 1000000",
    );
    check(
        r#"{"timestamp":0,"input_length":17,"output_length":1,"hash_ids":[1]}"#,
        ":1: 1 ids for 17 prompt tokens, which are 3 blocks of 8; is --trace-block-tokens right?",
    );
    check(r#"{"timestamp":0}"#, ":1: column 15: missing field `input_length`");
}
