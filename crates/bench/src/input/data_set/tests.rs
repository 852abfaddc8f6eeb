use std::io::Write as _;

use tempfile::NamedTempFile;

use super::DataSet;

fn read(text: &str) -> Result<DataSet, String> {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    DataSet::read(file.path()).map_err(|error| {
        let error = error.to_string();
        error.strip_prefix(&file.path().display().to_string()).unwrap().to_owned()
    })
}

/// Each prompt as `ids > output tokens`, one more than there are.
fn shown(set: &DataSet) -> Vec<String> {
    let show = |number| {
        let text = String::from_utf8(set.text(number).to_vec()).unwrap();
        assert_eq!(text.split(',').count(), set.prompt_tokens(number) as usize);
        format!("{text} > {:?}", set.output_tokens(number))
    };
    (0..=set.prompts()).map(show).collect()
}

const THREE: &str = r#"{"token_ids":[1,22,333],"output_tokens":4}
{"token_ids":[0]}
{"id":"x","token_ids":[4294967295, 7],"output_tokens":1,"more":{}}
"#;

#[test]
fn prompts_are_sent_as_they_are_written_and_begin_again_after_the_last() {
    let set = read(THREE).unwrap();
    assert_eq!(set.prompt_tokens_max(), 3);
    assert_eq!(
        shown(&set),
        ["1,22,333 > Some(4)", "0 > None", "4294967295,7 > Some(1)", "1,22,333 > Some(4)"]
    );
}

#[test]
fn a_line_that_cannot_be_sent_is_refused() {
    let check = |line: &str, expected: &str| assert_eq!(read(line).unwrap_err(), expected);
    check(r#"{"token_ids":[]}"#, ":1: 0 token ids, must be 1 to 10000000");
    check(r#"{"token_ids":[1],"output_tokens":0}"#, ":1: 0 output tokens, must be 1 to 1000000");
    check(r#"{"prompt":"hello"}"#, ":1: column 18: missing field `token_ids`");
    check(r#"{"token_ids":["a"]}"#, ":1: column 17: invalid type: string \"a\", expected u32");
    check(r#"{"token_ids":[-1]}"#, ":1: column 16: invalid value: integer `-1`, expected u32");
}
