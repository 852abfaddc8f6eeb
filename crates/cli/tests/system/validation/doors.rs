//! What is turned away before its body is read.

use std::net::SocketAddr;

use serde_json::json;

use super::BODY_BYTES;
use crate::harness::{COMPLETIONS, Call, GENERATE, generate};

/// Calls with the status and the code that answer them.
pub(super) fn calls(address: SocketAddr) -> Vec<(Call, u16, &'static str)> {
    let mut calls = Vec::new();
    for path in [GENERATE, COMPLETIONS] {
        let body = generate("r", 1, false).to_string();
        let bare = || Call::get(address, path).method("POST").body(body.clone());
        let json = || bare().header("content-type", "application/json");
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "", "json"] {
            calls.push((bare().header("content-type", kind), 415, "unsupported_media_type"));
        }
        for encoding in ["gzip", "zstd", "br"] {
            calls.push((json().header("content-encoding", encoding), 415, "unsupported_encoding"));
        }
        for method in ["GET", "PUT", "DELETE", "PATCH"] {
            calls.push((Call::get(address, path).method(method), 405, "method_not_allowed"));
        }
        calls.push((json().body(vec![b' '; BODY_BYTES + 1]), 413, "body_too_large"));
        calls.push((json().header("expect", "a miracle"), 417, "expectation_failed"));
        calls.push((json().header("x-session-id", "a b"), 400, "invalid_header"));
        calls.push((json().header("x-session-id", "x".repeat(257)), 400, "invalid_header"));
        for rank in ["-1", "x", "1.0", "", "4294967296"] {
            calls.push((json().header("x-data-parallel-rank", rank), 400, "invalid_header"));
        }
        for worker in ["", "a b", "é", &"x".repeat(257)] {
            calls.push((json().header("x-tito-worker", worker), 400, "invalid_header"));
        }
        for explain in ["", "2", "true"] {
            calls.push((json().header("x-tito-explain", explain), 400, "invalid_header"));
        }
        for name in ["x-session-id", "x-data-parallel-rank", "x-tito-worker", "x-tito-explain"] {
            calls.push((json().header(name, "0").header(name, "1"), 400, "invalid_header"));
        }
        let many = (0..80).fold(json(), |call, at| call.header(&format!("x-{at}"), "y"));
        calls.push((many, 431, "headers_too_large"));
        calls.push((json().header("x-long", "y".repeat(40 << 10)), 431, "headers_too_large"));
    }
    for path in ["/", "/v1", "/v1/chat/completions", "/inference/v1/generate/", "/v1/models/nobody/x", "/%ff"]
    {
        let known = path.starts_with("/v1/models/");
        let code = if known { "model_not_found" } else { "route_not_found" };
        calls.push((Call::get(address, path), 404, code));
        if !known {
            calls.push((Call::post(address, path, &json!({})), 404, code));
        }
    }
    for path in ["/live", "/ready", "/metrics", "/v1/models", "/v1/models/m", "/openapi.json"] {
        calls.push((Call::post(address, path, &json!({})), 405, "method_not_allowed"));
    }
    calls
}
