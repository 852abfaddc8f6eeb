use super::*;

/// The names and the capacity, or why the engine cannot be used.
#[track_caller]
fn check(change: impl FnOnce(&mut ServerInfo, &mut vllm_proto::ModelInfo), expected: &str) {
    let mut server = ServerInfo { max_model_len: 8, max_running_requests: 4, ..ServerInfo::default() };
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

#[test]
fn an_engine_that_cannot_serve_token_ids_says_why() {
    check(|_, _| {}, "m a n_max=4");
    check(|_, model| model.served_model_name.clear(), "GetModelInfo names no model");
    check(|_, model| model.supports_token_ids_input = false, "the engine takes no token ids");
    check(|server, _| server.max_model_len = 0, "GetServerInfo gives no max_model_len");
    check(|server, _| server.max_running_requests = 0, "GetServerInfo gives no max_running_requests");
    check(|server, _| server.max_running_requests = u64::MAX, "m a n_max=4294967295");
}
