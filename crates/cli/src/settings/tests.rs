use clap::FromArgMatches as _;
use tito_policy::PolicyKind;

use super::*;

fn parse(flags: &[&str]) -> ServeArgs {
    let argv = ["tito", "serve"].iter().chain(flags);
    let matches = crate::args::command().try_get_matches_from(argv).expect("the flags parse");
    let (_, serve) = matches.subcommand().expect("serve");
    ServeArgs::from_arg_matches(serve).expect("the flags convert")
}

/// The authorities of the engines, or every problem.
#[track_caller]
fn check(flags: &[&str], expected: &str) {
    let found = match settings(&parse(flags)) {
        Ok(settings) => settings.engines.iter().map(VllmConfig::authority).collect::<Vec<_>>().join(" "),
        Err(problems) => problems.join("; "),
    };
    assert_eq!(found, expected);
}

#[test]
fn an_engine_is_a_host_and_a_grpc_port() {
    check(&["--engine", "vllm://192.0.2.1:50051"], "192.0.2.1:50051");
    let several = ["--engine", "vllm://[2001:db8::1]:50051", "--engine", "vllm://a:1,vllm://b:2"];
    check(&several, "[2001:db8::1]:50051 a:1 b:2");
}

/// Where the metrics of an engine are that is written so, or the problem.
#[track_caller]
fn check_stated(options: &str, expected: &str) {
    let url = format!("vllm://a:1?{options}");
    let found = match settings(&parse(&["--engine", &url])) {
        Ok(settings) => settings.engines[0].metrics.as_ref().map_or_else(
            || format!("{:?}", settings.engines[0].pixels),
            |metrics| format!("{} {}", metrics.authority, metrics.path),
        ),
        Err(problems) => problems.join("; ").replace(&format!("--engine {}: ", shown(&url)), ""),
    };
    assert_eq!(found, expected, "{options}");
}

#[test]
fn what_an_operator_states_of_an_engine_stands_behind_its_address() {
    check_stated("pixels=raw", "Some(Raw)");
    check_stated("metrics=http://h:9000", "h:9000 /metrics");
    check_stated("metrics=http://[2001:db8::1]:9000/", "[2001:db8::1]:9000 /metrics");
    check_stated("pixels=normalized&metrics=http://h/a/b", "h:80 /a/b");
    for (options, problem) in [
        ("pixels=rgb", "pixels= must be pixels=raw or pixels=normalized"),
        ("pixel=raw", "an unknown option: there are pixels= and metrics="),
        ("", "an unknown option: there are pixels= and metrics="),
        ("pixels=raw&pixels=raw", "pixels= is given twice"),
    ] {
        check_stated(options, problem);
    }
    for (url, problem) in [
        ("https://h:1", "is spoken to in plain HTTP, not TLS"),
        ("h:1", "must begin with http://"),
        ("", "is no URL"),
        ("http://me@h:1", "names no host, or a user"),
        ("http://h:1?x=1", "must have no query and no fragment"),
        ("http://h:0", "has no such port"),
    ] {
        let written = "write it as metrics=http://HOST:PORT[/PATH]";
        check_stated(&format!("metrics={url}"), &format!("metrics= {problem}; {written}"));
    }
}

#[test]
fn what_may_be_a_secret_in_an_address_is_not_shown() {
    for (engine, expected) in [
        ("vllm://a:1?metrics=http://me:SECRET@h", "vllm://a:1?metrics=…"),
        ("vllm://a:1?pixels=raw&metrics=http://h/?token=SECRET", "vllm://a:1?pixels=raw&metrics=…"),
        ("vllm://me:SECRET@a:1?pixels=raw", "…@a:1?pixels=raw"),
        ("vllm://me:SECRET@a:1", "…@a:1"),
        ("vllm://a:1?pixels=SECRET", "vllm://a:1?pixels=…"),
        ("vllm://a:1?token=SECRET&Metrics=http://SECRET@h", "vllm://a:1?token=…&Metrics=…"),
        ("vllm://a:1?metrics=http://h/#SECRET&SECRET", "vllm://a:1?metrics=…&…"),
        ("vllm://a:1?metrics=http://h:1/m", "vllm://a:1?metrics=http://h:1/m"),
        ("vllm://a:1", "vllm://a:1"),
    ] {
        assert_eq!(shown(engine), expected);
    }
}

#[test]
fn orders_need_a_key_unless_nobody_else_can_give_any() {
    let ok = "a:1";
    let check = |flags: &[&str], expected: &str| {
        check(&[&["--engine", "vllm://a:1"], flags].concat(), expected);
    };
    let needs = "--control-port needs --control-key or --control-key-file";
    check(&["--control-port", "0"], ok);
    check(&["--control-port", "0", "--control-host", "::1"], ok);
    check(&["--control-port", "0", "--control-host", "0.0.0.0", "--control-key", "k"], ok);
    check(&["--control-port", "0", "--api-key", "c", "--control-key", "k"], ok);
    let others = format!("{needs}: others than this machine can reach 0.0.0.0");
    check(&["--control-port", "0", "--control-host", "0.0.0.0"], &others);
    check(&["--control-port", "0", "--api-key", "c"], &format!("{needs}: clients need a key as well"));
    check(&["--control-key", "k"], "--control-key needs --control-port");
    check(&["--control-key-file", "f"], "--control-key-file needs --control-port");
    let bad = "--control-key: control: key number 1: is not 1 to 1024 visible ASCII characters";
    check(&["--control-port", "0", "--control-key", " "], bad);
    let missing = "--control-key-file: control: key file no-such-file: cannot be read: \
                   No such file or directory (os error 2)";
    check(&["--control-port", "0", "--control-key-file", "no-such-file"], missing);
}

#[test]
fn no_key_opens_both_doors() {
    let (_clients, clients) = file("a\nshared\n");
    let (_operators, operators) = file("# ours\nb\nshared\n");
    let check = |flags: &[&str], expected: &str| {
        check(&[&ENGINE, &["--control-port", "0"], flags].concat(), expected);
    };
    let flag = "--control-key: control: key number 2 is also a client's";
    check(&["--api-key", "a,b", "--control-key", "c,b"], flag);
    check(&["--api-key-file", &clients, "--control-key", "c,shared"], flag);
    let of_file = "--control-key-file: control: key number 2 is also a client's";
    check(&["--api-key", "shared", "--control-key-file", &operators], of_file);
    check(&["--api-key-file", &clients, "--control-key-file", &operators], of_file);
    let third = "--control-key-file: control: key number 3 is also a client's";
    check(&["--api-key", "shared", "--control-key", "c", "--control-key-file", &operators], third);
    check(&["--api-key-file", &clients, "--control-key", "c"], "a:1");
}

#[test]
fn two_sockets_do_not_share_a_port() {
    let check = |host: &str, control_host: &str, port: &str, control_port: &str, free: bool| {
        let addresses = ["--host", host, "--control-host", control_host, "--control-key", "k"];
        let flags = [&ENGINE[..], &addresses, &["--port", port, "--control-port", control_port]].concat();
        let taken = format!("--control-port: {control_port} is taken by --port");
        check(&flags, if free { "a:1" } else { &taken });
    };
    check("127.0.0.1", "127.0.0.1", "8000", "8000", false);
    check("127.0.0.1", "127.0.0.1", "8000", "8001", true);
    check("127.0.0.1", "127.0.0.1", "0", "0", true);
    check("127.0.0.1", "127.0.0.2", "8000", "8000", true);
    check("0.0.0.0", "127.0.0.1", "8000", "8000", false);
    check("127.0.0.1", "0.0.0.0", "8000", "8000", false);
    check("0.0.0.0", "::1", "8000", "8000", true);
    check("::", "127.0.0.1", "8000", "8000", false);
    check("0.0.0.0", "::", "8000", "8000", false);
    check("::1", "::", "8000", "8000", false);
}

#[test]
fn routing_without_flags_is_the_documented_default() {
    let found = routing(&parse(&["--engine", "vllm://a:1"]));
    assert_eq!(found, RouteConfig::new(PolicyKind::Kv, found.board.seed));
    let other = routing(&parse(&["--policy", "random", "--max-queued", "1"]));
    let expected = RouteConfig::new(PolicyKind::Random, other.board.seed);
    assert_eq!(other, RouteConfig { queue_requests_max: 1, ..expected });
}

#[test]
fn every_mistake_is_named_at_once() {
    check(&[], "--engine is missing: name at least one, vllm://HOST:GRPC_PORT");
    check(
        &["--engine", "http://a:1,vllm://a,vllm://::1:5", "--engine", "vllm://a:0,vllm://a:x"],
        "--engine http://a:1: unknown scheme `http`: use vllm:// or vllms://; \
         --engine vllm://a: the gRPC port is missing; \
         --engine vllm://::1:5: write an IPv6 address in brackets: vllm://[IPV6]:GRPC_PORT; \
         --engine vllm://a:0: write it as vllm://HOST:GRPC_PORT; \
         --engine vllm://a:x: `x` is not a port",
    );
    check(
        &["--engine", "vllm://a:1&metrics=http://a:2"],
        "--engine vllm://a:1&metrics=http://a:2: options begin with `?`: \
         write it as vllm://HOST:GRPC_PORT?NAME=VALUE&NAME=VALUE",
    );
    check(
        &["--engine", "vllms://a:1", "--engine", "vllm://b:1", "--engine", "vllm://b:1", "--api-key", " "],
        "--engine vllms://a:1: vllms:// needs --engine-ca; --engine vllm://b:1: named twice; \
         --api-key: key number 1: is not 1 to 1024 visible ASCII characters",
    );
    check(
        &["--engine", "vllm://a:1", "--api-key-file", "no-such-file"],
        "--api-key-file: key file no-such-file: cannot be read: No such file or directory (os error 2)",
    );
}

const ENGINE: [&str; 2] = ["--engine", "vllm://a:1"];

#[test]
fn every_flag_of_routing_reaches_what_it_is_for() {
    type Part = fn(&Settings) -> String;
    let siblings: Part = |all| format!("{:?}", all.routing.board.siblings);
    let colocated = "Colocate { load_tokens_max: 4096 }";
    let cases: [(&[&str], Part, &str, &str); 15] = [
        (&["--policy=random"], |all| all.routing.board.policy.to_string(), "kv", "random"),
        (&["--temperature=0.5"], |all| all.routing.board.temperature.to_string(), "0", "0.5"),
        (&["--affinity=hard"], |all| format!("{:?}", all.routing.board.stickiness), "Soft", "Hard"),
        (&["--affinity=off"], |all| format!("{:?}", all.routing.board.stickiness), "Soft", "Off"),
        (&["--session-idle=90s"], |all| format!("{:?}", all.routing.board.session_idle), "3600s", "90s"),
        (&["--sibling-load=7"], siblings, colocated, "Colocate { load_tokens_max: 7 }"),
        (&["--siblings=spread", "--sibling-load=7"], siblings, colocated, "Spread"),
        (&["--siblings=ignore"], siblings, colocated, "Ignore"),
        (&["--target-limit=3"], |all| format!("{:?}", all.routing.target_limit), "Auto", "Continuations(3)"),
        (&["--target-limit=off"], |all| format!("{:?}", all.routing.target_limit), "Auto", "Off"),
        (&["--index-limit=64MiB"], |all| all.index.bytes_max.to_string(), "1073741824", "67108864"),
        (&["--max-queued=5"], |all| all.routing.queue_requests_max.to_string(), "8192", "5"),
        (&["--max-queued=5"], |all| all.admission.queue_requests_max.to_string(), "8192", "5"),
        (&["--queue-timeout=9s"], |all| format!("{:?}", all.routing.queue_timeout), "60s", "9s"),
        (&["--queue-timeout=9s"], |all| format!("{:?}", all.admission.queue_timeout), "60s", "9s"),
    ];
    for (flags, part, default, expected) in cases {
        let found = |flags: &[&str]| part(&settings(&parse(&[&ENGINE, flags].concat())).ok().unwrap());
        assert_eq!((found(&[]).as_str(), found(flags).as_str()), (default, expected), "{flags:?}");
    }
}

#[test]
fn settings_that_need_others_are_refused_alone() {
    let check = |flags: &[&str], expected: &str| check(&[&ENGINE, flags].concat(), expected);
    let engine_cert = "--engine-cert needs --engine-key; --engine-cert needs --engine-ca";
    check(&["--engine-cert", "x"], engine_cert);
    check(&["--engine-key", "x"], "--engine-key needs --engine-cert; --engine-key needs --engine-ca");
    check(&["--engine-server-name", "x"], "--engine-server-name needs --engine-ca");
    check(&["--tls-cert", "x"], "--tls-cert needs --tls-key");
    check(&["--tls-key", "x"], "--tls-key needs --tls-cert");
    check(&["--tls-client-ca", "x"], "--tls-client-ca needs --tls-cert");
}

/// A file with this text, which lives as long as the value.
fn file(text: &str) -> (tempfile::NamedTempFile, String) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), text).expect("written");
    let path = file.path().to_str().expect("a path in UTF-8").to_owned();
    (file, path)
}

#[test]
fn an_authority_of_engines_never_leaves_them_in_plain_text() {
    let (_file, ca) = file("-----BEGIN CERTIFICATE-----");
    let plain = "--engine-ca: no --engine is vllms://, so no connection would be encrypted";
    check(&[&ENGINE[..], &["--engine-ca", &ca]].concat(), plain);
    check(&["--engine", "vllm://a:1,vllm://b:1", "--engine-ca", &ca], plain);
}

#[test]
fn what_files_and_levels_say_is_read_and_reported_together() {
    let (_empty, empty) = file("");
    let (_keys, keys) = file("good\nnot good\n");
    let [cert, key, ca] = ["cert", "key", "client-ca"].map(|name| format!("--tls-{name}={empty}"));
    let flags = [&cert, &key, &ca, "--api-key-file", &keys, "--log-level=access=loud"];
    let problems = settings(&parse(&[&ENGINE[..], &flags].concat())).err().expect("nothing of it is right");
    let marks = [
        "holds no certificate",
        "as PEM",
        "holds no certificate",
        "line 2",
        "--log-level: \"access=loud\" is no level: use error",
    ];
    assert_eq!(problems.len(), marks.len(), "{problems:#?}");
    for (problem, mark) in problems.iter().zip(marks) {
        assert!(problem.contains(mark), "no {mark} in {problem}");
    }
}

#[test]
fn an_authority_of_engines_that_is_none_is_refused() {
    for (text, mark) in [
        ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "--engine vllms://a:1: "),
        ("", "holds no certificate"),
    ] {
        let (_file, ca) = file(text);
        let problems = settings(&parse(&["--engine", "vllms://a:1", "--engine-ca", &ca])).err();
        let problems = problems.expect("no certificate");
        assert!(problems.iter().any(|problem| problem.contains(mark)), "{problems:?}");
    }
}
