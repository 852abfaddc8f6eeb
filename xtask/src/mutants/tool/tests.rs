use super::*;

#[test]
fn a_name_matches_itself_alone_as_a_regular_expression() {
    let name = "src/a.rs:1:2: replace <impl A for B<'_>>::f -> Vec<(u8, u8)> with vec![(0, 1)] + $x^y";
    let expected =
        r"src/a\.rs:1:2: replace <impl A for B<'_>>::f -> Vec<\(u8, u8\)> with vec!\[\(0, 1\)\] \+ \$x\^y";
    assert_eq!(escaped(name), expected);
}

#[test]
fn the_list_gives_crate_and_name_and_refuses_what_has_none() {
    let list = r#"[{"package":"tito-policy","name":"a.rs:1:2: replace + with -","genre":"BinaryOperator"}]"#;
    let mutant = Mutant { package: "tito-policy".to_owned(), name: "a.rs:1:2: replace + with -".to_owned() };
    assert_eq!(mutants(list).unwrap(), [mutant]);
    assert!(mutants(r#"[{"package":"tito-policy"}]"#).unwrap_err().to_string().contains("no name"));
}

/// What a file with a baseline and these summaries of mutants `0`, `1`, … says.
fn outcomes(baseline: &str, summaries: &[&str], tests: Tests) -> Result<Vec<(String, Outcome)>> {
    let mut entries = vec![format!(r#"{{"scenario":"Baseline","summary":"{baseline}"}}"#)];
    entries.extend(summaries.iter().enumerate().map(|(name, summary)| {
        format!(r#"{{"scenario":{{"Mutant":{{"name":"{name}"}}}},"summary":"{summary}"}}"#)
    }));
    known(&format!(r#"{{"outcomes":[{}]}}"#, entries.join(",")), tests)
}

#[test]
fn outcomes_say_which_tests_caught_a_mutant() {
    let summaries = ["CaughtMutant", "MissedMutant", "Timeout", "Unviable"];
    let check = |tests, expected: [Outcome; 4]| {
        let known = outcomes("Success", &summaries, tests).unwrap();
        let names = ["0", "1", "2", "3"].map(str::to_owned);
        assert_eq!(known, names.into_iter().zip(expected).collect::<Vec<_>>());
    };
    let own = [Outcome::Caught, Outcome::MissedByOwn, Outcome::TimedOut, Outcome::Unviable];
    check(Tests::Own, own);
    let whole = [Outcome::CaughtAbove, Outcome::Missed, Outcome::TimedOut, Outcome::Unviable];
    check(Tests::WholeStack, whole);
}

#[test]
fn tests_that_fail_without_a_mutant_prove_nothing() {
    let error = outcomes("Failure", &[], Tests::Own).unwrap_err().to_string();
    assert!(error.contains("do not pass without a mutant"), "{error}");
    assert!(outcomes("Success", &["Surprise"], Tests::Own).is_err());
    assert!(known("{}", Tests::Own).is_err());
}

#[test]
fn a_crate_without_integration_tests_is_built_as_a_library_alone_and_only_files_of_the_sample_are_mutated() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["a/src", "b/src", "b/tests"] {
        fs::create_dir_all(folder.path().join(path)).unwrap();
    }
    for path in ["a/src/lib.rs", "b/src/lib.rs"] {
        fs::write(folder.path().join(path), "").unwrap();
    }
    let path = folder.path().to_str().unwrap().to_owned();
    let tree = Tree { path: path.clone(), folder: path, nextest: false };
    let package = |name: &str| Crate {
        name: name.to_owned(),
        folder: name.to_owned(),
        layer: None,
        dependencies: Vec::new(),
        manifest: String::new(),
    };
    let library = |name, tests| {
        let arguments = tree.arguments(&package(name), &["x".to_owned()], tests, "out");
        arguments.contains(&"--cargo-arg=--lib".to_owned())
    };
    let names = ["src/a.rs:1:2: x", "src/b.rs:1:2: x", "src/a.rs:3:4: y"].map(str::to_owned);
    let arguments = tree.arguments(&package("a"), &names, Tests::Own, "out");
    let files: Vec<&String> = arguments.iter().filter(|word| word.starts_with("--file")).collect();
    assert_eq!(files, ["--file=src/a.rs", "--file=src/b.rs"]);
    assert!(library("a", Tests::Own));
    assert!(!library("b", Tests::Own));
    assert!(!library("a", Tests::WholeStack));
}

#[test]
fn a_mutant_that_was_left_in_place_and_what_tests_wrote_are_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    let git = |arguments: &[&str]| {
        let identity = ["git", "-c", "user.name=test", "-c", "user.email=test@example.test"];
        process::output(&path, &[&identity, arguments].concat()).unwrap()
    };
    let file = |name: &str| folder.path().join(name);
    fs::write(file("code.rs"), "a + b").unwrap();
    fs::write(file(".gitignore"), "/target\n").unwrap();
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "code"]);
    fs::write(file("code.rs"), "a - b").unwrap();
    fs::create_dir(file("regressions")).unwrap();
    fs::write(file("regressions/seeds.txt"), "seed").unwrap();
    fs::create_dir(file("target")).unwrap();
    fs::write(file("target/build"), "output").unwrap();
    Tree { path: path.clone(), folder: path.clone(), nextest: false }.clean().unwrap();
    assert_eq!(fs::read_to_string(file("code.rs")).unwrap(), "a + b");
    assert!(!file("regressions").exists() && file("target/build").exists());
}
