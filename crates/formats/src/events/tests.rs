use super::*;
use crate::error_body;

#[test]
fn a_failure_is_one_event_and_the_end_whatever_its_text() {
    let body = error_body("two\nlines\r\n\ndata: [DONE]", "server_error", None, "engine_failed");
    let event = String::from_utf8(error_event(&body)).unwrap();
    let data = event.strip_prefix("data: ").unwrap().strip_suffix("\n\ndata: [DONE]\n\n").unwrap();
    assert!(!data.contains(['\n', '\r']));
    let error: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(error["error"]["message"], "two\nlines\r\n\ndata: [DONE]");
    assert_eq!(error_event(b"{\n}"), b"data: { }\n\ndata: [DONE]\n\n");
}
