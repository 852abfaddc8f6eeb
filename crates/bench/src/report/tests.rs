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
        target.name
        target.url
        target.api
        workload.prompts.random.prompt_tokens
        workload.prompts.random.prefix.groups
        workload.prompts.random.prefix.tokens
        workload.prompts.random.prefix.siblings
        workload.session
        workload.output_tokens
        workload.ids.first
        workload.ids.last
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
        report.slo.ttft_ms
        report.slo.itl_ms
        report.slo.tpot_ms
        report.slo.e2e_ms
        report.interval_s
        report.lag_max_s
        report.late_allowed
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
        itl_event_ms
        tpot_ms
        e2e_ms.count
        e2e_ms.censored
        e2e_ms.mean
        e2e_ms.p50
        e2e_ms.p90
        e2e_ms.p95
        e2e_ms.p99
        e2e_ms.p99_9
        e2e_ms.max
        goodput
        steady
        send_lag_ms
        read_lag_ms.count
        read_lag_ms.censored
        read_lag_ms.mean
        read_lag_ms.p50
        read_lag_ms.p90
        read_lag_ms.p95
        read_lag_ms.p99
        read_lag_ms.p99_9
        read_lag_ms.max
        events_coalesced
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
        series.interval_s
        series.intervals[].at_s
        series.intervals[].sent
        series.intervals[].succeeded
        series.intervals[].failed
        series.intervals[].shed
        series.intervals[].in_flight
        series.intervals[].output_tokens
        series.intervals[].ttft_ms_p50
        series.intervals[].ttft_ms_p99
        series.intervals[].e2e_ms_p50
        series.intervals[].e2e_ms_p99
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
