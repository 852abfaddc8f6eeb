//! `tito replay`: a trace over simulated workers.

use serde_json::Value;

use crate::harness::{Files, Ran, run};

/// Seven conversations of four turns over one first block.
const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/conversations.jsonl");
const POLICIES: [&str; 5] = ["kv", "round-robin", "random", "power-of-two", "least-loaded"];

async fn replay(args: &[&str]) -> Ran {
    run(&[&["replay"], args].concat(), &[]).await
}

async fn told(args: &[&str]) -> Value {
    let ran = replay(&[args, &["--json"]].concat()).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

#[tokio::test]
async fn no_policy_beats_the_best_and_kv_comes_nearest() {
    let told = told(&[TRACE, "--workers", "2,4"]).await;
    assert_eq!(told["worker"]["prefill_time_per_token"], 1e-4, "{told}");
    let replays = told["replays"].as_array().unwrap();
    assert_eq!(replays.len(), 2);
    for (replay, workers) in replays.iter().zip([2, 4]) {
        assert_eq!((&replay["workers"], &replay["requests"]), (&workers.into(), &28.into()));
        let policies = replay["policies"].as_array().unwrap();
        let names: Vec<&str> = policies.iter().map(|policy| policy["policy"].as_str().unwrap()).collect();
        assert_eq!(names, POLICIES);
        let number = |policy: &Value, path: &str| policy.pointer(path).and_then(Value::as_f64).unwrap();
        for policy in policies {
            let [hit, fleet, one] =
                ["/hit_rate", "/best/fleet", "/best/one_cache"].map(|path| number(policy, path));
            assert!(0.0 < hit && hit <= fleet && fleet <= one && one < 1.0, "{policy}");
            let [p50, p99] = ["/ttft/p50", "/ttft/p99"].map(|path| number(policy, path));
            assert!(0.0 < p50 && p50 <= p99, "{policy}");
            assert!((1.0..=4.0).contains(&number(policy, "/balance/prefill")), "{policy}");
            assert_eq!((&policy["completed"], &policy["rejected"]), (&28.into(), &0.into()));
            assert!(number(&policies[0], "/hit_rate") >= hit, "{policy}");
        }
    }
}

#[tokio::test]
async fn a_closed_loop_with_late_and_lost_events_is_said_to_be_one() {
    let options = "--closed-loop --session-affinity --block-size 32 --event-jitter 20ms --event-loss 0.2 \
        --partial-workers 1 --request-time 2ms --prefill-attention-time 1ms --decode-context-time 0.01ms --policy kv";
    let options: Vec<&str> = options.split_whitespace().collect();
    let told = told(&[&[TRACE][..], &options].concat()).await;
    assert_eq!((&told["closed_loop"], &told["session_affinity"]), (&true.into(), &true.into()), "{told}");
    assert_eq!((&told["trace_block_size"], &told["partial_workers"]), (&512.into(), &1.into()));
    for (member, value) in [
        ("block_size", 32.0),
        ("event_jitter", 0.02),
        ("event_loss", 0.2),
        ("request_time", 0.002),
        ("prefill_attention_time", 0.001),
        ("decode_context_time", 1e-5),
    ] {
        assert_eq!(told["worker"][member].as_f64(), Some(value), "{told}");
    }
    let policy = &told["replays"][0]["policies"][0];
    assert_eq!(policy["completed"], 28, "{told}");
    assert_eq!(policy["best"], serde_json::json!({"one_cache": null, "fleet": null}), "{told}");
    assert!(policy["lost_batches"].as_u64() > Some(0), "{told}");
    let turns = &told["replays"][0]["turns"];
    assert!(turns["next"].as_f64() > Some(0.5) && turns["ambiguous"] == 0.0, "{told}");
}

#[tokio::test]
async fn equal_seeds_give_equal_bytes() {
    let args = |seed| [TRACE, "--workers", "3", "--policy", "random", "--json", "--seed", seed];
    let (first, again) = (replay(&args("7")).await, replay(&args("7")).await);
    assert_eq!((first.code, &first.stdout), (Some(0), &again.stdout));
    assert_ne!(first.stdout, replay(&args("8")).await.stdout);
}

#[tokio::test]
async fn the_table_and_the_plot_show_each_policy_of_each_fleet() {
    let files = Files::new();
    for (name, start, pictures) in [("plot.svg", "<svg ", 1), ("plot.html", "<!doctype html>", 2)] {
        let path = files.path(name);
        let args = [TRACE, "--workers", "1,2", "--policy", "kv,random", "--requests", "9", "--speed", "0.5"];
        let ran = replay(&[&args[..], &["--plot", path.to_str().unwrap()]].concat()).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        let lines: Vec<&str> = ran.stdout.lines().collect();
        let firsts: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
        let fleet = ["next", "POLICY", "kv", "random"];
        assert_eq!(firsts, [&["1"], &fleet[..], &["", "2"], &fleet[..]].concat());
        assert!(lines[0].starts_with("1 workers, 9 requests in "), "{}", ran.stdout);
        let columns = |line: &str| line.split_whitespace().count();
        assert!(lines[2..5].iter().all(|line| columns(line) == 10), "{}", ran.stdout);
        let plot = std::fs::read_to_string(&path).unwrap();
        assert!(plot.starts_with(start) && plot.matches("<svg ").count() == pictures, "{name}");
        assert!(plot.contains("on 1 workers<") && plot.contains("on 2 workers<"), "{name}");
    }
    assert_eq!(files.path("").read_dir().unwrap().count(), 2);
}

#[tokio::test]
async fn a_request_that_fits_nowhere_is_said_to_be_left_out() {
    let ran = replay(&[TRACE, "--policy", "kv", "--kv-tokens", "7680"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("\nkv: 7 requests fit no worker's KV room"), "{}", ran.stdout);
}

#[tokio::test]
async fn a_replay_that_serves_nothing_shows_no_numbers_and_fails() {
    let nothing = [TRACE, "--policy", "kv", "--kv-tokens", "64"];
    let ran = replay(&nothing).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("nothing was served: no request fits --kv-tokens 64"), "{}", ran.stderr);
    let row = ran.stdout.lines().find(|line| line.starts_with("kv ")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), [&["kv"][..], &["–"; 9]].concat());
    let ran = replay(&[&nothing[..], &["--json"]].concat()).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    let policy = &told["replays"][0]["policies"][0];
    assert_eq!((&policy["completed"], &policy["rejected"]), (&0.into(), &28.into()), "{policy}");
    for number in ["/hit_rate", "/best/fleet", "/wait", "/ttft", "/e2e", "/balance/prefill", "/seconds"] {
        assert_eq!(policy.pointer(number), Some(&Value::Null), "{number}: {policy}");
    }
}

#[tokio::test]
async fn what_cannot_be_replayed_is_said_with_its_place() {
    let files = Files::new();
    let good = std::fs::read_to_string(TRACE).unwrap().lines().next().unwrap().to_owned();
    let bad = |name: &str, line: &str| files.write(name, &format!("{good}\n{line}\n{good}\n"));
    let text = |name: &str| files.path(name).to_str().unwrap().to_owned();
    let (missing, nowhere) = (text("missing.jsonl"), text("none/plot.svg"));
    let broken = bad("broken", r#"{"timestamp": 1,"#);
    let negative = bad("negative", &good.replacen("\"timestamp\": 0", "\"timestamp\": -1", 1));
    for (args, code, words) in [
        (&[broken.as_str()][..], 1, "broken:2:16: EOF while parsing"),
        (&[&negative], 1, "negative:2: its time or a length is out of range"),
        (&[TRACE, "--trace-block-size", "64"], 1, "conversations.jsonl:1: 8 ids for 3674 prompt tokens"),
        (&[&missing], 1, "missing.jsonl: No such file"),
        (&[TRACE, "--plot", "plot.png"], 2, "must end in .svg or .html"),
        (&[TRACE, "--policy", "direct"], 2, "it needs pins"),
        (&[TRACE, "--policy", "best"], 2, "no policy is called"),
        (&[TRACE, "--workers", "8,0"], 2, "0 is not in 1..=4096"),
        (&[TRACE, "--speed", "NaN"], 2, "a number from 0.001"),
        (&[TRACE, "--kv-tokens", "20"], 2, "at least two blocks"),
        (&[TRACE, "--event-loss", "1.5"], 2, "a number from 0 to 1"),
        (&[TRACE, "--partial-workers", "9"], 2, "more workers are partial"),
        (&[TRACE, "--kv-tokens", "99999999999"], 2, "at most 16777216 KV blocks"),
    ] {
        let ran = replay(args).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(words), "{args:?}: {ran:?}");
    }
    let ran = replay(&[TRACE, "--policy", "kv", "--plot", &nowhere]).await;
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(1), 4), "only the plot is lost: {ran:?}");
    assert!(ran.stderr.contains("--plot ") && ran.stderr.contains("plot.svg: No such file"), "{ran:?}");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut replay = std::process::Command::new(env!("CARGO_BIN_EXE_tito"))
        .args(["replay", TRACE, "--json", "--quiet"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(replay.stdout.take());
    let ended = replay.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}
