//! Control calls whose effect shows in other calls, beyond the contract of the conformance suite of `tito-testkit`.

use std::time::Duration;

use tito_mock::{Exit, MockConfig};
use tito_test_support::wait::{wait_until, within};
use tonic::Code;
use vllm_proto::{
    GenerateRequest, GetKvEventSourcesRequest, GetServerInfoRequest, IsSleepingRequest, ListLorasRequest,
    LoadLoraRequest, PauseGenerationRequest, PauseMode, ShutdownRequest, SleepRequest, UnloadLoraRequest,
    WakeUpRequest,
};

use crate::replay::kv_events;
use crate::support::{Running, drain, finish, ids, prompt, refusal, request, slow};

#[tokio::test]
async fn sleep_and_wake_go_part_by_part() {
    let mock = Running::start(MockConfig { enable_sleep_mode: true, ..MockConfig::new() }).await;
    let mut control = mock.control().await;
    for (level, steps) in [
        (0, &[("scheduling", false)][..]),
        (1, &[("weights", true), ("nonsense", true), ("kv_cache", false)]),
        (2, &[("", false)]),
    ] {
        control.sleep(SleepRequest { level: Some(level), mode: 0 }).await.unwrap();
        assert!(control.is_sleeping(IsSleepingRequest {}).await.unwrap().into_inner().sleeping);
        for &(tags, still) in steps {
            let tags = tags.split_whitespace().map(str::to_owned).collect();
            control.wake_up(WakeUpRequest { tags }).await.unwrap();
            let asleep = control.is_sleeping(IsSleepingRequest {}).await.unwrap().into_inner().sleeping;
            assert_eq!(asleep, still, "level {level}: {steps:?}");
        }
        let output = mock.generate(request("r", &prompt(1, 70), 1)).await;
        assert_eq!(finish(&output).num_cached_tokens, Some(0), "sleeping drops the cache");
    }
}

#[tokio::test]
async fn adapters_load_by_name_and_start_cold_after_a_reload() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("a")).unwrap();
    let mock = Running::start(MockConfig {
        enable_lora: true,
        lora_path_prefixes: vec![root.clone()],
        served_model_names: vec!["base".to_owned()],
        ..MockConfig::new()
    })
    .await;
    let mut control = mock.control().await;
    let load = async |name: &str, path: &str| {
        let (lora_name, source_path) = (name.to_owned(), path.to_owned());
        let loaded = mock.control().await.load_lora(LoadLoraRequest { lora_name, source_path }).await;
        loaded.map(|reply| reply.into_inner().adapter.unwrap())
    };
    let mut unload = async |name: &str| {
        control.unload_lora(UnloadLoraRequest { lora_name: name.to_owned() }).await.unwrap();
    };
    let with = |name: &str| GenerateRequest { lora_name: name.to_owned(), ..request("r", &prompt(1, 70), 4) };
    // Output, and how much of the prompt was cached.
    let output = async |name: &str| {
        let output = mock.generate(with(name)).await;
        (output.token_ids.clone(), finish(&output).num_cached_tokens.unwrap())
    };
    assert_eq!(mock.code(with("one")).await, Code::NotFound);
    let path = root.join("a").to_string_lossy().into_owned();
    for (name, path, code) in [
        ("base", path.as_str(), Code::AlreadyExists),
        (" ", path.as_str(), Code::InvalidArgument),
        ("one", "", Code::InvalidArgument),
        ("one", "/", Code::InvalidArgument),
        ("one", "relative", Code::InvalidArgument),
        ("one", "/does/not/exist", Code::InvalidArgument),
    ] {
        assert_eq!(refusal(load(name, path).await), code, "{name:?} {path:?}");
    }
    let adapter = load("one", &format!("{path}/../a")).await.unwrap();
    assert_eq!((adapter.lora_id, &adapter.source_path), (1, &path));
    assert_eq!(refusal(load("one", &path).await), Code::AlreadyExists);
    load("hub", "org/name").await.unwrap();
    let listed = mock.control().await.list_loras(ListLorasRequest {}).await.unwrap().into_inner().adapters;
    assert_eq!(listed.iter().map(|adapter| adapter.lora_name.as_str()).collect::<Vec<_>>(), ["hub", "one"]);
    let (base, _) = output("").await;
    let (adapted, cached) = output("one").await;
    assert_ne!(base, adapted);
    assert_eq!((cached, output("one").await), (0, (adapted.clone(), 64)));
    unload("one").await;
    assert_eq!(load("one", &path).await.unwrap().lora_id, 3, "ids are not reused");
    assert_eq!(output("one").await, (adapted.clone(), 64), "name and path are the identity");
    unload("one").await;
    load("one", "org/other").await.unwrap();
    let (other, cached) = output("one").await;
    assert_eq!(cached, 0);
    assert_ne!(other, adapted);
}

#[tokio::test]
async fn discovery_speaks_of_the_owned_ranks() {
    let mock = Running::start(MockConfig {
        data_parallel_size: 4,
        data_parallel_start_rank: 2,
        kv_events: Some(kv_events()),
        num_gpu_blocks: 100,
        ..MockConfig::new()
    })
    .await;
    let mut control = mock.control().await;
    let info = control.get_server_info(GetServerInfoRequest {}).await.unwrap().into_inner();
    let ranks = info.parallelism.unwrap();
    let ranks = (ranks.data_parallel_size, ranks.data_parallel_rank, ranks.data_parallel_size_local);
    assert_eq!((ranks, info.total_kv_blocks), ((4, 2, 2), 200));
    let sources =
        control.get_kv_event_sources(GetKvEventSourcesRequest {}).await.unwrap().into_inner().sources;
    assert_eq!(
        sources.iter().map(|source| source.data_parallel_rank).collect::<Vec<_>>(),
        [Some(2), Some(3)]
    );
    let (second, third) = (&sources[0].endpoint, &sources[1].endpoint);
    assert!(second.starts_with("tcp://*:") && !second.ends_with(":0"), "{second}");
    assert_ne!(second, third);
    assert_eq!(mock.json("/kv_event_sources").await["3"]["endpoint"], third.as_str());
    assert_eq!(mock.json("/get_world_size").await["world_size"], 4);
    assert_eq!(mock.json("/get_world_size?include_dp=false").await["world_size"], 1);
}

#[tokio::test]
async fn shutdown_lets_calls_finish_within_its_timeout() {
    let mut mock = Running::start(MockConfig { shutdown_timeout: Duration::from_secs(20), ..slow() }).await;
    let mut health = mock.health().await;
    let mut watch = health.watch(tonic_health::pb::HealthCheckRequest::default()).await.unwrap().into_inner();
    let mut status = async || within("health", watch.message()).await.unwrap().map(|reply| reply.status);
    assert_eq!(status().await, Some(1));
    let stream = mock.open(request("r", &prompt(1, 20), 100)).await;
    mock.control().await.shutdown(ShutdownRequest {}).await.unwrap();
    assert_eq!((status().await, status().await), (Some(2), None), "it ends without an error");
    let (messages, end) = drain(stream).await;
    assert!(end.is_none());
    assert_eq!(ids(&messages).len(), 100);
    drop((health, watch));
    assert_eq!(mock.exit().await, Exit::Stopped);
}

#[tokio::test]
async fn shutdown_without_a_timeout_cuts_calls_off() {
    let mock = Running::start(slow()).await;
    let mut stream = mock.open(request("r", &prompt(1, 20), 2000)).await;
    within("the prompt", stream.message()).await.unwrap();
    mock.ask_to_stop();
    assert!(drain(stream).await.1.is_some());
    assert_eq!(mock.stop().await, Exit::Stopped);
}

#[tokio::test]
async fn shutdown_is_refused_when_the_engine_belongs_to_another() {
    let mock = Running::start(MockConfig { owns_engine: false, ..MockConfig::new() }).await;
    let refused = mock.control().await.shutdown(ShutdownRequest {}).await;
    assert_eq!(refusal(refused), Code::FailedPrecondition);
}

#[tokio::test]
async fn two_mocks_in_one_process_share_nothing() {
    let (one, two) = (Running::start(MockConfig::new()).await, Running::start(MockConfig::new()).await);
    let pause = PauseGenerationRequest { mode: PauseMode::Keep as i32, clear_cache: None };
    one.control().await.pause_generation(pause).await.unwrap();
    assert_eq!(two.generate(request("r", &prompt(1, 20), 2)).await.num_tokens, 2);
    assert!(one.handle.requests().is_empty());
    wait_until("an entry", || two.handle.requests().len() == 1).await;
}
