use clap::FromArgMatches as _;
use tito_bench::ReportConfig;

use super::*;

fn parse(flags: &[&str]) -> anyhow::Result<Bench> {
    let argv = ["tito", "bench"].iter().chain(flags);
    let matches = crate::args::command().try_get_matches_from(argv)?;
    let (_, bench) = matches.subcommand().expect("bench");
    BenchArgs::from_arg_matches(bench)?.into_bench()
}

/// Targets as `name url api model pids`, or the first line of the error.
#[track_caller]
fn check(flags: &[&str], expected: &[&str]) {
    let found = match parse(flags) {
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
    check(&["http://h:1", "--pid", "7,8"], &["http://h:1 http://h:1 Generate - [7, 8]"]);
    check(
        &[
            "tito=http://h:1",
            "peer=http://h:2/x",
            "--api",
            "completions",
            "--api",
            "tito=generate",
            "--model",
            "m",
            "--model",
            "peer=k",
            "--pid",
            "tito=7",
            "--pid",
            "peer=8",
        ],
        &["tito http://h:1 Generate m [7]", "peer http://h:2/x Completions k [8]"],
    );
}

#[test]
fn mistakes_are_named() {
    check(&["http://h:1", "--pid", "x"], &["--pid x: not a process id"]);
    check(&["http://h:1", "--body", "[1]"], &["--body [1]: must be a JSON object"]);
    check(&["http://h:1", "--api", "chat"], &["`chat` is not `generate` or `completions`"]);
    check(
        &["http://h:1", "--rate", "5", "--requests", "5"],
        &["error: the argument '--rate <R>' cannot be used with '--requests <N>'"],
    );
    check(
        &["http://h:1", "--goodput", "ttft:1h"],
        &[
            "error: invalid value 'ttft:1h' for '--goodput <LIMITS>': `ttft:1h` is not a list of limits such as \
           `ttft:500ms itl:50ms tpot:30ms e2e:2s`, each at most once",
        ],
    );
}

#[test]
fn defaults_are_those_of_the_library() {
    let bench = parse(&["http://h:1"]).expect("a URL is enough");
    assert_eq!(bench.config.limits.request_timeout, defaults::REQUEST_TIMEOUT);
    assert_eq!(bench.config.limits.reply_bytes_max, defaults::REPLY_BYTES_MAX);
    let ReportConfig { slo, interval, lag_max, late_allowed } = bench.config.report;
    assert!(slo.is_empty() && !late_allowed);
    assert_eq!((interval, lag_max), (defaults::INTERVAL, defaults::LAG_MAX));
}
