use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::config::{Api, ApiKey, ArrivalProcess, BenchConfig, Load, Span, Stop};
use crate::testing;

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
            config.workload.output_tokens = 0;
            config.workload.prefix.tokens = 5;
            config.workload.prefix.groups = 0;
            config.workload.ids = Span { first: 2, last: 1 };
            config.load = Load::Closed { concurrency: 0, stop: Stop::Requests(0) };
            config.limits.request_timeout = Duration::ZERO;
        },
        &expect![
            "url `ftp://x`: must begin with http://; the API key holds characters that a header cannot carry; pids is 65, must be 0 to 64; ids ends before it begins; output_tokens is 0, must be 1 to 1000000; prefix.groups is 0, must be 1 to 1000000; prefix of 5 tokens does not fit in a prompt of 4; concurrency is 0, must be 1 to 65535; requests is 0, must be 1 to 1099511627776; request_timeout is 0, must be 0.001 to 86400"
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
