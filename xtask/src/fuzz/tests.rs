use super::*;

#[test]
fn a_run_writes_beside_the_committed_corpus_and_reads_it_where_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap().to_owned();
    let workspace = Workspace { target: format!("{root}/target"), root: root.clone(), crates: Vec::new() };
    fs::create_dir_all(format!("{root}/fuzz/corpus/known")).unwrap();
    let words = |target: &str| run_words(&workspace, target, 60, 7).unwrap().join(" ");
    let known = format!(
        "cargo fuzz run known {root}/target/fuzz/known fuzz/corpus/known -- -max_total_time=60 -seed=7"
    );
    assert_eq!(words("known"), known);
    assert_eq!(
        words("new"),
        format!("cargo fuzz run new {root}/target/fuzz/new -- -max_total_time=60 -seed=7")
    );
    assert!(Path::new(&root).join("target/fuzz/known").is_dir());
}

#[test]
fn a_checkout_without_targets_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap().to_owned();
    let workspace = Workspace { target: String::new(), root, crates: Vec::new() };
    assert_eq!(missing(&workspace).as_deref(), Some("there is no fuzz/Cargo.toml"));
}
