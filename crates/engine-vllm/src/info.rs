//! What an engine says about itself, read whole: a field added to the schema does not compile until someone decides
//! whether a reconnect may change it.

use tito_types::{Capabilities, EngineInfo, Identity, KvSupport, ModelInfo, Parallelism};
use tracing::warn;
use vllm_proto::{ParallelismInfo, RlCapabilities, ServerInfo};

/// Most ranks one address may stand for: an engine that claims more is refused before anything is made for each.
const LOCAL_RANKS_MAX: u32 = 4096;

/// Joins the two answers, or says what makes the engine unusable. What it tells of its block tables is asked for later.
pub(crate) fn info_of(server: ServerInfo, model: vllm_proto::ModelInfo) -> Result<EngineInfo, String> {
    let ServerInfo {
        engine_version,
        api_version: _, // always "vllm"
        instance_id,
        parallelism,
        max_model_len,
        kv_block_size,
        total_kv_blocks,
        max_running_requests,
        max_batched_tokens,
        max_loras,
        rl_capabilities,
        proto_version: _, // empty in vLLM 0.32
        effective_attention_block_size,
    } = server;
    let vllm_proto::ModelInfo {
        model_id,
        served_model_name,
        served_model_aliases,
        supports_text_input: _, // prompts are token ids
        supports_token_ids_input,
        supports_lora,
        supports_multimodal,
        reasoning_parser,
        tool_call_parser,
    } = model;
    let RlCapabilities {
        weight_transfer_enabled,
        weight_transfer_backend,
        sleep_mode_enabled,
        draft_weight_updates_enabled,
    } = rl_capabilities.unwrap_or_default();
    for (missing, what) in [
        (served_model_name.is_empty(), "GetModelInfo names no model"),
        (!supports_token_ids_input, "the engine takes no token ids"),
        (max_model_len == 0, "GetServerInfo gives no max_model_len"),
        (max_running_requests == 0, "GetServerInfo gives no max_running_requests"),
    ] {
        if missing {
            return Err(what.to_owned());
        }
    }
    let parallelism = parallelism_of(parallelism.unwrap_or_default())?;
    let mut names = vec![served_model_name];
    for alias in served_model_aliases {
        if !names.contains(&alias) {
            names.push(alias);
        }
    }
    Ok(EngineInfo {
        engine_version,
        instance_id,
        kv_events: KvSupport::Off("not asked".to_owned()),
        pixels: None,
        identity: Identity {
            model: ModelInfo {
                source: model_id,
                names,
                lora: supports_lora,
                multimodal: supports_multimodal,
            },
            parallelism,
            capabilities: Capabilities {
                max_loras,
                weight_transfer: weight_transfer_enabled.then_some(weight_transfer_backend),
                draft_weight_updates: draft_weight_updates_enabled,
                sleep: sleep_mode_enabled,
                reasoning_parser,
                tool_call_parser,
                attention_block_size: effective_attention_block_size,
            },
            max_model_len,
            kv_block_size,
            total_kv_blocks,
            max_running_requests,
            max_batched_tokens,
        },
    })
}

/// The ranks behind this address lie in the group. An engine that does not say how many they are has all of it.
fn parallelism_of(wire: ParallelismInfo) -> Result<Parallelism, String> {
    let ParallelismInfo {
        tensor_parallel_size,
        pipeline_parallel_size,
        data_parallel_size: data,
        data_parallel_rank: data_rank,
        decode_context_parallel_size,
        world_size,
        data_parallel_size_local,
    } = wire;
    let data_local = if data_parallel_size_local == 0 {
        warn!(data, "data_parallel_size_local is absent; taking the whole group");
        data
    } else {
        data_parallel_size_local
    };
    let end = data_rank.checked_add(data_local);
    if data_local == 0 || data_local > LOCAL_RANKS_MAX || end.is_none_or(|end| end > data) {
        return Err(format!(
            "{data_local} data-parallel ranks from {data_rank} do not lie in a group of {data}"
        ));
    }
    Ok(Parallelism {
        tensor: tensor_parallel_size,
        pipeline: pipeline_parallel_size,
        data,
        data_rank,
        data_local,
        decode_context: decode_context_parallel_size,
        world: world_size,
    })
}

#[cfg(test)]
pub(crate) mod tests;
