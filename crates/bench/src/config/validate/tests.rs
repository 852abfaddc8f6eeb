use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::config::{Api, ApiKey, ArrivalProcess, BenchConfig, Lengths, Load, PrefixConfig, Span, Stop};
use crate::testing::{self, random};

#[track_caller]
fn check(change: impl FnOnce(&mut BenchConfig), expect: &Expect) {
    let mut config = testing::config(Api::Generate, false);
    change(&mut config);
    let errors = config.check().err().map(|errors| errors.to_string());
    expect.assert_eq(&errors.unwrap_or_default());
}

fn extra(config: &mut BenchConfig, body: Value) {
    let Value::Object(body) = body else { panic!("not an object: {body}") };
    config.target.extra_body = body;
}

#[test]
fn a_sound_configuration_passes() {
    check(|_| (), &expect![""]);
}

#[test]
fn every_mistake_is_reported_at_once() {
    check(
        |config| {
            config.target.url = "ftp://x".to_owned();
            config.target.api_key = Some(ApiKey::new("a\nb".to_owned()));
            config.target.pids = vec![1; 65];
            config.target.headers = vec!["Content-Length: 5".parse().unwrap(), "X: y".parse().unwrap()];
            config.workload.output_tokens = Lengths::fixed(0);
            config.workload.prompts = random("4", PrefixConfig { groups: 0, tokens: 5, siblings: 1 });
            config.workload.ids = Span { first: 2, last: 1 };
            config.load = Load::Closed { concurrency: 0, stop: Stop::Requests(0) };
            config.limits.request_timeout = Duration::ZERO;
        },
        &expect![
            "url `ftp://x`: must begin with http:// or https://; the API key holds characters that a header cannot carry; header `content-length` is decided by the generator; pids is 65, must be 0 to 64; prefix.groups is 0, must be 1 to 1000000; prefix of 5 tokens does not fit in a prompt of 4; ids ends before it begins; output_tokens is 0, must be 1 to 1000000; concurrency is 0, must be 1 to 65535; requests is 0, must be 1 to 1099511627776; request_timeout is 0, must be 0.001 to 86400"
        ],
    );
}

#[test]
fn a_rate_that_is_no_number_is_refused() {
    let open = |rate_per_s| Load::Open {
        rate_per_s,
        arrivals: ArrivalProcess::Poisson,
        duration: Duration::from_secs(1),
        in_flight_max: 1,
    };
    check(|config| config.load = open(f64::NAN), &expect!["rate_per_s is NaN, must be 0.001 to 1000000"]);
    check(
        |config| config.load = open(f64::INFINITY),
        &expect!["rate_per_s is inf, must be 0.001 to 1000000"],
    );
    check(|config| config.load = open(10.0), &expect![""]);
}

#[test]
fn lengths_and_bursts_beyond_all_reason_are_refused() {
    let output = |text: &'static str| {
        move |config: &mut BenchConfig| config.workload.output_tokens = text.parse().unwrap()
    };
    check(output("normal:100,40"), &expect![""]);
    check(output("lognormal:900000,1e9"), &expect!["output_tokens is 2597145086, must be 1 to 1000000"]);
    check(
        output("normal:0.5,1"),
        &expect![
            "output_tokens has mean 0.5 and standard deviation 1, must be finite, 1 or more and 0 or more"
        ],
    );
    check(output("0-5"), &expect!["output_tokens is 0, must be 1 to 1000000"]);
    let prompts = |text| random(text, PrefixConfig { groups: 1, tokens: 50, siblings: 1 });
    check(
        |config| config.workload.prompts = prompts("normal:100,40"),
        &expect!["prefix of 50 tokens does not fit in a prompt of 1"],
    );
    let open = |burstiness| Load::Open {
        rate_per_s: 1.0,
        arrivals: ArrivalProcess::Gamma { burstiness },
        duration: Duration::from_secs(1),
        in_flight_max: 1,
    };
    check(|config| config.load = open(0.5), &expect![""]);
    check(|config| config.load = open(0.0), &expect!["burstiness is 0, must be 0.01 to 1000"]);
    let schedule = Load::FixedSchedule { speed: f64::NAN, duration: None, in_flight_max: 1 };
    check(
        |config| config.load = schedule,
        &expect!["speed is NaN, must be 0.001 to 1000; a fixed schedule needs prompts of a trace"],
    );
}

#[test]
fn extra_fields_add_to_a_body_but_do_not_overrule_the_generator() {
    check(
        |config| {
            extra(
                config,
                json!({"cache_salt": "x", "sampling_params": {"seed": 1}, "stream_options": {"a": 1}}),
            );
        },
        &expect![""],
    );
    check(
        |config| {
            extra(config, json!({"token_ids": [1], "n": 2, "sampling_params": {"max_tokens": 1, "n": 2}}));
        },
        &expect![
            "extra body field `token_ids` is decided by the generator; extra body field `n` is decided by the generator; extra body field `sampling_params.max_tokens` is decided by the generator; extra body field `sampling_params.n` is decided by the generator"
        ],
    );
    check(
        |config| extra(config, json!({"sampling_params": null, "stream_options": {"include_usage": false}})),
        &expect![
            "extra body field `sampling_params` is decided by the generator; extra body field `stream_options.include_usage` is decided by the generator"
        ],
    );
}

#[test]
fn a_key_is_not_printed() {
    assert_eq!(format!("{:?}", ApiKey::new("secret".to_owned())), "ApiKey(***)");
}
