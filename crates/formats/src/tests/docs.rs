//! The tables of the docs and the lists of fields say the same.

use std::collections::BTreeMap;

use super::{COMPLETIONS, GENERATE, Subject};
use crate::fields::Treatment;

/// Rows whose first cell is a field and whose second is a treatment: path → (treatment, the whole row).
fn rows(page: &str) -> Vec<(String, String, &str)> {
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let row = |line| match cells(line).as_slice() {
        [_, field, treatment, ..] if ["executed", "refused", "ignored"].contains(&treatment.as_str()) => {
            Some((field.trim_matches('`').to_owned(), treatment.clone(), line))
        }
        _ => None,
    };
    page.lines().filter_map(row).collect()
}

#[track_caller]
fn check(subject: &Subject, page: &str) {
    let mut documented = BTreeMap::new();
    for (path, treatment, row) in rows(page) {
        assert!(documented.insert(path.clone(), (treatment, row)).is_none(), "{path} has two rows");
    }
    for (path, field) in subject.fields() {
        let Some((treatment, row)) = documented.remove(&path) else { panic!("{path} has no row") };
        let expected = match field.treatment {
            Treatment::Executed => "executed",
            Treatment::Ignored => "ignored",
            Treatment::Refused { reason, .. } => {
                assert!(row.contains(reason), "the row of {path} must say: {reason}");
                "refused"
            }
        };
        assert_eq!(treatment, expected, "{path}");
    }
    assert_eq!(documented.keys().collect::<Vec<_>>(), Vec::<&String>::new(), "rows of unknown fields");
}

#[test]
fn the_generate_page_has_one_row_for_each_field() {
    check(&GENERATE, include_str!("../../../../docs/generate.md"));
}

#[test]
fn the_completions_page_has_one_row_for_each_field() {
    check(&COMPLETIONS, include_str!("../../../../docs/completions.md"));
}
