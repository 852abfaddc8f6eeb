use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// A whole reply.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The head's headers.
    pub headers: HeaderMap,
    /// The body, as it came.
    pub body: Vec<u8>,
    /// What came behind the body: the status of a gRPC call.
    pub trailers: HeaderMap,
}

impl Reply {
    /// A reply of which only the head is known, as it came over HTTP/1.
    pub(super) fn of_head(head: &str) -> Self {
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or_default();
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not a status line: {line:?}"));
        let pairs = lines.filter(|line| !line.is_empty()).map(|line| {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("not a header: {line:?}"));
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value.trim()).unwrap())
        });
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        Self { status, headers, body: Vec::new(), trailers: HeaderMap::new() }
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Whether the body is a stream of server-sent events.
    pub fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// The data of every event of a stream, `[DONE]` checked and taken off.
    pub fn events(&self) -> Vec<Value> {
        let mut events: Vec<&str> =
            self.text().split_terminator("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
        assert_eq!(events.pop(), Some("[DONE]"), "the last event of {}", self.text());
        events.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    /// The events of a stream, or the one body.
    pub fn chunks(&self) -> Vec<Value> {
        if self.is_stream() { self.events() } else { vec![self.json()] }
    }

    /// The output ids of choice 0 on the generate route.
    pub fn tokens(&self) -> Vec<u64> {
        let choices = self.chunks().into_iter().filter_map(|chunk| chunk["choices"].get(0).cloned());
        let ids = choices.flat_map(|choice| choice["token_ids"].as_array().cloned().unwrap_or_default());
        ids.map(|id| id.as_u64().unwrap()).collect()
    }

    /// Why choice 0 ended.
    pub fn finish_reason(&self) -> Option<String> {
        let chunks = self.chunks();
        chunks.iter().find_map(|chunk| Some(chunk["choices"].get(0)?["finish_reason"].as_str()?.to_owned()))
    }

    /// `error.code`, of a refusal or of the error event that ends a stream.
    pub fn error_code(&self) -> Option<String> {
        Some(self.chunks().last()?["error"]["code"].as_str()?.to_owned())
    }
}

/// Asserts that a reply is an error of the HTTP API, with its headers, and returns what is in the envelope.
#[track_caller]
pub fn assert_envelope(about: &str, reply: &Reply) -> Value {
    assert_eq!(reply.header("content-type"), Some("application/json"), "{about}");
    assert!(reply.header("x-request-id").is_some(), "{about}: no x-request-id");
    let retry = matches!(reply.status, 429 | 503);
    assert_eq!(reply.header("retry-after").is_some(), retry, "{about}: Retry-After on {}", reply.status);
    let body = reply.json();
    assert_eq!(body.as_object().map(serde_json::Map::len), Some(1), "{about}: {body}");
    check_envelope(about, &body)
}

/// Asserts that a body holds the one error envelope, and returns what is in it.
#[track_caller]
pub fn check_envelope(about: &str, body: &Value) -> Value {
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
    };
    let error = &body["error"];
    assert_eq!(keys(error), ["message", "type", "param", "code"], "{about}: {body}");
    let texts =
        ["message", "type", "code"].iter().all(|key| error[key].as_str().is_some_and(|t| !t.is_empty()));
    assert!(texts && (error["param"].is_string() || error["param"].is_null()), "{about}: {body}");
    error.clone()
}
