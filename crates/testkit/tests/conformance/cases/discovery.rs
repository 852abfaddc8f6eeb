//! What the engine says about itself.

use std::collections::BTreeSet;

use vllm_proto::{GetKvEventSourcesRequest, GetModelInfoRequest, GetServerInfoRequest, KvEventSource};

use crate::ask::{Ask, greedy, prompt};
use crate::target::{Feature, Kind, Target};

pub(crate) async fn the_server_describes_itself(target: &Target) {
    let ask = async || target.control().get_server_info(GetServerInfoRequest {}).await.unwrap().into_inner();
    let info = ask().await;
    assert!(info.engine_version.starts_with("0.32"), "engine_version is {:?}", info.engine_version);
    assert_eq!(info.api_version, "vllm");
    assert!(!info.instance_id.is_empty(), "an instance has an id");
    assert_eq!(info.proto_version, "", "0.32 leaves proto_version empty");
    let parallelism = info.parallelism.expect("parallelism");
    for (name, size) in [
        ("tensor_parallel_size", u64::from(parallelism.tensor_parallel_size)),
        ("pipeline_parallel_size", u64::from(parallelism.pipeline_parallel_size)),
        ("data_parallel_size", u64::from(parallelism.data_parallel_size)),
        ("data_parallel_size_local", u64::from(parallelism.data_parallel_size_local)),
        ("decode_context_parallel_size", u64::from(parallelism.decode_context_parallel_size)),
        ("world_size", parallelism.world_size),
        ("max_model_len", u64::from(info.max_model_len)),
        ("kv_block_size", u64::from(info.kv_block_size)),
        ("total_kv_blocks", info.total_kv_blocks),
        ("max_running_requests", info.max_running_requests),
        ("max_batched_tokens", info.max_batched_tokens),
    ] {
        assert!(size >= 1, "{name} is {size}");
    }
    assert!(info.rl_capabilities.is_some(), "capabilities are there even when all are off");
    assert_eq!(info.effective_attention_block_size, Some(u64::from(info.kv_block_size)));
    assert_eq!(ask().await.instance_id, info.instance_id, "an instance keeps its id");
}

pub(crate) async fn the_model_has_a_name_and_aliases(target: &Target) {
    let info = target.control().get_model_info(GetModelInfoRequest {}).await.unwrap().into_inner();
    assert!(!info.model_id.is_empty(), "model_id is where the model came from");
    assert!(!info.served_model_name.is_empty(), "the primary name");
    assert_eq!(info.served_model_aliases, [format!("{}-alias", info.served_model_name)]);
    assert!(info.supports_text_input && info.supports_token_ids_input, "both kinds of prompt");
    assert!(!info.supports_multimodal, "none of the kinds takes media");
    assert_eq!(info.supports_lora, target.facts.has(Feature::Lora));
}

pub(crate) async fn every_served_name_is_accepted(target: &Target) {
    let expected = target.unary(greedy(&prompt(20, 1), 3)).await.unwrap();
    for name in &target.facts.names {
        let named = greedy(&prompt(20, 1), 3).with(|request| request.model.clone_from(name));
        let reply = target.unary(named).await.unwrap_or_else(|status| panic!("{name}: {status:?}"));
        assert_eq!(reply.tokens(), expected.tokens(), "{name}");
    }
}

async fn sources(target: &Target) -> Vec<KvEventSource> {
    let reply = target.control().get_kv_event_sources(GetKvEventSourcesRequest {}).await;
    reply.unwrap().into_inner().sources
}

pub(crate) async fn without_kv_events_no_source_is_listed(target: &Target) {
    assert_eq!(sources(target).await, []);
}

pub(crate) async fn every_rank_names_its_kv_events(target: &Target) {
    let sources = sources(target).await;
    let info = target.control().get_server_info(GetServerInfoRequest {}).await.unwrap().into_inner();
    let parallelism = info.parallelism.expect("parallelism");
    let ranks: BTreeSet<_> = sources.iter().map(|source| source.data_parallel_rank).collect();
    let first = parallelism.data_parallel_rank;
    let owned = first..first + parallelism.data_parallel_size_local;
    assert_eq!(ranks, owned.map(Some).collect(), "one source per owned rank, rank 0 included");
    for source in sources {
        assert_eq!(source.transport, "zmq");
        assert!(source.endpoint.starts_with("tcp://"), "endpoint is {}", source.endpoint);
        // The scripted engine fills the replay endpoint by itself; a real one says what it was configured with.
        let replayed = source.replay_endpoint.starts_with("tcp://") || target.kind == Kind::Mock;
        assert!(replayed, "replay_endpoint is {}", source.replay_endpoint);
        assert_eq!((source.encoding.as_str(), source.schema_version), ("msgpack", 1));
        assert!(source.buffer_steps > 0 && source.hwm > 0 && source.max_queue_size > 0, "bounds: {source:?}");
    }
}
