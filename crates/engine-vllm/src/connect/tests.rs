pub(crate) mod control;

use std::time::Duration;

use tito_types::Pixels;
use vllm_proto::{KvEventSource, LoraAdapter, ServerInfo};

use self::control::{Answers, serve};
use super::*;
use crate::kv::sources::tests::source;

fn server_info(ranks: u32) -> ServerInfo {
    let parallelism = Some(crate::info::tests::ranks(ranks, 0, ranks));
    ServerInfo { max_model_len: 8, max_running_requests: 4, parallelism, ..ServerInfo::default() }
}

/// What comes of connecting to an engine that answers so.
fn connected(change: impl FnOnce(&mut Answers)) -> Result<Connection, EngineError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut answers =
        Answers { servers: vec![server_info(1)], sources: Some(vec![source(0)]), adapters: Err(12) };
    change(&mut answers);
    runtime.block_on(async {
        let (port, _serving) = serve(answers).await;
        let config = VllmConfig {
            host: "127.0.0.1".into(),
            port,
            tls: None,
            channels: 1,
            connect_timeout: Duration::from_secs(10),
            stall_timeout: None,
            response_bytes_max: 1 << 20,
            pixels: Some(Pixels::Raw),
            metrics: None,
        };
        VllmConnector::try_new(config, 1).expect("a loopback address").connect().await
    })
}

#[track_caller]
fn check(change: impl FnOnce(&mut Answers), expected: &str) {
    let found = match connected(change) {
        Ok(connection) => {
            assert_eq!(connection.info.pixels, Some(Pixels::Raw));
            format!("{:?}", connection.info.kv_events)
        }
        Err(EngineError::Connect(_, problem)) => problem,
        Err(other) => panic!("{other}"),
    };
    assert_eq!(found, expected);
}

#[test]
fn an_engine_is_used_with_events_without_them_or_not_at_all() {
    check(|_| {}, "On { replay: true }");
    let no_replay = || Some(vec![KvEventSource { replay_endpoint: String::new(), ..source(0) }]);
    check(|answers| answers.sources = no_replay(), "On { replay: false }");
    check(|answers| answers.sources = Some(vec![]), "Off(\"the engine publishes no KV events\")");
    let foreign = || Some(vec![KvEventSource { transport: "nats".into(), ..source(0) }]);
    check(|answers| answers.sources = foreign(), "Off(\"no source is readable\")");
    check(|answers| answers.sources = None, "Off(\"the engine does not know GetKvEventSources\")");
    let foreign_rank = "GetKvEventSources: KV event source of rank 1, which is not in 0..1";
    check(|answers| answers.sources = Some(vec![source(1)]), foreign_rank);
}

#[test]
fn an_engine_that_changes_while_it_is_asked_is_refused() {
    let changed = "the engine changed while it was asked what it is";
    check(|answers| answers.servers.push(server_info(2)), changed);
    let restarted = ServerInfo { instance_id: "other".into(), ..server_info(1) };
    check(|answers| answers.servers.push(restarted), changed);
}

#[test]
fn adapters_are_asked_for_where_there_may_be_any_and_none_is_an_answer() {
    let adapters = |max_loras, adapters: Result<&[&str], i32>| {
        let found = connected(|answers| {
            answers.servers = vec![ServerInfo { max_loras, ..server_info(1) }];
            let adapter =
                |name: &&str| LoraAdapter { lora_id: 1, lora_name: (*name).into(), source_path: "s".into() };
            answers.adapters = adapters.map(|names| names.iter().map(adapter).collect());
        });
        match found {
            Ok(connection) => connection.adapters.iter().map(|adapter| adapter.name.clone()).collect(),
            Err(error) => vec![error.to_string()],
        }
    };
    assert_eq!(adapters(2, Ok(&["b", "a"])), ["a", "b"]);
    assert_eq!(adapters(0, Ok(&["a"])), [""; 0], "not asked");
    for off in [9, 12] {
        assert_eq!(adapters(1, Err(off)), [""; 0], "status {off}");
    }
    let [problem] = &adapters(1, Err(13))[..] else { panic!("an engine that fails is not used") };
    assert!(problem.contains("ListLoras: Internal"), "{problem}");
}
