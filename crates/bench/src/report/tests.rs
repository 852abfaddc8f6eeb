use std::time::Duration;

use expect_test::expect;
use serde_json::Value;

use super::Percentiles;
use crate::stats::Times;
use crate::testing::{Answer, TWO_TOKENS, config, run_in_memory};

#[test]
fn percentiles_are_within_a_thousandth_of_the_values_recorded() {
    let mut times = Times::new();
    for microseconds in 1..=100_000 {
        times.record(Duration::from_micros(microseconds));
    }
    let Percentiles { count, mean, p50, p90, p95, p99, p99_9, max } = Percentiles::of(&times).unwrap();
    assert_eq!(count, 100_000);
    let pairs =
        [(mean, 50.0), (p50, 50.0), (p90, 90.0), (p95, 95.0), (p99, 99.0), (p99_9, 99.9), (max, 100.0)];
    for (measured, expected) in pairs {
        assert!((measured / expected - 1.0_f64).abs() < 0.001, "{measured} ms for {expected} ms");
    }
}

#[test]
fn no_values_are_no_percentiles_and_no_value_is_too_large() {
    let mut times = Times::new();
    assert_eq!(Percentiles::of(&times), None);
    times.record(Duration::MAX);
    let day_ms = 86_400_000.0_f64;
    assert!((Percentiles::of(&times).unwrap().max / day_ms - 1.0).abs() < 0.001);
}

#[tokio::test(start_paused = true)]
async fn the_json_names_every_number_with_its_unit() {
    let mut config = config(crate::config::Api::Generate, false);
    config.target.api_key = Some(crate::config::ApiKey::new("secret".to_owned()));
    config.target.pids = vec![std::process::id()];
    let report = run_in_memory(&config, |_| Answer::json(TWO_TOKENS)).await;
    let json = serde_json::to_value(&report).unwrap();
    assert!(!json.to_string().contains("secret"));
    let mut keys = String::new();
    list_keys(&json, "", &mut keys);
    expect![[r"
        target.name
        target.url
        target.api
        workload.prompt_tokens.first
        workload.prompt_tokens.last
        workload.output_tokens
        workload.ids.first
        workload.ids.last
        workload.prefix.groups
        workload.prefix.tokens
        workload.prefix.siblings
        workload.ignore_eos
        workload.stream
        workload.seed
        workload.prompt_seed
        load.loop
        load.concurrency
        load.requests
        limits.request_timeout_s
        limits.reply_bytes_max
        limits.failures_max
        clock
        elapsed_s
        requests.succeeded
        requests.failed
        requests.shed
        requests.warmup_succeeded
        requests.warmup_failed
        requests_per_s
        prompt_tokens_per_s
        output_tokens_per_s
        ttft_ms
        itl_ms
        tpot_ms
        e2e_ms.count
        e2e_ms.mean
        e2e_ms.p50
        e2e_ms.p90
        e2e_ms.p95
        e2e_ms.p99
        e2e_ms.p99_9
        e2e_ms.max
        send_lag_ms
        connections_opened
        cpu_ms_per_request
        rss_peak_bytes
        processes[].pid
        processes[].name
        processes[].cpu_ms
        processes[].cpu_ms_per_request
        processes[].rss_peak_bytes
        processes[].rss_bytes
        generator.cpu_ms_per_request
        generator.cores_busy
        gave_up
    "]]
    .assert_eq(&keys);
}

fn list_keys(json: &Value, path: &str, keys: &mut String) {
    match json {
        Value::Object(object) => {
            for (key, value) in object {
                let separator = if path.is_empty() { "" } else { "." };
                list_keys(value, &format!("{path}{separator}{key}"), keys);
            }
        }
        Value::Array(array) => array.iter().for_each(|value| list_keys(value, &format!("{path}[]"), keys)),
        _ => keys.extend([path, "\n"]),
    }
}
