use super::*;
use crate::testing::{bind, outcome};
use crate::{Format, OpenAiCompletions, VllmGenerate};

#[test]
fn ids_are_read_as_a_json_parser_reads_them() {
    let spaced = ["[ ]", "[ 1 ,\t2\r\n]"];
    let words = r#"[] [0] [1,2] [4294967295] [4294967296] [99999999999999999999] [-1] [-0] [1.0] [1e1] [null] [true]
        ["1"] [[1]] [{"a":1}] {} "[1]" 1"#;
    for json in words.split_whitespace().chain(spaced) {
        let parsed = serde_json::from_str::<Vec<TokenId>>(json).ok();
        assert_eq!(token_ids(json, || "p".to_owned()).ok(), parsed, "{json}");
    }
}

#[test]
fn half_a_surrogate_pair_is_said_to_be_no_text() {
    let check = |format: &dyn Format, body: &str, blamed: &str| {
        let said = "must be a string, got a string with a lone surrogate, which is not text";
        assert_eq!(outcome(&bind(format, body)), format!("Invalid {blamed}: {said}"), "{body}");
    };
    for (member, blamed) in [
        (r#""cache_salt":"\ud800""#, "cache_salt"),
        (r#""cache_salt":"a\uDC00b""#, "cache_salt"),
        (r#""model":"\ud800\u0041""#, "model"),
        (r#""request_id":"\ud800""#, "request_id"),
        (
            r#""features":{"mm_hashes":{"image":["\udfff"]},"mm_placeholders":{"image":[{"offset":0,"length":1}]}}"#,
            "features.mm_hashes.image[0]",
        ),
    ] {
        check(&VllmGenerate, &format!(r#"{{"token_ids":[1],"sampling_params":{{}},{member}}}"#), blamed);
    }
    check(&OpenAiCompletions, r#"{"prompt":[1],"stop":["a","\ud800"]}"#, "stop[1]");
    let pair = r#"{"prompt":[1],"cache_salt":"\ud83d\ude00"}"#;
    assert_eq!(outcome(&bind(&OpenAiCompletions, pair)), "ok");
}

#[test]
fn lists_of_whole_numbers_are_read_without_a_parser_and_others_are_left_to_it() {
    let check = |json: &str, expected: Option<&[TokenId]>| {
        assert_eq!(plain_ids(json).as_deref(), expected, "{json}");
    };
    check("[]", Some(&[]));
    check("[0]", Some(&[0]));
    check("[ 1,\n20 ,4294967295 ]", Some(&[1, 20, 4_294_967_295]));
    for other in ["[4294967296]", "[-1]", "[1.0]", "[1e3]", "[null]", "[[1]]", "{}", "1", "\"[1]\""] {
        check(other, None);
    }
}
