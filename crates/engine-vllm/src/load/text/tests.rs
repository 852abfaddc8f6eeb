use proptest::prelude::*;

use super::*;

/// The three gauges of one rank.
fn gauges(rank: &str, running: &str, waiting: &str, usage: &str) -> String {
    let labels = format!("{{model_name=\"m\",engine=\"{rank}\"}}");
    format!(
        "vllm:num_requests_running{labels} {running}\nvllm:num_requests_waiting{labels} {waiting}\n\
         vllm:kv_cache_usage_perc{labels} {usage}\n"
    )
}

/// `rank:running+waiting@usage` of each rank in 0..4.
#[track_caller]
fn check(text: &str, expected: &str) {
    let loads = loads(text.as_bytes(), 0..4);
    let shown = loads.iter().map(|EngineLoad { rank, running, waiting, kv_usage }| {
        format!("{rank}:{running}+{waiting}@{kv_usage}")
    });
    assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{text}");
}

#[test]
fn the_load_of_each_rank_is_read_from_among_other_families() {
    check("", "");
    check(&gauges("0", "3", "2", "0.25"), "0:3+2@0.25");
    check(&[gauges("1", "0", "0", "0.0"), gauges("0", "1e2", "7.0", "1")].concat(), "0:100+7@1 1:0+0@0");
    let other = "# HELP vllm:num_requests_running Number of requests.\n# TYPE vllm:num_requests_running gauge\n\
        vllm:num_requests_waiting_by_reason{engine=\"0\",model_name=\"m\",reason=\"capacity\"} 9\n\
        vllm:prompt_tokens_total{engine=\"0\"} 5\nprocess_cpu_seconds_total 1.5\n";
    check(&[other, &gauges("0", "1", "2", "0.5"), other, "# EOF"].concat(), "0:1+2@0.5");
    check(&gauges("0", "1 1795954359.4", "2 1", "0.5 # {}"), "0:1+2@0.5");
    check(&gauges("0", "1", "2", "0.5").replace('\n', "\r\n"), "0:1+2@0.5");
}

#[test]
fn labels_are_read_whatever_their_order_and_the_characters_in_them() {
    for labels in [
        r#"{engine="0",model_name="m"}"#,
        r#"{model_name="m", engine="0" , x="",}"#,
        r#"{model_name="a\"}\\",engine="0"}"#,
        r#"{model_name="engine=\"7\",",engine="0"}"#,
        r#"{model_name="{},= ü",engine="0"}"#,
    ] {
        check(&gauges("0", "1", "2", "0.5").replace(r#"{model_name="m",engine="0"}"#, labels), "0:1+2@0.5");
    }
    let none = r#"{model_name="m"}  {engine="0"  {engine="0}  {engine="0\"}  {engine=0}  {engine="zero"}  {engine="-1"}
        {engine="99999999999"}  {x engine="0"}"#;
    for labels in none.split("  ").map(str::trim).chain([""]) {
        check(&gauges("0", "1", "2", "0.5").replace(r#"{model_name="m",engine="0"}"#, labels), "");
    }
}

#[test]
fn what_cannot_be_true_is_left_out_with_its_rank() {
    let good = gauges("1", "1", "1", "0.5");
    for bad in ["NaN", "+Inf", "-Inf", "-1", "1000001", "1e999", "", "one", "0x1"] {
        check(&[gauges("0", bad, "1", "0.5"), good.clone()].concat(), "1:1+1@0.5");
        check(&[gauges("0", "1", bad, "0.5"), good.clone()].concat(), "1:1+1@0.5");
        check(&[gauges("0", "1", "1", bad), good.clone()].concat(), "1:1+1@0.5");
    }
    check(&[gauges("0", "1", "1", "1.01"), good.clone()].concat(), "1:1+1@0.5");
    check(&[gauges("4", "1", "1", "0.5"), good.clone()].concat(), "1:1+1@0.5");
    let incomplete = gauges("0", "1", "1", "0.5").replace("kv_cache_usage_perc", "kv_cache_usage");
    check(&[incomplete, good].concat(), "1:1+1@0.5");
}

#[test]
fn a_line_that_is_too_long_or_no_text_is_passed_over() {
    let long = "m".repeat(LINE_BYTES_MAX);
    check(&gauges("0", "1", "1", "0.5").replace("\"m\"", &format!("\"{long}\"")), "");
    let mut bytes = gauges("0", "1", "1", "0.5").into_bytes();
    bytes.extend(b"\xff\xfe{engine=\"0\"} 1\nvllm:num_requests_running{engine=\"0\",x=\"\xff\"} 9\n");
    assert_eq!(loads(&bytes, 0..1).len(), 1);
    assert_eq!(loads(&bytes, 0..1)[0].running, 1);
}

#[test]
fn the_recorded_answer_of_vllm_is_read() {
    let recorded = tito_test_support::fixtures::json("http-rs", "metrics");
    let loads = loads(recorded["response"]["body_text"].as_str().unwrap().as_bytes(), 0..1);
    assert_eq!(loads, [EngineLoad { rank: 0, running: 0, waiting: 0, kv_usage: 0.0 }]);
}

proptest! {
    #[test]
    fn any_text_is_read_without_harm(lines in prop::collection::vec("(vllm:)?(num_requests_(running|waiting)|kv_cache_usage_perc)?[{}=,\"\\\\ a-z0-9.+-]{0,40}", 0..20)) {
        for EngineLoad { rank, kv_usage, .. } in loads(lines.join("\n").as_bytes(), 0..4) {
            prop_assert!(rank < 4 && (0.0..=1.0).contains(&kv_usage));
        }
    }
}
