//! Media that cannot be used: each is blamed by its path, and no engine hears of it.

use serde_json::{Value, json};

use super::{Expected, ROUTES, Route, Stage};
use crate::harness::{Call, MockEngine, Serve, assert_envelope};

/// One small field of tensors: `{"a":{"data":2,"field":["batched",{"keep_on_cpu":false}]}}` as MessagePack.
const OTHER: &str = "gaFhgqRkYXRhAqVmaWVsZJKnYmF0Y2hlZIGra2VlcF9vbl9jcHXC";

/// The members of `features` for an item at the last two of three tokens, by their rows. Its payload is [`OTHER`] with
/// a 1 in place of the 2.
const FEATURES: [(&str, &str); 4] = [
    ("features.mm_hashes", "{\"image\":[\"a\"]}"),
    ("features.mm_placeholders.*[].offset", "1"),
    ("features.mm_placeholders.*[].length", "2"),
    ("features.kwargs_data", "{\"image\":[\"gaFhgqRkYXRhAaVmaWVsZJKnYmF0Y2hlZIGra2VlcF9vbl9jcHXC\"]}"),
];

/// An image for the engine to decode, and where it stands.
const PART: [(&str, &str); 3] = [
    ("token_ids", "[11,1006,13]"),
    ("content_parts[].type", "\"image_url\""),
    ("content_parts[].url", "\"data:image/png;base64,iVBORw0KGgo=\""),
];

/// What a field of media needs beside it to be looked at; nothing for other fields.
pub(super) fn beside(field: &str) -> Vec<(&'static str, &'static str)> {
    let members: &[_] = match field {
        // Under a name of its own, so that nothing is remembered for it.
        "features.kwargs_data" => {
            &[&[("features.mm_hashes", "{\"image\":[\"unseen\"]}")], &FEATURES[1..3]].concat()
        }
        field if field.starts_with("features.") => &FEATURES,
        field if field.starts_with("content_parts[].") => &PART,
        _ => &[],
    };
    let inside = format!("{field}.");
    members.iter().filter(|(other, _)| *other != field && !other.starts_with(&inside)).copied().collect()
}

/// How a request is answered in which such a field is null, and need not be given.
pub(super) fn without(field: &str) -> Expected {
    match field {
        "features.kwargs_data" => Expected::Blames("media_not_cached", field.to_owned()),
        "features.mm_hashes" => Expected::Blames("invalid_value", "features.mm_placeholders".to_owned()),
        _ => Expected::Fine,
    }
}

/// A mistake, its code and the path that is blamed.
struct Mistake {
    body: Vec<(&'static str, String)>,
    code: &'static str,
    param: &'static str,
}

/// Sound media in which one member is something else.
fn wrong(member: &'static str, value: impl Into<String>, param: &'static str) -> Mistake {
    let others = beside(member).into_iter().map(|(name, value)| (name, value.to_owned()));
    Mistake { body: others.chain([(member, value.into())]).collect(), code: "invalid_value", param }
}

impl Mistake {
    fn and(mut self, field: &'static str, value: &str) -> Self {
        self.body.push((field, value.to_owned()));
        self
    }

    fn code(self, code: &'static str) -> Self {
        Self { code, ..self }
    }
}

fn list(count: usize, entry: &str) -> String {
    format!("[{}]", vec![entry; count].join(","))
}

fn shapes() -> Vec<Mistake> {
    let (names, places, payloads) =
        ("features.mm_hashes", "features.mm_placeholders", "features.kwargs_data");
    let place = "{\"offset\":1,\"length\":2}";
    let two = format!("{{\"image\":[{place},{{\"offset\":2,\"length\":1}}]}}");
    vec![
        wrong("features.depths", "{}", "features.depths"),
        wrong(names, "{\"depth\":[\"a\"]}", "features.mm_hashes.depth"),
        wrong(names, "{\"image\":\"a\"}", "features.mm_hashes.image"),
        wrong(names, "{\"image\":[\"a\"],\"image\":[\"b\"]}", "features.mm_hashes.image"),
        wrong(names, "{\"image\":[1]}", "features.mm_hashes.image[0]"),
        wrong(names, "{\"image\":[\"\"]}", "features.mm_hashes.image[0]"),
        wrong(names, format!("{{\"image\":[\"{}\"]}}", "x".repeat(513)), "features.mm_hashes.image[0]"),
        wrong(names, format!("{{\"image\":{}}}", list(65, "\"a\"")), "features.mm_hashes.image"),
        wrong(names, "{\"image\":[\"a\",\"b\"]}", "features.mm_placeholders.image"),
        wrong(names, "{\"video\":[\"a\"]}", "features.mm_placeholders.image"),
        wrong(
            places,
            format!("{{\"image\":[{place}],\"audio\":[{place}]}}"),
            "features.mm_placeholders.audio",
        ),
        wrong(places, format!("{{\"image\":{place}}}"), "features.mm_placeholders.image"),
        wrong(places, "{\"image\":[null]}", "features.mm_placeholders.image[0]"),
        wrong(places, "{\"image\":[[1,2]]}", "features.mm_placeholders.image[0]"),
        wrong(places, two, "features.mm_placeholders.image[1].offset")
            .and(names, "{\"image\":[\"a\",\"b\"]}")
            .and(payloads, &format!("{{\"image\":[\"{OTHER}\",\"{OTHER}\"]}}")),
        wrong("features.mm_placeholders.*[].end", "3", "features.mm_placeholders.image[0].end"),
        wrong(payloads, format!("{{\"image\":[\"{OTHER}\",null]}}"), "features.kwargs_data.image"),
        wrong(payloads, "{}", "features.kwargs_data.image"),
    ]
}

fn payloads() -> Vec<Mistake> {
    let (payloads, metadata) = ("features.kwargs_data", "features.mm_metadata");
    let one = |payload: &str| format!("{{\"image\":[{payload}]}}");
    let of = |payload: &str| wrong(payloads, one(payload), "features.kwargs_data.image[0]");
    let said = |said: &str| wrong(metadata, one(said), "features.mm_metadata.image[0]");
    vec![
        of("null").code("media_not_cached"),
        of("1"),
        of("[1]"),
        of("\"\""),
        of("\"?\""),
        of("\"gaFhgqRkYXRhAaVm_-==\""),
        of("\"gaE\""),
        of("\"gaE=\\n\""),
        said("1"),
        said("\"?\""),
        said(&format!("\"{OTHER}\"")).code("unsupported_parameter"),
        said("\"AAE=\"").code("unsupported_parameter"),
    ]
}

fn parts() -> Vec<Mistake> {
    let (kind, url, uuid) = ("content_parts[].type", "content_parts[].url", "content_parts[].uuid");
    let text = |member: &'static str, value: &str| {
        let param = match member {
            "content_parts[].type" => "content_parts[0].type",
            "content_parts[].url" => "content_parts[0].url",
            _ => "content_parts[0].uuid",
        };
        wrong(member, format!("\"{value}\""), param)
    };
    let flat = "{\"type\":\"image_url\",\"url\":\"http://media.test/\"}";
    vec![
        text(kind, ""),
        text(kind, "image"),
        text(kind, "text"),
        text(kind, "Image_url"),
        text(kind, "depth_url"),
        text(url, ""),
        text(url, "media.test/a.png"),
        text(url, "file:///etc/passwd"),
        text(url, "ftp://media.test/a.png"),
        text(url, " http://media.test/a.png"),
        text(url, "http://media.test/a b.png"),
        text(url, "http://media.test/a\\r\\nb.png"),
        text(url, &format!("http://media.test/{}", "x".repeat(8192))),
        text(uuid, ""),
        text(uuid, &"x".repeat(513)),
        wrong("content_parts[].detail", "\"low\"", "content_parts[0].detail"),
        wrong("content_parts", format!("[{flat},{{\"type\":\"image_url\"}}]"), "content_parts[1].url"),
        wrong("content_parts", list(65, flat), "content_parts"),
    ]
}

/// What is right by itself, and not beside something else.
fn together() -> Vec<Mistake> {
    let flat = "[{\"type\":\"image_url\",\"url\":\"http://media.test/\"}]";
    let tensors = || wrong("features.mm_hashes", "{\"image\":[\"a\"]}", "content_parts");
    vec![
        tensors().and("content_parts", flat),
        wrong("content_parts[].uuid", "\"cat\"", "return_token_ids")
            .and("return_token_ids", "true")
            .code("unsupported_parameter"),
        wrong("content_parts[].uuid", "\"cat\"", "sampling_params.routed_experts_prompt_start")
            .and("sampling_params.routed_experts_prompt_start", "4"),
    ]
}

/// The generate route; the other one takes no media.
const ROUTE: Route = ROUTES[0];

fn bytes(stream: bool, mistake: &Mistake) -> Vec<u8> {
    let fields: Vec<(&str, &str)> =
        mistake.body.iter().map(|(name, value)| (*name, value.as_str())).collect();
    ROUTE.with(stream, &fields)
}

#[tokio::test]
async fn every_mistake_about_media_is_blamed_by_its_path_and_reaches_no_engine() {
    let stage = Stage::set().await;
    stage.engine.forget().await;
    for mistake in shapes().into_iter().chain(payloads()).chain(parts()).chain(together()) {
        for stream in [false, true] {
            let body = bytes(stream, &mistake);
            let about = String::from_utf8_lossy(&body[..body.len().min(400)]).into_owned();
            let reply = Call::post(stage.serve.address, ROUTE.path, &Value::Null).body(body).send().await;
            let error = assert_envelope(&about, &reply);
            let found = (reply.status, error["code"].as_str().unwrap(), error["param"].as_str());
            assert_eq!(found, (400, mistake.code, Some(mistake.param)), "{about}: {error}");
        }
    }
    assert!(stage.engine.journal().await.is_empty());
    stage.assert_unhurt("all of them").await;
}

#[tokio::test]
async fn media_that_the_engine_cannot_use_are_the_clients_mistake_and_its_own_failures_are_not() {
    let engine = MockEngine::start(&["--multimodal"]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    let url = |url: &str| wrong("content_parts[].url", format!("\"{url}\""), "content_parts");
    let mistakes = [
        (url("data:image/png;base64,bm9wZQ=="), "image decode error"),
        (url("data:image/png;base64,@@@@"), "base64 decode error"),
        (url("data:image/png"), "data URL parse error"),
        (
            wrong("content_parts[].type", "\"audio_url\"", "content_parts"),
            "placeholder token 1008 was not found for every item",
        ),
    ];
    let ask = async |mistake: &Mistake, stream| {
        let call = Call::post(serve.address, ROUTE.path, &Value::Null).body(bytes(stream, mistake));
        let reply = call.send().await;
        let error = assert_envelope(mistake.param, &reply);
        (reply, error)
    };
    for (mistake, kind) in &mistakes {
        for stream in [false, true] {
            let (reply, error) = ask(mistake, stream).await;
            let found = (reply.status, error["code"].as_str(), error["param"].as_str());
            assert_eq!(found, (400, Some("invalid_value"), Some(mistake.param)), "{error}");
            let message = format!("content_parts cannot be used by the engine: {kind}");
            assert_eq!(error["message"], message.as_str());
        }
    }
    serve.assert_serves("unhurt").await;
    serve.process.logged("image decode error: the format is not known").await;

    engine.fault(&json!({ "kind": "error", "message": "engine failed during generation" })).await;
    for stream in [false, true] {
        let fine = wrong("content_parts[].uuid", "\"cat\"", "content_parts");
        let (reply, error) = ask(&fine, stream).await;
        assert_eq!((reply.status, error["code"].as_str()), (502, Some("worker_failed")), "{error}");
    }
}

#[tokio::test]
async fn an_engine_whose_model_takes_no_media_is_sent_none() {
    let engine = MockEngine::start(&[]).await;
    let serve = Serve::ready(&[&engine.url()], &[]).await;
    let tensors = wrong("features.mm_hashes", "{\"image\":[\"a\"]}", "features");
    let raw = wrong("content_parts[].uuid", "\"cat\"", "content_parts");
    for mistake in [tensors, raw] {
        for stream in [false, true] {
            let call = Call::post(serve.address, ROUTE.path, &Value::Null).body(bytes(stream, &mistake));
            let reply = call.send().await;
            let error = assert_envelope(mistake.param, &reply);
            let found = (reply.status, error["code"].as_str(), error["param"].as_str());
            assert_eq!(found, (400, Some("invalid_value"), Some(mistake.param)), "{error}");
        }
    }
    assert!(engine.journal().await.is_empty());
}
