use super::*;

fn stored(entries: &[(&str, f64, f64)]) -> BTreeMap<String, Stored> {
    let entry = |&(name, ratio, tolerance): &(&str, f64, f64)| (name.to_owned(), Stored { ratio, tolerance });
    entries.iter().map(entry).collect()
}

fn measured(entries: &[(&str, f64)]) -> BTreeMap<String, f64> {
    entries.iter().map(|(name, ratio)| ((*name).to_owned(), *ratio)).collect()
}

#[test]
fn only_lines_of_ratios_are_read() {
    assert_eq!(ratio("ratio decide-64-targets 0.42"), Some(("decide-64-targets", 0.42)));
    for line in ["ratio", "ratio x", "ratio x y", "ratio x 0", "ratio x NaN", "a ratio x 1", "targets 64"] {
        assert_eq!(ratio(line), None, "{line}");
    }
}

#[test]
fn one_run_out_of_line_does_not_move_the_median() {
    assert!((median(vec![9.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
}

#[track_caller]
fn check(now: f64, expected: Change) {
    let changes = compare(&measured(&[("a", now)]), &stored(&[("a", 2.0, 0.25)]));
    assert_eq!(changes["a"], expected, "{now} beside 2.0");
}

#[test]
fn a_ratio_may_differ_by_its_tolerance() {
    check(2.5, Change::Within);
    check(2.51, Change::Worse);
    check(1.5, Change::Within);
    check(1.49, Change::Better);
}

#[test]
fn a_ratio_that_is_measured_or_stored_alone_is_no_pass() {
    let changes = compare(&measured(&[("new", 1.0)]), &stored(&[("old", 1.0, 0.1)]));
    assert_eq!((changes["new"], changes["old"]), (Change::NotStored, Change::NotMeasured));
}

#[test]
fn what_is_written_is_read_back_with_the_tolerances_that_were_stored() {
    let before = stored(&[("a", 3.0, 0.5), ("gone", 1.0, 0.1)]);
    let text = written(&measured(&[("a", 1.2344), ("b", 0.5)]), &before);
    assert_eq!(parse(&text).unwrap(), stored(&[("a", 1.234, 0.5), ("b", 0.5, TOLERANCE)]));
}

#[test]
fn a_damaged_entry_is_named() {
    for text in [r#"{"a": {"ratio": 1}}"#, r#"{"a": {"ratio": -1, "tolerance": 0.1}}"#, r#"{"a": 3}"#] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(": a has no positive"), "{error}");
    }
    assert!(parse("[]").is_err());
}

#[test]
fn the_stored_file_can_be_read() {
    let file = format!("{}/../{STORED}", env!("CARGO_MANIFEST_DIR"));
    assert!(!parse(&fs::read_to_string(file).unwrap()).unwrap().is_empty());
}
