use std::fs;

use super::*;

#[test]
fn a_checkout_without_git_is_walked_without_its_build_output() {
    let root = tempfile::tempdir().unwrap();
    for path in ["README.md", "crates/a/src/lib.rs", "target/debug/a.rs", "fuzz/target/b.rs"] {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "text").unwrap();
    }
    let mut files = walked_files(root.path()).unwrap();
    files.sort();
    assert_eq!(files, ["README.md", "crates/a/src/lib.rs"]);
}

#[test]
fn a_file_that_is_not_utf8_has_no_text() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("image.png");
    fs::write(&path, [0x89, 0x50, 0xff, 0xfe]).unwrap();
    assert_eq!(read_text(&path).unwrap(), None);
}

#[test]
fn this_very_workspace_loads_with_a_layer_on_every_crate() {
    let workspace = Workspace::load().unwrap();
    assert!(workspace.crates.iter().any(|member| member.name == "xtask" && member.layer == Some(9)));
}

#[test]
fn the_files_of_this_checkout_are_sources_and_not_build_output() {
    let files = Workspace::load().unwrap().files().unwrap();
    assert!(files.iter().any(|file| file.path == "xtask/src/main.rs" && file.text.is_some()));
    assert!(files.iter().all(|file| !file.path.starts_with("target/")));
}

#[test]
fn an_extension_belongs_to_the_name_and_not_to_a_folder() {
    for (path, expected) in [("a/b.rs", "rs"), ("a.d/run", ""), ("a/b.tar.gz", "gz"), ("Dockerfile", "")] {
        assert_eq!(extension(path), expected, "{path}");
    }
}
