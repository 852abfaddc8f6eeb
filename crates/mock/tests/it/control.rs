//! Control calls whose effect shows in other calls, beyond the contract of the conformance suite of `tito-testkit`.

use std::time::Duration;

use tito_mock::{Exit, KvEventsConfig, MockConfig, Timing};
use tito_test_support::wait::{wait_until, within};
use tonic::{Code, Request};
use vllm_proto::{
    GenerateRequest, GetKvEventSourcesRequest, GetServerInfoRequest, IsSleepingRequest, ListLorasRequest,
    LoadLoraRequest, PauseGenerationRequest, PauseMode, ShutdownRequest, SleepRequest, UnloadLoraRequest,
    WakeUpRequest,
};

use crate::support::{Running, assert_code, drain, finish, ids, outputs, prompt, request};

fn slow() -> MockConfig {
    MockConfig {
        timing: Timing { step: Duration::from_millis(2), speed: 1.0, ..Timing::INSTANT },
        ..MockConfig::new()
    }
}

#[tokio::test]
async fn sleep_and_wake_go_part_by_part() {
    let mock = Running::start(MockConfig { enable_sleep_mode: true, ..MockConfig::new() }).await;
    let (mut client, mut control) = (mock.inference().await, mock.control().await);
    let asleep = async |control: &mut vllm_proto::control_client::ControlClient<_>| {
        control.is_sleeping(IsSleepingRequest {}).await.unwrap().into_inner().sleeping
    };
    let wake = |tags: &[&str]| WakeUpRequest { tags: tags.iter().map(|&tag| tag.to_owned()).collect() };
    for (level, steps) in [
        (0, vec![(vec!["scheduling"], false)]),
        (1, vec![(vec!["weights"], true), (vec!["nonsense"], true), (vec!["kv_cache"], false)]),
        (2, vec![(vec![], false)]),
    ] {
        control.sleep(SleepRequest { level: Some(level), mode: 0 }).await.unwrap();
        assert!(asleep(&mut control).await);
        for (tags, still) in steps {
            control.wake_up(wake(&tags)).await.unwrap();
            assert_eq!(asleep(&mut control).await, still, "level {level} after {tags:?}");
        }
        let output = outputs(client.generate(request("r", &prompt(1, 70), 1)).await.unwrap().into_inner());
        assert_eq!(finish(&output).num_cached_tokens, Some(0), "sleeping drops the cache");
    }
}

#[tokio::test]
async fn adapters_load_by_name_and_start_cold_after_a_reload() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("a")).unwrap();
    let config = MockConfig {
        enable_lora: true,
        lora_path_prefixes: vec![root.clone()],
        served_model_names: vec!["base".to_owned()],
        ..MockConfig::new()
    };
    let mock = Running::start(config).await;
    let (mut client, mut control) = (mock.inference().await, mock.control().await);
    let path = root.join("a").to_string_lossy().into_owned();
    let load =
        |name: &str, path: &str| LoadLoraRequest { lora_name: name.to_owned(), source_path: path.to_owned() };
    let with = |name: &str| GenerateRequest { lora_name: name.to_owned(), ..request("r", &prompt(1, 70), 4) };
    assert_code(client.generate(with("one")).await, Code::NotFound);
    for (name, path, code) in [
        ("base", path.as_str(), Code::AlreadyExists),
        (" ", path.as_str(), Code::InvalidArgument),
        ("one", "", Code::InvalidArgument),
        ("one", "/", Code::InvalidArgument),
        ("one", "relative", Code::InvalidArgument),
        ("one", "/does/not/exist", Code::InvalidArgument),
    ] {
        assert_code(control.load_lora(load(name, path)).await, code);
    }
    let dotted = format!("{path}/../a");
    let adapter = control.load_lora(load("one", &dotted)).await.unwrap().into_inner().adapter.unwrap();
    assert_eq!((adapter.lora_id, adapter.source_path.as_str()), (1, path.as_str()));
    assert_code(control.load_lora(load("one", &path)).await, Code::AlreadyExists);
    control.load_lora(load("hub", "org/name")).await.unwrap();
    let listed = control.list_loras(ListLorasRequest {}).await.unwrap().into_inner().adapters;
    let names: Vec<&str> = listed.iter().map(|adapter| adapter.lora_name.as_str()).collect();
    assert_eq!(names, ["hub", "one"]);
    let base = outputs(client.generate(request("r", &prompt(1, 70), 4)).await.unwrap().into_inner());
    let cold = outputs(client.generate(with("one")).await.unwrap().into_inner());
    let warm = outputs(client.generate(with("one")).await.unwrap().into_inner());
    assert_ne!(base.token_ids, cold.token_ids);
    assert_eq!(cold.token_ids, warm.token_ids);
    assert_eq!((finish(&cold).num_cached_tokens, finish(&warm).num_cached_tokens), (Some(0), Some(64)));
    control.unload_lora(UnloadLoraRequest { lora_name: "one".to_owned() }).await.unwrap();
    let again = control.load_lora(load("one", &path)).await.unwrap().into_inner().adapter.unwrap();
    assert_eq!(again.lora_id, 3, "ids are not reused");
    let reloaded = outputs(client.generate(with("one")).await.unwrap().into_inner());
    assert_eq!(finish(&reloaded).num_cached_tokens, Some(64), "name and path are the identity");
    control.unload_lora(UnloadLoraRequest { lora_name: "one".to_owned() }).await.unwrap();
    control.load_lora(load("one", "org/other")).await.unwrap();
    let other = outputs(client.generate(with("one")).await.unwrap().into_inner());
    assert_eq!(finish(&other).num_cached_tokens, Some(0));
    assert_ne!(other.token_ids, reloaded.token_ids);
}

#[tokio::test]
async fn discovery_speaks_of_the_owned_ranks() {
    let kv_events =
        KvEventsConfig::parse(r#"{"enable_kv_cache_events":true,"endpoint":"tcp://*:0"}"#).unwrap();
    let config = MockConfig {
        data_parallel_size: 4,
        data_parallel_start_rank: 2,
        kv_events: Some(kv_events),
        num_gpu_blocks: 100,
        ..MockConfig::new()
    };
    let mock = Running::start(config).await;
    let mut control = mock.control().await;
    let info = control.get_server_info(GetServerInfoRequest {}).await.unwrap().into_inner();
    let ranks = info.parallelism.unwrap();
    assert_eq!(
        (ranks.data_parallel_size, ranks.data_parallel_rank, ranks.data_parallel_size_local),
        (4, 2, 2)
    );
    assert_eq!(info.total_kv_blocks, 200);
    let sources =
        control.get_kv_event_sources(GetKvEventSourcesRequest {}).await.unwrap().into_inner().sources;
    let ranks: Vec<Option<u32>> = sources.iter().map(|source| source.data_parallel_rank).collect();
    assert_eq!(ranks, [Some(2), Some(3)]);
    let (second, third) = (&sources[0].endpoint, &sources[1].endpoint);
    assert!(
        second.starts_with("tcp://*:") && second != third && !second.ends_with(":0"),
        "{second}, {third}"
    );
    assert_eq!(mock.json("/kv_event_sources").await["3"]["endpoint"], third.as_str());
    assert_eq!(mock.json("/get_world_size").await["world_size"], 4);
    assert_eq!(mock.json("/get_world_size?include_dp=false").await["world_size"], 1);
}

#[tokio::test]
async fn shutdown_lets_calls_finish_within_its_timeout() {
    let mut mock = Running::start(MockConfig { shutdown_timeout: Duration::from_secs(20), ..slow() }).await;
    let (mut client, mut control) = (mock.inference().await, mock.control().await);
    let mut health = mock.health().await;
    let mut watch = health.watch(tonic_health::pb::HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(within("health", watch.message()).await.unwrap().unwrap().status, 1);
    let stream = client.generate_stream(request("r", &prompt(1, 20), 100)).await.unwrap().into_inner();
    control.shutdown(Request::new(ShutdownRequest {})).await.unwrap();
    assert_eq!(within("health", watch.message()).await.unwrap().unwrap().status, 2);
    assert!(
        within("the end of health", watch.message()).await.unwrap().is_none(),
        "it ends without an error"
    );
    let (messages, end) = drain(stream).await;
    assert!(end.is_none());
    assert_eq!(ids(&messages).len(), 100);
    drop((client, control, health, watch));
    assert_eq!(mock.exit().await, Exit::Stopped);
}

#[tokio::test]
async fn shutdown_without_a_timeout_cuts_calls_off() {
    let mock = Running::start(slow()).await;
    let mut client = mock.inference().await;
    let mut stream = client.generate_stream(request("r", &prompt(1, 20), 2000)).await.unwrap().into_inner();
    within("the prompt", stream.message()).await.unwrap();
    mock.ask_to_stop();
    let (_, end) = drain(stream).await;
    assert!(end.is_some());
    assert_eq!(mock.stop().await, Exit::Stopped);
}

#[tokio::test]
async fn shutdown_is_refused_when_the_engine_belongs_to_another() {
    let mock = Running::start(MockConfig { owns_engine: false, ..MockConfig::new() }).await;
    assert_code(mock.control().await.shutdown(ShutdownRequest {}).await, Code::FailedPrecondition);
}

#[tokio::test]
async fn two_mocks_in_one_process_share_nothing() {
    let (one, two) = (Running::start(MockConfig::new()).await, Running::start(MockConfig::new()).await);
    let pause = PauseGenerationRequest { mode: PauseMode::Keep as i32, clear_cache: None };
    one.control().await.pause_generation(pause).await.unwrap();
    let reply = two.inference().await.generate(request("r", &prompt(1, 20), 2)).await.unwrap();
    assert_eq!(outputs(reply.into_inner()).num_tokens, 2);
    assert!(one.handle.requests().is_empty());
    wait_until("an entry", || two.handle.requests().len() == 1).await;
}
