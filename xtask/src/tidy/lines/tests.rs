use super::*;

const CODE: &str = "crates/a/src/b.rs";
const TEST: &str = "crates/a/src/b/tests.rs";

#[track_caller]
fn check(path: &str, text: &str, expected: &[&str]) {
    let found: Vec<String> = super::check(path, text)
        .into_iter()
        .map(|finding| format!("{}: {}", finding.line, finding.problem))
        .collect();
    assert_eq!(found, expected, "{path}: {text}");
}

#[test]
fn leftovers_are_refused_in_code() {
    for (line, found) in [
        ("    todo!()", "1: todo! left in"),
        ("    unimplemented!(\"later\")", "1: unimplemented! left in"),
        ("// FIXME: later", "1: FIXME left in"),
        ("// XXX", "1: XXX left in"),
        ("#[ignore]", "1: #[ignore] left in"),
        ("#[ignore = \"slow\"]", "1: #[ignore] left in"),
        ("#[cfg_attr(unix, ignore)]", "1: #[ignore] left in"),
    ] {
        check(CODE, line, &[found]);
        check(TEST, line, &[found]);
        check("docs/a.md", line, &[]);
    }
    check(".ci/run", "# FIXME", &["1: FIXME left in"]);
    for line in ["mktemp -d a.XXXXXX", "fn unfinished_todo()", "let ignored = 1;", "my_todo!()"] {
        check(CODE, line, &[]);
    }
}

#[test]
fn tests_do_not_sleep() {
    for line in [
        "tokio::time::sleep(Duration::from_secs(1)).await;",
        "    sleep(SECOND).await;",
        "time::sleep(SECOND).await",
        "std::thread::sleep(SECOND);",
        "tokio::time::sleep_until(deadline).await;",
    ] {
        check(TEST, line, &["1: a test that sleeps"]);
        check("crates/a/tests/it/main.rs", line, &["1: a test that sleeps"]);
        check(CODE, line, &[]);
        check(TEST, &format!("{line}\n#[tokio::test(start_paused = true)]"), &[]);
    }
    for line in ["client.sleep(request).await;", "fn sleep(level: u32) {}", "is_sleeping()", "admin_sleep(1)"]
    {
        check(TEST, line, &[]);
    }
}

#[test]
fn tests_do_not_fix_ports() {
    for (line, found) in [
        ("TcpListener::bind(\"127.0.0.1:8080\")", "1: port 8080 is fixed"),
        ("\"vllm://localhost:50051\"", "1: port 50051 is fixed"),
        ("\"[::1]:8080\"", "1: port 8080 is fixed"),
        ("SocketAddr::from(([127, 0, 0, 1], 8080))", "1: port 8080 is fixed"),
        ("(Ipv4Addr::LOCALHOST, 8080)", "1: port 8080 is fixed"),
        ("bind(\"0.0.0.0:0\"); connect(\"0.0.0.0:8080\")", "1: port 8080 is fixed"),
    ] {
        check(TEST, line, &[found]);
        check(CODE, line, &[]);
    }
    for address in ["127.0.0.1:0", "127.0.0.1:1", "192.0.2.1:8080", "engine-a.test:8080", "127.0.0.1:{port}"]
    {
        check(TEST, &format!("\"{address}\""), &[]);
    }
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    for (line, found) in [
        ("cd /work/main", "1: /work/ is a path of one machine"),
        ("\"/root/.cache\"", "1: /root/ is a path of one machine"),
        ("[a](/home/me/a.md)", "1: /home/ is a path of one machine"),
        ("=/Users/me", "1: /Users/ is a path of one machine"),
    ] {
        for path in [CODE, TEST, "docs/a.md", ".ci/run", "Dockerfile"] {
            check(path, line, &[found]);
        }
        check("fixtures/a.json", line, &[]);
    }
    for line in
        ["https://example.com/home/a", "~/work/a", "$HOME/work/a", "src/root/a.rs", "./work/a", "homework/"]
    {
        check(CODE, line, &[]);
    }
}

#[test]
fn an_allowance_names_the_rule_and_a_reason_and_covers_its_line_and_the_next() {
    let port = |line| format!("{line}: port 80 is fixed");
    let nothing = |rule| format!("1: tidy-allow({rule}) allows nothing here");
    let no_reason = "1: an allowance without a reason".to_owned();
    for (text, expected) in [
        ("// tidy-allow(ports): nothing is opened here.\n\"127.0.0.1:80\"", vec![]),
        ("\"127.0.0.1:80\" // tidy-allow(ports): nothing is opened here.", vec![]),
        ("// tidy-allow(ports): nothing.\n\n\"127.0.0.1:80\"", vec![port(3), nothing("ports")]),
        ("// tidy-allow(sleep): no.\n\"127.0.0.1:80\"", vec![port(2), nothing("sleep")]),
        ("// tidy-allow(ports)\n\"127.0.0.1:80\"", vec![no_reason, port(2)]),
    ] {
        check(TEST, text, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
    check("CONTRIBUTING.md", "write `tidy-allow(rule): why`", &[]);
}

#[test]
fn the_file_that_spells_the_rules_out_is_exempt() {
    for path in LINE_RULES_EXEMPT {
        check(path, "todo!() /root/", &[]);
    }
}
