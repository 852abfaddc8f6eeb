use super::*;

#[test]
fn ids_are_read_as_a_json_parser_reads_them() {
    for json in [
        "[]",
        "[ ]",
        "[0]",
        "[1,2]",
        "[ 1 ,\t2\r\n]",
        "[4294967295]",
        "[4294967296]",
        "[99999999999999999999]",
        "[-1]",
        "[-0]",
        "[1.0]",
        "[1e1]",
        "[null]",
        "[true]",
        "[\"1\"]",
        "[[1]]",
        "[{\"a\":1}]",
        "{}",
        "\"[1]\"",
        "1",
    ] {
        let parsed = serde_json::from_str::<Vec<TokenId>>(json).ok();
        assert_eq!(token_ids(json, || "p".to_owned()).ok(), parsed, "{json}");
    }
}
