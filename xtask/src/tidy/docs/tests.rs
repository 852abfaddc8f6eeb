use super::*;

#[track_caller]
fn check(name: &str, text: &str, expected: &[&str]) {
    let found: Vec<String> = fragment(name, name, text).into_iter().map(|finding| finding.problem).collect();
    assert_eq!(found, expected, "{name}: {text:?}");
}

#[test]
fn a_fragment_is_named_slug_kind_md() {
    let text = "`tito serve` reads one TOML file.\n";
    for name in ["README.md", "one-file.feature.md", "v2.fix.md", "tls-1-3.security.md"] {
        check(name, text, &[]);
    }
    let long = format!("{}.fix.md", "a".repeat(61));
    for name in [
        "one-file.md",
        "one-file.news.md",
        "One-File.fix.md",
        "one--file.fix.md",
        "-a.fix.md",
        "a.fix.txt",
        "old/a.fix.md",
        "a.b.fix.md",
        &long,
    ] {
        check(name, text, &["not the name of a fragment"]);
    }
}

#[test]
fn a_fragment_is_sentences() {
    for text in ["", "\nText.", "# Heading.\n", "- a bullet.\n", "no full stop"] {
        check("a.fix.md", text, &["not a release note"]);
    }
}

#[test]
fn every_page_is_in_the_index() {
    let paths = BTreeSet::from([
        "docs/README.md",
        "docs/generate.md",
        "docs/dev/waist.md",
        "docs/plot.svg",
        "README.md",
    ]);
    let found = |text: &str| index(&paths, text).into_iter().map(|finding| finding.path).collect::<Vec<_>>();
    assert_eq!(found("- [generate](generate.md#fields)\n- [waist](./dev/waist.md)\n"), Vec::<String>::new());
    assert_eq!(found("generate.md, [waist](dev/other.md)"), ["docs/dev/waist.md", "docs/generate.md"]);
}
