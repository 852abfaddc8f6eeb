use clap::FromArgMatches as _;

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
    check(
        &["--engine", "vllm://[2001:db8::1]:50051", "--engine", "vllm://host:1"],
        "[2001:db8::1]:50051 host:1",
    );
    check(&["--engine", "vllm://a:1,vllm://b:2"], "a:1 b:2");
}

#[test]
fn every_mistake_is_named_at_once() {
    check(&[], "--engine is missing: name at least one, vllm://HOST:GRPC_PORT");
    check(
        &[
            "--engine",
            "http://a:1",
            "--engine",
            "vllm://a",
            "--engine",
            "vllm://::1:5",
            "--engine",
            "vllm://a:0",
        ],
        "--engine http://a:1: unknown scheme `http`: use vllm:// or vllms://; \
         --engine vllm://a: the gRPC port is missing; \
         --engine vllm://::1:5: write an IPv6 address in brackets: vllm://[IPV6]:GRPC_PORT; \
         --engine vllm://a:0: write it as vllm://HOST:GRPC_PORT",
    );
    check(
        &["--engine", "vllms://a:1", "--engine", "vllm://b:1", "--engine", "vllm://b:1", "--api-key", " "],
        "--engine vllms://a:1: vllms:// needs --engine-ca; --engine vllm://b:1: named twice; \
         --api-key: a key is empty",
    );
    check(
        &["--engine", "vllm://a:1", "--api-key-file", "no-such-file"],
        "cannot read no-such-file: No such file or directory (os error 2)",
    );
}
