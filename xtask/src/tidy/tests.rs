use super::*;

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: Some(text.to_owned()) }
}

#[test]
fn a_finding_says_where_what_and_what_to_do() {
    let finding = Finding::new("a/b.rs", 7, "too long", "split it");
    assert_eq!(finding.to_string(), "a/b.rs:7: too long: split it");
}

#[test]
fn documents_are_checked_together() {
    let files = [
        file("README.md", "[guide](docs/guide.md) [gone](docs/gone.md)"),
        file("docs/README.md", "nothing is listed"),
        file("docs/guide.md", "text"),
        file("changelog.d/guide.md", "A guide."),
    ];
    let found: Vec<String> = documents(&files)
        .into_iter()
        .map(|finding| format!("{}: {}", finding.path, finding.problem))
        .collect();
    assert_eq!(
        found,
        [
            "README.md: there is no docs/gone.md",
            "changelog.d/guide.md: not the name of a fragment",
            "docs/guide.md: docs/README.md does not list it",
        ]
    );
}

#[test]
fn a_checkout_without_its_architecture_document_is_refused() {
    let workspace = Workspace { root: String::new(), target: String::new(), crates: Vec::new() };
    let found = architecture(&workspace, &[file("README.md", "")]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, "ARCHITECTURE.md");
}
