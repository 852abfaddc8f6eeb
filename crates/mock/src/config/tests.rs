use super::{ConfigError, KvEventsConfig, MockConfig, Multimodal};
use crate::faults::{FAULTS_MAX, Fault, FaultSpec};
use crate::kv::EndpointError;

#[test]
fn the_default_is_sound() {
    assert_eq!(MockConfig::new().check(), Ok(()));
    let faults = vec![FaultSpec::new(Fault::Drain); FAULTS_MAX];
    assert_eq!(MockConfig { faults, ..MockConfig::new() }.check(), Ok(()), "as many faults as may be set");
}

#[test]
fn every_mistake_is_reported_at_once() {
    let events = KvEventsConfig::parse(r#"{"enable_kv_cache_events":true,"endpoint":"ipc:///kv"}"#);
    let mut config = MockConfig {
        max_num_seqs: 0,
        num_gpu_blocks: 10,
        data_parallel_start_rank: 1,
        eos_probability: f64::NAN,
        faults: vec![FaultSpec::new(Fault::Drain); FAULTS_MAX + 1],
        served_model_names: ["a", "b", "a"].map(str::to_owned).to_vec(),
        lora_modules: vec![("b".to_owned(), "org/name".to_owned())],
        kv_events: Some(events.unwrap()),
        multimodal: Some(Multimodal { image_token: 1024, ..Multimodal::default() }),
        ..MockConfig::new()
    };
    config.vocabulary.tokenizer_ids = 2000;
    config.timing.speed = f64::INFINITY;
    let expected = vec![
        ConfigError::Zero("max-num-seqs"),
        ConfigError::PoolTooSmall { blocks: 10, block_size: 32, max_model_len: 2048 },
        ConfigError::Vocabulary("the tokenizer has more ids than the embedding"),
        ConfigError::NoRank { start: 1, size: 1 },
        ConfigError::Probability,
        ConfigError::Speed,
        ConfigError::TooManyFaults(FAULTS_MAX + 1),
        ConfigError::KvEndpoint(EndpointError { endpoint: "ipc:///kv".to_owned() }),
        ConfigError::Placeholder,
        ConfigError::TooManyAdapters(1, 0),
        ConfigError::DuplicateName("a".to_owned()),
        ConfigError::DuplicateName("b".to_owned()),
    ];
    assert_eq!(config.check(), Err(expected));
}

#[test]
fn what_costs_memory_from_the_start_is_bounded() {
    for (ranks, local, blocks, expected) in [
        (1, None, 1 << 24, Ok(())),
        (1, None, (1 << 24) + 1, Err(ConfigError::TooManyBlocks { ranks: 1, blocks: (1 << 24) + 1 })),
        (1, None, u32::MAX, Err(ConfigError::TooManyBlocks { ranks: 1, blocks: u32::MAX })),
        (512, None, 32_768, Ok(())),
        (513, None, 32_768, Err(ConfigError::TooManyBlocks { ranks: 513, blocks: 32_768 })),
        (1024, Some(1), 32_768, Ok(())),
        (1025, Some(1), 32_768, Err(ConfigError::TooManyRanks(1025))),
        (u32::MAX, None, 32_768, Err(ConfigError::TooManyRanks(u32::MAX))),
    ] {
        let config = MockConfig {
            data_parallel_size: ranks,
            data_parallel_size_local: local,
            num_gpu_blocks: blocks,
            ..MockConfig::new()
        };
        assert_eq!(config.check(), expected.map_err(|error| vec![error]), "{ranks} ranks, {blocks} blocks");
    }
}

#[test]
fn owned_ranks_end_with_the_deployment() {
    let ranks = |data_parallel_size, data_parallel_start_rank, data_parallel_size_local| {
        let plain = MockConfig::new();
        MockConfig { data_parallel_size, data_parallel_start_rank, data_parallel_size_local, ..plain }
            .owned_ranks()
    };
    assert_eq!(ranks(4, 0, None), 0..4);
    assert_eq!(ranks(4, 2, Some(1)), 2..3);
    assert_eq!(ranks(4, 2, Some(9)), 2..4);
    assert!(ranks(4, 9, None).is_empty());
}

#[test]
fn kv_events_have_vllms_defaults_and_refuse_what_they_do_not_know() {
    let parsed = KvEventsConfig::parse(r#"{"enable_kv_cache_events":true}"#).unwrap();
    assert_eq!((parsed.endpoint.as_str(), parsed.buffer_steps), ("tcp://*:5557", 10_000));
    assert_eq!(parsed.of_rank(0).publisher.as_deref(), Some("zmq"));
    assert_eq!(KvEventsConfig::default().of_rank(0).publisher.as_deref(), Some("null"));
    assert!(!KvEventsConfig::default().is_published());
    for bad in ["", "[]", r#"{"endpoints":"x"}"#, r#"{"hwm":-1}"#] {
        assert!(KvEventsConfig::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_rank_moves_tcp_ports_only() {
    for (endpoint, rank, expected) in [
        ("tcp://*:5557", 3, "tcp://*:5560"),
        ("tcp://*:0", 3, "tcp://*:0"),
        ("inproc://kv", 0, "inproc://kv"),
        ("inproc://kv", 2, "inproc://kv_dp2"),
        ("ipc:///run/kv", 0, "ipc:///run/kv"),
        ("tcp://*:65535", 1, "tcp://*:65535"),
    ] {
        let config = KvEventsConfig { endpoint: endpoint.to_owned(), ..KvEventsConfig::default() };
        assert_eq!(config.of_rank(rank).endpoint, expected);
    }
}
