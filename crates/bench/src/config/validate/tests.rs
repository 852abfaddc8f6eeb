use std::time::Duration;

use expect_test::expect;
use serde_json::{Value, json};

use crate::config::{Api, ApiKey, ArrivalProcess, BenchConfig, Lengths, Load, PrefixConfig, Span, Stop};
use crate::testing::{self, random};

/// What is wrong with a sound configuration after a change; nothing when it is still sound.
fn check_one(change: impl FnOnce(&mut BenchConfig)) -> String {
    let mut config = testing::config(Api::Generate, false);
    change(&mut config);
    config.check().err().map(|errors| errors.to_string()).unwrap_or_default()
}

#[test]
fn a_sound_configuration_passes() {
    assert_eq!(check_one(|_| ()), "");
}

#[test]
fn every_mistake_is_reported_at_once() {
    let found = check_one(|config| {
        config.target.url = "ftp://x".to_owned();
        config.target.api_key = Some(ApiKey::new("a\nb".to_owned()));
        config.target.pids = vec![1; 65];
        config.target.headers = vec!["Content-Length: 5".parse().unwrap(), "X: y".parse().unwrap()];
        config.workload.output_tokens = Lengths::fixed(0);
        config.workload.prompts = random("4", PrefixConfig { groups: 0, tokens: 5, siblings: 1 });
        config.workload.ids = Span { first: 2, last: 1 };
        config.load = Load::Closed { concurrency: 0, stop: Stop::Requests(0) };
        config.limits.request_timeout = Duration::ZERO;
    });
    expect![[r"
        url `ftp://x`: must begin with http:// or https://
        the API key holds characters that a header cannot carry
        header `content-length` is decided by the generator
        pids is 65, must be 0 to 64
        prefix.groups is 0, must be 1 to 1000000
        prefix of 5 tokens does not fit in a prompt of 4
        ids ends before it begins
        output_tokens is 0, must be 1 to 1000000
        concurrency is 0, must be 1 to 65535
        requests is 0, must be 1 to 1099511627776
        request_timeout is 0, must be 0.001 to 86400"]]
    .assert_eq(&found.replace("; ", "\n"));
}

#[test]
fn rates_lengths_and_bursts_beyond_all_reason_are_refused() {
    let load = |load| check_one(|config| config.load = load);
    let open = |rate_per_s, arrivals| {
        load(Load::Open { rate_per_s, arrivals, duration: Duration::from_secs(1), in_flight_max: 1 })
    };
    let output = |text: &str| check_one(|config| config.workload.output_tokens = text.parse().unwrap());
    let prefix = PrefixConfig { groups: 1, tokens: 50, siblings: 1 };
    let schedule = Load::FixedSchedule { speed: f64::NAN, duration: None, in_flight_max: 1 };
    for (found, expected) in [
        (open(f64::NAN, ArrivalProcess::Poisson), "rate_per_s is NaN, must be 0.001 to 1000000"),
        (open(f64::INFINITY, ArrivalProcess::Poisson), "rate_per_s is inf, must be 0.001 to 1000000"),
        (open(10.0, ArrivalProcess::Poisson), ""),
        (open(1.0, ArrivalProcess::Gamma { burstiness: 0.5 }), ""),
        (open(1.0, ArrivalProcess::Gamma { burstiness: 0.0 }), "burstiness is 0, must be 0.01 to 1000"),
        (load(schedule), "speed is NaN, must be 0.001 to 1000; a fixed schedule needs prompts of a trace"),
        (output("normal:100,40"), ""),
        (output("lognormal:900000,1e9"), "output_tokens is 2597145086, must be 1 to 1000000"),
        (
            output("normal:0.5,1"),
            "output_tokens has mean 0.5 and standard deviation 1, must be finite, 1 or more and 0 or more",
        ),
        (output("0-5"), "output_tokens is 0, must be 1 to 1000000"),
        (
            check_one(|config| config.workload.prompts = random("normal:100,40", prefix)),
            "prefix of 50 tokens does not fit in a prompt of 1",
        ),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn extra_fields_add_to_a_body_but_do_not_overrule_the_generator() {
    for (body, refused) in [
        (json!({"cache_salt": "x", "sampling_params": {"seed": 1}, "stream_options": {"a": 1}}), &[][..]),
        (
            json!({"token_ids": [1], "n": 2, "sampling_params": {"max_tokens": 1, "n": 2}}),
            &["token_ids", "n", "sampling_params.max_tokens", "sampling_params.n"],
        ),
        (
            json!({"sampling_params": null, "stream_options": {"include_usage": false}}),
            &["sampling_params", "stream_options.include_usage"],
        ),
    ] {
        let Value::Object(body) = body else { panic!("not an object: {body}") };
        let sentence = |field| format!("extra body field `{field}` is decided by the generator");
        let expected: Vec<_> = refused.iter().map(sentence).collect();
        assert_eq!(check_one(|config| config.target.extra_body = body), expected.join("; "));
    }
}

#[test]
fn a_key_is_not_printed() {
    assert_eq!(format!("{:?}", ApiKey::new("secret".to_owned())), "ApiKey(***)");
}
