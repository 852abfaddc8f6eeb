use super::*;

/// A page in `docs/` of a checkout with a few files.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let paths = BTreeSet::from([
        "README.md",
        "docs/a page.md",
        "docs/generate.md",
        "docs/plots/e2e.svg",
        "xtask/src/main.rs",
    ]);
    let found: Vec<String> = super::check("docs/index.md", text, &paths)
        .into_iter()
        .map(|finding| format!("{}: {}", finding.line, finding.problem))
        .collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn a_link_to_a_file_or_a_folder_of_the_checkout_is_fine() {
    for text in [
        "[g](generate.md)",
        "[g](./generate.md#fields) and [r](../README.md \"The readme\")",
        "[x](../xtask/src) [x](/xtask/src/main.rs) [top](..)",
        "![plot](plots/e2e.svg)",
        "<img src=\"plots/e2e.svg\"> <a href=\"generate.md\">",
        "[page](<a page.md>) [page](a%20page.md)",
        "[ref]: generate.md",
        "[see][ref] and [here]: not a link",
        "[^1]: a note",
    ] {
        check(text, &[]);
    }
}

#[test]
fn a_link_elsewhere_is_not_ours_to_check() {
    check("[w](https://example.com/a.md) [m](mailto:a@example.com) [h](#fields) [s](//example.com/x)", &[]);
}

#[test]
fn a_link_that_leads_nowhere_is_found_on_its_line() {
    check("text\n[g](generated.md)", &["2: there is no docs/generated.md"]);
    check("[g](README.md)", &["1: there is no docs/README.md"]);
    check("[x](../xtask/sr)", &["1: there is no xtask/sr"]);
    check("[ref]: nowhere.md", &["1: there is no docs/nowhere.md"]);
    check("<img src=\"plots/ttft.svg\">", &["1: there is no docs/plots/ttft.svg"]);
}

#[test]
fn a_link_must_not_leave_the_checkout() {
    check("[d](../../design/style.md)", &["1: ../../design/style.md leads outside the checkout"]);
}

#[test]
fn code_holds_no_links() {
    check("`[a](b.md)` and `x` [g](generate.md)", &[]);
    check("```\n[a](b.md)\n~~~\n[a](b.md)\n```\n[a](b.md)", &["6: there is no docs/b.md"]);
}
