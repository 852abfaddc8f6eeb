use std::time::Duration;

use expect_test::expect;
use serde_json::Value;

use super::ProcessUse;
use crate::process::Reading;
use crate::testing::{Answer, TWO_TOKENS, config, run_in_memory};

fn reading(cpu: Duration) -> Reading {
    let tail = format!("1 7 7 0 -1 4194560 100 0 0 0 {} 0 0 0 20 0 4 0 4242 1000 50", cpu.as_millis() / 10);
    Reading::parse(7, &format!("7 (x) S {tail}"), "VmHWM: 3 kB\nVmRSS: 2 kB", 100).unwrap()
}

#[test]
fn the_cpu_time_of_a_run_is_shared_by_the_requests_that_ended() {
    let pair = (reading(Duration::from_secs(2)), reading(Duration::from_millis(3500)));
    let used = ProcessUse::between(&pair, 300);
    assert!((used.cpu_ms - 1500.0).abs() < 1e-6 && (used.cpu_ms_per_request - 5.0).abs() < 1e-6, "{used:?}");
    assert_eq!((used.rss_peak_bytes, used.rss_bytes), (3 << 10, 2 << 10));
    assert!((ProcessUse::between(&pair, 0).cpu_ms_per_request - 1500.0).abs() < 1e-6, "no division by zero");
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
         verdict clock elapsed_s requests_per_s prompt_tokens_per_s output_tokens_per_s ttft_ms itl_ms itl_event_ms tpot_ms goodput steady send_lag_ms events_coalesced connections_opened cpu_ms_per_request rss_peak_bytes gave_up
        target name url api certificates_checked
        workload session output_tokens ignore_eos stream seed prompt_seed
        workload.prompts
        workload.prompts.random prompt_tokens
        workload.prompts.random.prefix groups tokens siblings
        workload.ids first last
        load loop concurrency requests
        limits request_timeout_s reply_bytes_max failures_max
        report interval_s lag_max_s late_allowed
        report.slo ttft_ms itl_ms tpot_ms e2e_ms
        requests succeeded failed shed prompts warmup_succeeded warmup_failed
        e2e_ms count censored mean p50 p90 p95 p99 p99_9 max
        read_lag_ms count censored mean p50 p90 p95 p99 p99_9 max
        failures
        processes[] pid name cpu_ms cpu_ms_per_request rss_peak_bytes rss_bytes
        generator cpu_ms_per_request cores_busy
        series interval_s
        series.intervals[] at_s sent succeeded failed shed in_flight output_tokens ttft_ms_p50 ttft_ms_p99 e2e_ms_p50 e2e_ms_p99
    "]]
    .assert_eq(&keys);
}

/// A line for each object: its path, then its members that are neither an object nor a list.
fn list_keys(json: &Value, path: &str, lines: &mut String) {
    match json {
        Value::Object(object) => {
            let plain = object.iter().filter(|(_, value)| !value.is_object() && !value.is_array());
            *lines += path;
            lines.extend(plain.flat_map(|(key, _)| [" ", key]));
            *lines += "\n";
            for (key, value) in object {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                list_keys(value, &path, lines);
            }
        }
        Value::Array(array) => array.iter().for_each(|value| list_keys(value, &format!("{path}[]"), lines)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}
