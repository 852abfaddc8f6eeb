use std::io::Write as _;

use super::*;

fn command() -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).num_args(1);
    Command::new("serve")
        .arg(flag("config").value_parser(value_parser!(PathBuf)))
        .arg(flag("port").value_parser(value_parser!(u16)).default_value("8000"))
        .arg(flag("engine").action(ArgAction::Append))
        .arg(flag("rule").value_parser(["best", "any"]).default_value("any"))
        .arg(Arg::new("strict").long("strict").action(ArgAction::SetTrue))
}

/// The four values with their origins, or the error, for a file with this text.
#[track_caller]
fn check(file: &str, flags: &[&str], expected: &str) {
    let mut path = tempfile::NamedTempFile::new().expect("a temporary file");
    path.write_all(file.as_bytes()).expect("written");
    let mut argv = vec![OsString::from("serve"), "--config".into(), path.path().into()];
    argv.extend(flags.iter().map(OsString::from));
    let found = match Layered::read(&command(), &argv) {
        Ok(layered) => {
            let port: u16 = *layered.matches.get_one("port").expect("has a default");
            let engines: Vec<&String> = layered.matches.get_many("engine").into_iter().flatten().collect();
            let strict = layered.matches.get_flag("strict");
            let origins = ["port", "engine", "strict"].map(|id| layered.origin(id));
            format!("{port} {engines:?} {strict} {origins:?}")
        }
        Err(error) => {
            let shown = error.to_string().replace(&path.path().display().to_string(), "FILE");
            shown.lines().next().unwrap_or_default().to_owned()
        }
    };
    assert_eq!(found, expected);
}

#[test]
fn a_flag_beats_the_file_and_the_file_beats_the_default() {
    check("", &[], "8000 [] false [Default, Default, Default]");
    check("port = 9000\nstrict = true", &[], "9000 [] true [File, Default, File]");
    check("port = 9000", &["--port", "7000"], "7000 [] false [Flag, Default, Default]");
    check("port = 9000", &["--port", "8000"], "8000 [] false [Flag, Default, Default]");
    check(
        r#"engine = ["vllm://a:1", "vllm://b:1"]"#,
        &[],
        r#"8000 ["vllm://a:1", "vllm://b:1"] false [Default, File, Default]"#,
    );
    check(
        r#"engine = "vllm://a:1""#,
        &["--engine", "vllm://c:1"],
        r#"8000 ["vllm://c:1"] false [Default, Flag, Default]"#,
    );
    check("strict = false", &["--strict"], "8000 [] true [Default, Default, Flag]");
}

#[test]
fn every_bad_key_is_named_at_once() {
    check(
        "prot = 1\nstrict = 3\nport = [1]\nconfig = \"x\"",
        &[],
        "FILE: unknown key `config`: keys are the long flags of tito serve; FILE: `port` takes one value, not a list; \
         FILE: unknown key `prot`: keys are the long flags of tito serve; did you mean `port`?; \
         FILE: `strict` must be true or false",
    );
    check("port = 70000", &[], "FILE: invalid value '70000' for '--port <port>': 70000 is not in 0..=65535");
    check(
        "port = 70000\nstrict = 3",
        &["--rule", "worst"],
        "FILE: `strict` must be true or false; FILE: invalid value '70000' for '--port <port>': 70000 is not in \
         0..=65535; command line: invalid value 'worst' for '--rule <rule>' [possible values: best, any]",
    );
    check(
        "port = 70000",
        &["--port", "x"],
        "command line: invalid value 'x' for '--port <port>': not a whole number",
    );
    check("", &["--port="], "command line: invalid value '' for '--port <port>': not a whole number");
    let many = "9".repeat(40);
    let out = format!("command line: invalid value '{many}' for '--port <port>': out of range");
    check("", &["--port", &many], &out);
    check("strict = 3", &["--nonsense"], "error: unexpected argument '--nonsense' found");
    check("[port]\nx = 1", &[], "FILE: `port` must be a string, a number or a boolean");
    check("port = ", &[], "FILE is not TOML: line 1: string values must be quoted, expected literal string");
    // The line is not shown: it may hold a key.
    let unquoted = "FILE is not TOML: line 2: string values must be quoted, expected literal string";
    check("strict = true\napi-key = SECRET", &[], unquoted);
}

#[test]
fn a_key_that_nearly_is_one_is_named() {
    let check = |key: &str, expected: Option<&str>| {
        assert_eq!(meant(&command(), key).as_deref(), expected, "{key}");
    };
    check("Port", Some("port"));
    check("engines", Some("engine"));
    check("st_rict", Some("strict"));
    check("confg", None);
    check("port", None);
    check("velocity", None);
    check("", None);
}

#[test]
fn a_missing_file_is_named() {
    let argv = ["serve", "--config", "no-such-file.toml"].map(OsString::from);
    let error = Layered::read(&command(), &argv).expect_err("there is no such file");
    assert_eq!(error.to_string(), "cannot read no-such-file.toml");
}
