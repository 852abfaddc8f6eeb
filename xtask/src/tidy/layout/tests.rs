#[track_caller]
fn check(path: &str, text: &str, expected: &[&str]) {
    let found: Vec<String> = super::check(path, text).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_file_has_400_lines_or_800_with_a_reason() {
    let lines = |head: &str, count: usize| format!("{head}\n{}", "x\n".repeat(count - 1));
    check("a.rs", &lines("", 400), &[]);
    check(
        "a.rs",
        &lines("", 401),
        &[
            "a.rs:401: 401 lines, the limit is 400: split it by responsibility, or begin a comment in its first 10 lines with `Long because`",
        ],
    );
    check("a.rs", &lines("// Long because the table is one thing.", 800), &[]);
    check(
        "a.rs",
        &lines("//! Long because the table is one thing.", 801),
        &["a.rs:801: 801 lines, the limit is 800: split it by responsibility"],
    );
    check("a.json", &lines("", 5000), &[]);
}

#[test]
fn a_reason_is_near_the_top_and_says_something() {
    let long = |head: &str| super::check("a.rs", &format!("{head}{}", "x\n".repeat(500))).is_empty();
    assert!(long(&format!("{}// Long because of a state table.\n", "//\n".repeat(9))));
    assert!(!long(&format!("{}// Long because of a state table.\n", "//\n".repeat(10))));
    assert!(!long("// Long because\n"));
    assert!(!long("let text = \"Long because of a state table\";\n"));
}

#[test]
fn a_module_is_named_by_its_file_except_beside_integration_tests() {
    check(
        "crates/a/src/b/mod.rs",
        "",
        &["crates/a/src/b/mod.rs:1: a module is named by its file: move it to crates/a/src/b.rs"],
    );
    check("crates/a/tests/support/mod.rs", "", &[]);
}

#[test]
fn tests_lie_in_a_sibling_file() {
    check("crates/a/src/b.rs", "#[cfg(test)]\nmod tests;\n", &[]);
    let inline = "#[cfg(test)]\nmod tests {\n}\n";
    check(
        "crates/a/src/b.rs",
        inline,
        &[
            "crates/a/src/b.rs:2: tests inside the file they test: move them to crates/a/src/b/tests.rs and write `mod tests;`",
        ],
    );
    assert!(super::check("crates/a/src/lib.rs", inline)[0].remedy.contains("crates/a/src/tests.rs"));
}
