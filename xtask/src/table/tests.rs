use super::*;

#[test]
fn columns_are_as_wide_as_their_widest_cell() {
    let rows = [vec!["fmt".to_owned(), "passed".to_owned()], vec!["a|b".to_owned()]];
    let expected = "\
| stage | result |
| ----- | ------ |
| fmt   | passed |
| a\\|b  |        |
";
    assert_eq!(markdown(&["stage", "result"], &rows), expected);
}
