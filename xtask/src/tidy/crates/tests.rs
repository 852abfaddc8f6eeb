use std::fmt::Write as _;

use super::*;

/// Crates written as `name layer: dependency dependency dev:dependency`, one a line, against a crate table.
#[track_caller]
fn check(crates: &str, table: &str, expected: &[&str]) {
    let crates: Vec<Crate> = crates.lines().map(parse).collect();
    let found: Vec<String> = super::check(&crates, table).iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "\n found: {found}\nwanted: {expected}");
    }
}

fn parse(line: &str) -> Crate {
    let (head, dependencies) = line.trim().split_once(':').unwrap();
    let (name, layer) = head.split_once(' ').unwrap();
    let dependencies: Vec<&str> = dependencies.split_whitespace().collect();
    let mut manifest = format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n[dependencies]\n");
    for name in &dependencies {
        writeln!(manifest, "{}.workspace = true", name.trim_start_matches("dev:")).unwrap();
    }
    let dependencies = dependencies.iter().map(|name| Dependency {
        name: name.trim_start_matches("dev:").to_owned(),
        dev: name.starts_with("dev:"),
    });
    Crate {
        name: name.to_owned(),
        folder: folder_of(name),
        layer: layer.parse().ok(),
        dependencies: dependencies.collect(),
        manifest,
    }
}

const TYPES: &str = "| 0 | `types` | words | built |\n";
const ENGINE: &str = "| 2 | `engine` | waist | built |\n";

#[track_caller]
fn check_pair(crates: &str, expected: &[&str]) {
    check(crates, &[TYPES, ENGINE].concat(), expected);
}

#[test]
fn an_arrow_that_goes_down_is_fine() {
    check_pair("tito-types 0:\ntito-engine 2: tito-types tokio", &[]);
}

#[test]
fn an_arrow_up_or_sideways_is_refused_where_it_is_written() {
    check_pair(
        "tito-engine 2: tokio tito-fleet\ntito-types 0:\ntito-fleet 2:",
        &[
            "crates/engine/Cargo.toml:7: tito-engine (layer 2) depends on tito-fleet (layer 2), which is not below it",
            "ARCHITECTURE.md:1: `fleet` is not in the crate table: add ``| 2 | `fleet`",
        ],
    );
}

#[test]
fn a_dev_dependency_may_go_anywhere() {
    check_pair("tito-types 0: dev:tito-engine dev:serde_json dev:rand\ntito-engine 2:", &[]);
}

#[test]
fn the_lowest_crate_uses_the_standard_library_only() {
    check_pair(
        "tito-types 0: thiserror\ntito-engine 2:",
        &["crates/types/Cargo.toml:6: tito-types depends on thiserror"],
    );
}

/// A crate that depends on something in line 6 of its manifest, and what is said of it, if anything is.
#[track_caller]
fn check_dependency(name: &str, layer: u32, row: &str, dependency: &str, refused: Option<&str>) {
    let expected =
        refused.map(|said| format!("crates/{name}/Cargo.toml:6: tito-{name} {said} {dependency}: "));
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check(&format!("tito-{name} {layer}: {dependency}"), row, &expected);
}

#[test]
fn a_pure_crate_refuses_a_whole_family() {
    let refused = Some("is pure and must not depend on");
    for (dependency, refused) in
        [("tokio", refused), ("tokio-util", refused), ("rand_chacha", refused), ("tokionic", None)]
    {
        check_dependency("engine-sim", 1, "| 1 | `engine-sim` | simulation | built |", dependency, refused);
    }
}

#[test]
fn a_gated_dependency_stays_with_the_crates_that_have_a_reason() {
    for dependency in ["serde_json", "vllm-proto", "axum", "tito-test-support"] {
        check_dependency("engine", 2, ENGINE, dependency, Some("must not depend on"));
    }
    check_dependency("engine", 2, ENGINE, "serde", None);
    for dependencies in ["serde_json vllm-proto axum", "dev:tito-test-support"] {
        check_dependency("mock", 3, "| 3 | `mock` | look-alike | built |", dependencies, None);
    }
}

#[test]
fn a_manifest_states_its_layer_its_lints_and_lies_in_its_folder() {
    let mut member = parse("tito-engine none:");
    member.folder = "crates/waist".to_owned();
    member.manifest = "[package]\n[lints.rust]\nworkspace = true\n".to_owned();
    let found = house(&member).into_iter().map(|finding| finding.problem).collect::<Vec<_>>().join("; ");
    assert_eq!(
        found,
        "tito-engine lies in crates/waist; tito-engine states no layer; tito-engine does not use the workspace's lints"
    );
}

#[test]
fn the_binary_and_the_checks_have_folders_of_their_own() {
    assert_eq!(["tito", "xtask", "tito-kv-index"].map(folder_of), ["crates/cli", "xtask", "crates/kv-index"]);
    check("tito 8:\nxtask 9:", "| 8 | `cli` | wiring | built |\n| 9 | `xtask` | checks | built |", &[]);
}

#[test]
fn the_crate_table_agrees_with_the_workspace() {
    let found = |problem: &str| format!("ARCHITECTURE.md:1: `engine` {problem}");
    for (row, problem) in [
        ("| 2 | `engine` | waist | built |", None),
        ("| 3 | `engine` | waist | built |", Some("is on layer 3 here and 2 in its manifest")),
        ("| 2 | `engine` |  | built |", Some("has no purpose")),
        ("| 2 | `engine` | waist | reserved |", Some("exists and is marked \"reserved\": mark it built")),
        ("| 2 | engine | waist | built |", Some("is not in the crate table")),
        ("| two | `engine` | waist | built |", Some("is not in the crate table")),
    ] {
        let expected: Vec<String> = problem.into_iter().map(found).collect();
        check("tito-engine 2:", row, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn a_row_without_a_crate_is_reserved_or_wrong() {
    let engine_and = |row: &str| format!("{ENGINE}{row}");
    check("tito-engine 2:", &engine_and("| 1 | `policy` | choice | reserved |"), &[]);
    check(
        "tito-engine 2:",
        &engine_and("| 1 | `policy` | choice | built |"),
        &["ARCHITECTURE.md:2: `policy` is listed and is not in the workspace"],
    );
    check("tito-engine 2:", &engine_and(ENGINE), &["ARCHITECTURE.md:2: `engine` is listed twice"]);
}

#[test]
fn a_row_of_the_dependency_table_that_no_crate_uses_is_refused() {
    let crates = ["tito-types 0:", "tito-engine 2: tokio dev:tokio-util"].map(parse);
    let manifest = "[workspace]\n[workspace.dependencies]\n# tower = \"1\"\n\ntokio = \"1\"\nhttp.version = \"1\"\n\
        tokio-util = { version = \"1\" }\ntokio-stream = \"1\"\n[profile.dev]\ndebug = true\n";
    let found: Vec<String> = unused(&crates, manifest).iter().map(ToString::to_string).collect();
    let expected = ["Cargo.toml:6: no crate uses http", "Cargo.toml:8: no crate uses tokio-stream"];
    assert_eq!(found, expected.map(|problem| format!("{problem}: remove it from the table")));
}
