//! `kv_transfer_params`: what a prefill engine answers, and what a decode engine makes of it.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

/// Side-channel port of rank 0 that prefill engines report, as NIXL's default.
const SIDE_CHANNEL_PORT: u32 = 5600;

/// What the parameters of a request ask of an engine with a connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// Nothing.
    None,
    /// Keep the prompt's blocks and say where they are.
    RemoteDecode,
    /// Fetch the prompt's blocks.
    RemotePrefill,
    /// As a fetch, but without blocks: vLLM 0.32 dies on that.
    FetchWithoutBlocks,
    /// As a fetch, but without the address of the peer: vLLM 0.32 waits for ever.
    FetchFromNowhere,
}

impl Transfer {
    pub(crate) fn of(parameters: Option<&Struct>) -> Self {
        let Some(parameters) = parameters else { return Self::None };
        let flag = |name: &str| matches!(kind(parameters, name), Some(Kind::BoolValue(true)));
        if flag("do_remote_prefill") {
            let blocks = match kind(parameters, "remote_block_ids") {
                Some(Kind::ListValue(list)) => !list.values.is_empty(),
                _ => false,
            };
            let known = |name: &str| !matches!(kind(parameters, name), None | Some(Kind::NullValue(_)));
            let address = ["remote_engine_id", "remote_request_id", "remote_host", "remote_port"];
            return if !blocks {
                Self::FetchWithoutBlocks
            } else if address.into_iter().all(known) {
                Self::RemotePrefill
            } else {
                Self::FetchFromNowhere
            };
        }
        if flag("do_remote_decode") { Self::RemoteDecode } else { Self::None }
    }
}

/// A prefill that is done, as its engine describes it.
#[derive(Debug)]
pub(crate) struct Prefilled<'a> {
    pub(crate) engine_id: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) rank: u32,
    pub(crate) prompt_tokens: u32,
    pub(crate) output_tokens: u32,
    pub(crate) cached_tokens: u32,
    pub(crate) block_size: u32,
}

impl Prefilled<'_> {
    /// The parameters for the decode engine, in NIXL's pull form. Numbers are doubles, as on the wire.
    pub(crate) fn parameters(&self) -> Struct {
        // Tokens past the first have their KV on this engine too.
        let tokens = self.prompt_tokens + self.output_tokens.saturating_sub(1);
        let blocks = tokens.div_ceil(self.block_size);
        let group = (1..=blocks).map(number).collect();
        let list = |values| Kind::ListValue(ListValue { values });
        let mut fields = vec![
            ("do_remote_prefill", Kind::BoolValue(true)),
            ("do_remote_decode", Kind::BoolValue(false)),
            ("remote_block_ids", list(vec![value(list(group))])),
            ("remote_engine_id", Kind::StringValue(self.engine_id.to_owned())),
            ("remote_request_id", Kind::StringValue(self.request_id.to_owned())),
            ("remote_host", Kind::StringValue("127.0.0.1".to_owned())),
            ("remote_port", Kind::NumberValue(f64::from(SIDE_CHANNEL_PORT + self.rank))),
            ("tp_size", Kind::NumberValue(1.0)),
            ("dcp_size", Kind::NumberValue(1.0)),
            ("pp_size", Kind::NumberValue(1.0)),
            ("remote_num_tokens", Kind::NumberValue(f64::from(tokens))),
            ("remote_blocks_expiry_time", Kind::NullValue(0)),
            ("transfer_mode", Kind::StringValue("pull".to_owned())),
        ];
        if self.output_tokens == 1 {
            fields.push(("remote_prefill_cached_tokens", Kind::NumberValue(f64::from(self.cached_tokens))));
        }
        let fields = fields.into_iter().map(|(name, kind)| (name.to_owned(), value(kind))).collect();
        Struct { fields }
    }
}

/// The kind of a field.
pub(crate) fn kind<'a>(parameters: &'a Struct, name: &str) -> Option<&'a Kind> {
    parameters.fields.get(name)?.kind.as_ref()
}

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

fn number(value_of: u32) -> Value {
    value(Kind::NumberValue(f64::from(value_of)))
}
