use super::*;

/// The names and the capacity, or why the engine cannot be used.
#[track_caller]
fn check(change: impl FnOnce(&mut ServerInfo, &mut vllm_proto::ModelInfo), expected: &str) {
    let parallelism = Some(ranks(1, 0, 1));
    let mut server =
        ServerInfo { max_model_len: 8, max_running_requests: 4, parallelism, ..ServerInfo::default() };
    let mut model = vllm_proto::ModelInfo {
        served_model_name: "m".into(),
        served_model_aliases: vec!["a".into(), "m".into()],
        supports_token_ids_input: true,
        ..vllm_proto::ModelInfo::default()
    };
    change(&mut server, &mut model);
    let found = match info_of(server, model) {
        Ok(info) => format!("{} n_max={}", info.identity.model.names.join(" "), info.identity.n_max()),
        Err(problem) => problem,
    };
    assert_eq!(found, expected);
}

pub(crate) fn ranks(size: u32, rank: u32, local: u32) -> ParallelismInfo {
    ParallelismInfo {
        data_parallel_size: size,
        data_parallel_rank: rank,
        data_parallel_size_local: local,
        ..ParallelismInfo::default()
    }
}

#[test]
fn the_local_ranks_are_a_part_of_the_group_that_is_not_empty() {
    for (size, rank, local, expected) in [
        (1, 0, 1, Some(0..1)),
        (4, 2, 2, Some(2..4)),
        (4, 0, 0, Some(0..4)),
        (4, 2, 0, None),
        (0, 0, 0, None),
        (4, 4, 1, None),
        (4, 3, 2, None),
        (2, u32::MAX, 2, None),
        (u32::MAX, 0, u32::MAX, None),
    ] {
        let found = parallelism_of(ranks(size, rank, local)).ok();
        assert_eq!(found.map(|found| found.local_ranks()), expected, "{rank} + {local} of {size}");
    }
}

#[test]
fn an_engine_that_cannot_serve_token_ids_says_why() {
    check(|_, _| {}, "m a n_max=4");
    check(|_, model| model.served_model_name.clear(), "GetModelInfo names no model");
    check(|_, model| model.supports_token_ids_input = false, "the engine takes no token ids");
    check(|server, _| server.max_model_len = 0, "GetServerInfo gives no max_model_len");
    check(|server, _| server.max_running_requests = 0, "GetServerInfo gives no max_running_requests");
    check(|server, _| server.max_running_requests = u64::MAX, "m a n_max=4294967295");
}
