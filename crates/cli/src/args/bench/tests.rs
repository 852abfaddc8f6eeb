use clap::FromArgMatches as _;
use tito_bench::{ArrivalProcess, Header, Load, PromptSource, ReportConfig, Stop, Trust};

use super::*;

/// Reads a command line whose arguments hold no blank.
fn parse(line: &str) -> anyhow::Result<Bench> {
    parse_args(&line.split_whitespace().collect::<Vec<_>>())
}

fn parse_args(args: &[&str]) -> anyhow::Result<Bench> {
    let argv = ["tito", "bench"].iter().chain(args);
    let matches = crate::args::command().try_get_matches_from(argv)?;
    let (_, bench) = matches.subcommand().expect("bench");
    BenchArgs::from_arg_matches(bench)?.into_bench()
}

/// Targets as `name url api model pids`, or the first line of the error.
#[track_caller]
fn check(line: &str, expected: &[&str]) {
    let found = match parse(line) {
        Ok(bench) => std::iter::once(&bench.config.target)
            .chain(&bench.others)
            .map(|target| {
                let Target { name, url, api, model, pids, .. } = target;
                format!("{name} {url} {api:?} {} {pids:?}", model.as_deref().unwrap_or("-"))
            })
            .collect(),
        Err(error) => vec![error.to_string().lines().next().unwrap_or_default().to_owned()],
    };
    assert_eq!(found, expected);
}

#[test]
fn a_named_value_holds_for_its_target_only() {
    check("http://h:1 --pid 7,8", &["http://h:1 http://h:1 Generate - [7, 8]"]);
    check("http://h:1 --pid 8,8 --pid 7 --pid 8", &["http://h:1 http://h:1 Generate - [8, 7]"]);
    check(
        "tito=http://h:1 peer=http://h:2/x --api completions --api tito=generate --model m --model peer=k \
         --pid tito=7 --pid peer=8",
        &["tito http://h:1 Generate m [7]", "peer http://h:2/x Completions k [8]"],
    );
}

#[test]
fn mistakes_are_named() {
    check("http://h:1 --pid x", &["--pid x: not a process id"]);
    check("http://h:1 --body [1]", &["--body [1]: must be a JSON object"]);
    check("http://h:1 --api chat", &["`chat` is not `generate` or `completions`"]);
    let both = "error: the argument '--rate <R>' cannot be used with '--requests <N>'";
    check("http://h:1 --rate 5 --requests 5", &[both]);
    let limits = "error: invalid value 'ttft:1h' for '--goodput <LIMITS>': `ttft:1h` is not a list of limits such as \
                  `ttft:500ms itl:50ms tpot:30ms e2e:2s`, each at most once";
    check("http://h:1 --goodput ttft:1h", &[limits]);
    check("http://h:1 --header secret", &["--header: `…` is not a header NAME: VALUE"]);
    check("http://h:1 --dataset /nonexistent", &["/nonexistent: cannot be read"]);
}

#[test]
fn a_result_never_replaces_a_file_that_is_read_or_another_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("in"), "{\"token_ids\":[10]}\n").expect("a file");
    std::os::unix::fs::symlink(at("in"), at("link")).expect("a link");
    let refused =
        |option: &str, name: &str, other: &str| format!("{option} {}: is the file of {other} too", at(name));
    for (line, expected) in [
        (format!("--dataset {0} --export {0}", at("in")), refused("--export", "in", "--dataset")),
        (format!("--trace {} --html {}", at("in"), at("link")), refused("--html", "link", "--trace")),
        (format!("--cacert {0} --html {0}", at("in")), refused("--html", "in", "--cacert")),
        (format!("--export {0} --html {0}", at("new")), refused("--html", "new", "--export")),
        (format!("--dataset {} --export {} --html {}", at("in"), at("new"), at("page")), String::new()),
        ("--export /dev/null --html /dev/null".to_owned(), String::new()),
    ] {
        let error = parse(&format!("https://h:1 {line}")).err().map(|error| error.to_string());
        assert_eq!(error.unwrap_or_default(), expected, "{line}");
        assert!(!fs::exists(at("new")).expect("a folder"), "nothing is made yet");
    }
}

#[test]
fn defaults_are_those_of_the_library() {
    let bench = parse("http://h:1").expect("a URL is enough");
    assert_eq!(bench.config.limits.request_timeout, defaults::REQUEST_TIMEOUT);
    assert_eq!(bench.config.limits.reply_bytes_max, defaults::REPLY_BYTES_MAX);
    let ReportConfig { slo, interval, lag_max, late_allowed } = bench.config.report;
    assert!(slo.is_empty() && !late_allowed);
    assert_eq!((interval, lag_max), (defaults::INTERVAL, defaults::LAG_MAX));
}

#[test]
fn headers_and_certificates_may_be_those_of_one_target() {
    let targets = ["a=https://h:1", "b=https://h:2", "--cacert", "b=/ca.pem"];
    let headers = ["-H", "X-All: 1", "--header", "b=X-One: x=y: z"];
    let bench = parse_args(&[targets, headers].concat()).expect("sound");
    let header = |text: &str| text.parse::<Header>().expect("a header");
    assert_eq!(bench.config.target.headers, [header("x-all: 1")]);
    assert_eq!(bench.others[0].headers, [header("X-All:1"), header("X-One: x=y: z")]);
    assert!(!format!("{bench:?}").contains("x=y"), "a value may be a secret");
    assert_eq!(bench.config.target.trust, Trust::PublicRoots);
    assert_eq!(bench.others[0].trust, Trust::File("/ca.pem".into()));
    let insecure = parse("https://h:1 --insecure").expect("sound");
    assert_eq!(insecure.config.target.trust, Trust::Anyone);
}

/// A file that is gone with the value.
fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn what_is_sent_decides_when_it_is_sent() {
    let set = file("{\"token_ids\":[1]}\n{\"token_ids\":[2]}\n");
    let row = "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[]}\n";
    let trace = file(&row.repeat(3));
    let load = |line: &str| {
        let line = line.replace("SET", set.path().to_str().unwrap());
        let line = line.replace("TRACE", trace.path().to_str().unwrap());
        let bench = parse(&format!("http://h:1 {line}")).expect("sound");
        (bench.config.load, bench.config.workload.prompts)
    };
    let closed = |concurrency, requests| Load::Closed { concurrency, stop: Stop::Requests(requests) };
    assert_eq!(load("").0, closed(64, 10_000));
    assert_eq!(load("--num-prompts 7 --max-concurrency 2").0, closed(2, 7));
    assert_eq!(load("--dataset SET").0, closed(64, 2));
    assert_eq!(load("--dataset SET --requests 9").0, closed(64, 9));
    assert_eq!(load("--trace TRACE --concurrency 5").0, closed(5, 3));
    let (in_flight_max, duration) = (defaults::IN_FLIGHT_MAX, None);
    let scheduled = Load::FixedSchedule { speed: 2.0, duration, in_flight_max };
    assert_eq!(load("--trace TRACE --trace-speed 2").0, scheduled);
    let (_, PromptSource::Trace { trace }) = load("--trace TRACE --requests 2") else { panic!() };
    assert_eq!(trace.requests(), 2);
    let (arrivals, duration) = (ArrivalProcess::Gamma { burstiness: 0.5 }, defaults::DURATION);
    let open = Load::Open { rate_per_s: 3.0, arrivals, duration, in_flight_max };
    assert_eq!(load("--request-rate 3 --burstiness 0.5 --dataset SET").0, open);
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for line in [
        "--dataset x --trace y",
        "--dataset x --prompt-tokens 5",
        "--trace x --prefix-tokens 5",
        "--trace-speed 2",
        "--trace x --trace-speed 2 --rate 1",
        "--burstiness 2",
        "--rate 1 --burstiness 2 --arrivals constant",
        "--insecure --cacert x",
    ] {
        let error = parse(&format!("https://h:1 {line}")).expect_err("contradicts").to_string();
        assert!(error.starts_with("error: the "), "{line}: {error}");
    }
}
