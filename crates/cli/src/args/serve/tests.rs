use clap::FromArgMatches as _;
use tito_frontend::FrontendConfig;

use super::*;

/// The converted flags, or the first line of what is wrong with them.
fn parse(flags: &[&str]) -> Result<ServeArgs, String> {
    let argv = ["tito", "serve"].iter().chain(flags);
    let matches = crate::args::command().try_get_matches_from(argv);
    let matches = matches.map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
    let (_, serve) = matches.subcommand().expect("serve");
    Ok(ServeArgs::from_arg_matches(serve).expect("the flags convert"))
}

#[test]
fn defaults_are_those_of_the_parts() {
    let args = parse(&[]).expect("no flag is needed");
    let frontend = FrontendConfig::new(std::net::SocketAddr::new(args.host, args.port));
    assert_eq!(args.connection_limit as usize, frontend.limits.connections);
    assert_eq!(args.body_limit, frontend.limits.body_bytes);
    assert_eq!(args.client_stall_timeout, frontend.timeouts.client_stall);
    assert_eq!(args.sse_keep_alive.0, frontend.stream_ping);
    assert_eq!(args.unready_delay, tito_runtime::UNREADY);
    assert_eq!(args.drain_timeout, tito_runtime::DRAIN);
}

#[test]
fn a_limit_that_would_stop_everything_is_refused() {
    for flag in ["body-limit", "engine-reply-limit", "connect-timeout", "client-stall-timeout"] {
        let error = parse(&[&format!("--{flag}=0")]).expect_err(flag);
        assert!(error.contains(&format!("invalid value '0' for '--{flag}")), "{error}");
    }
    for flag in ["stall-timeout", "sse-keep-alive", "queue-timeout", "unready-delay", "drain-timeout"] {
        parse(&[&format!("--{flag}=0")]).expect(flag);
        parse(&[&format!("--{flag}=721h")]).expect_err(flag);
    }
}

#[test]
fn a_value_of_another_kind_is_refused() {
    for flag in [
        "--host=localhost",
        "--generation-config=mine",
        "--body-limit=1MB",
        "--port=70000",
        "--queue-timeout=5 parsecs",
    ] {
        parse(&[flag]).expect_err(flag);
    }
}

#[test]
fn debug_output_shows_no_key() {
    let args = parse(&["--api-key", "hidden-1,hidden-2"]).expect("two keys");
    assert_eq!(args.api_key.len(), 2);
    assert!(!format!("{args:?}").contains("hidden"), "{args:?}");
}
