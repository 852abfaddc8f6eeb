use super::*;

const LINE: &str = r#"{"timestamp": 5, "input_length": 700, "output_length": 3, "hash_ids": [1, 2]}"#;

#[track_caller]
fn check(text: &str, requests: Option<u32>, expected: Result<usize, &str>) {
    let found = parse(text.as_bytes(), requests, 512, "t").map(|trace| trace.len());
    match (found, expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected),
        (Err(error), Err(expected)) => assert_eq!(format!("{error:#}"), expected),
        (found, expected) => panic!("{found:?}, expected {expected:?}"),
    }
}

#[test]
fn a_line_is_a_request_whatever_else_it_holds() {
    check("", None, Ok(0));
    check(LINE, None, Ok(1));
    check(&format!("{LINE}\r\n{LINE}\n"), None, Ok(2));
    check(&format!("{}, \"kind\": {{}}}}\n", &LINE[..LINE.len() - 1]), None, Ok(1));
    check(&format!("{LINE}\nnothing\n"), Some(1), Ok(1));
    check(&LINE.replace("[1, 2]", "[1]"), None, Ok(1));
}

#[test]
fn mistakes_are_named_by_line_and_column() {
    let second = |line: &str| format!("{LINE}\n{line}\n{LINE}\n");
    let changed = |from: &str, to: &str| second(&LINE.replace(from, to));
    let object = Err("t:2: a line must be a JSON object");
    check(&second(""), None, object);
    check(&second("[5, 700, 3, [1, 2]]"), None, object);
    check(&second("\u{feff}{}"), None, object);
    check(&second("{}"), None, Err("t:2:2: missing field `timestamp`"));
    check(&second(&format!("{LINE} 1")), None, Err("t:2:79: trailing characters"));
    check(&changed(": 700", ": -1"), None, Err("t:2:35: invalid value: integer `-1`, expected u32"));
    check(&changed("5", "1e999"), None, Err("t:2:19: number out of range"));
    check(&changed("[1, 2]", "null"), None, Err("t:2:74: invalid type: null, expected a sequence"));
}

#[test]
fn ids_that_do_not_stand_for_the_prompt_are_refused() {
    let ids = |ids: &str| LINE.replace("[1, 2]", ids);
    for (list, count) in [("[]", 0), ("[1, 2, 3]", 3)] {
        let wrong = "ids for 700 prompt tokens, which are 2 blocks of 512; is --trace-block-size right?";
        check(&ids(list), None, Err(&format!("t:1: {count} {wrong}")));
    }
}

#[test]
fn ids_that_do_not_stand_for_the_output_are_refused() {
    // 703 tokens have one block of 512 after the prompt's full one, and it is not full.
    let with = |ids: &str| LINE.replace("[1, 2]", &format!("[1, 2], \"output_hash_ids\": {ids}"));
    let wrong = |count| {
        let found = format!("{count} ids in output_hash_ids, but prompt and output");
        format!("t:1: {found} have 1 blocks of 512 after the prompt's full ones")
    };
    check(&with("[]"), None, Ok(1));
    check(&with("[7]"), None, Ok(1));
    check(&with("[7, 8]"), None, Err(&wrong(2)));
    let long = with("[]").replace("\"output_length\": 3", "\"output_length\": 400");
    check(&long, None, Err(&wrong(0).replace("1 blocks", "2 blocks")));
}

#[test]
fn a_line_without_end_is_not_read_to_its_end() {
    let long = format!("{LINE}\n{{{}", " ".repeat(LINE_BYTES_MAX as usize));
    check(&long, None, Err("t:2: longer than 4194304 bytes"));
}
