//! The field tables of the docs, which say what each field does.

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// `sampling_params.top_p`.
    pub(crate) field: String,
    pub(crate) treatment: Treatment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Treatment {
    Executed,
    Refused,
    Ignored,
}

const GENERATE: &str = include_str!("../../../../docs/generate.md");
const COMPLETIONS: &str = include_str!("../../../../docs/completions.md");

/// The rows of `docs/generate.md`.
pub(crate) fn generate() -> Vec<Row> {
    rows(GENERATE)
}

/// The rows of `docs/completions.md`.
pub(crate) fn completions() -> Vec<Row> {
    rows(COMPLETIONS)
}

/// The names of the fields with one treatment, in order.
pub(crate) fn names(rows: &[Row], treatment: Treatment) -> Vec<&str> {
    rows.iter().filter(|row| row.treatment == treatment).map(|row| row.field.as_str()).collect()
}

fn rows(page: &str) -> Vec<Row> {
    page.lines().filter_map(row).collect()
}

/// A line such as `` | `stream` | executed | … ``.
fn row(line: &str) -> Option<Row> {
    let mut cells = line.strip_prefix("| `")?.split(" | ");
    let field = cells.next()?.strip_suffix('`')?.to_owned();
    let treatment = match cells.next()? {
        "executed" => Treatment::Executed,
        "refused" => Treatment::Refused,
        "ignored" => Treatment::Ignored,
        _ => return None,
    };
    Some(Row { field, treatment })
}

#[test]
fn every_field_table_of_the_docs_is_read() {
    let count = |page: &str, treatment| page.matches(&format!("` | {treatment} |")).count();
    for (page, rows) in [(GENERATE, generate()), (COMPLETIONS, completions())] {
        for (word, treatment) in [
            ("executed", Treatment::Executed),
            ("refused", Treatment::Refused),
            ("ignored", Treatment::Ignored),
        ] {
            let found = names(&rows, treatment).len();
            assert!(found > 0);
            assert_eq!(found, count(page, word), "{word} rows");
        }
    }
}
