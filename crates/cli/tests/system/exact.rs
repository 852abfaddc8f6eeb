//! Exact routing, from the client's side: distinct media and salts are distinct prefixes, repeats return to the engine
//! that holds them, and the engine reports exactly the cached tokens that were predicted.
//!
//! The engines are simulated unless `TITO_EXACT_ENGINES` names real ones, as `cargo xtask conformance --engine vl` and
//! `--engine dp2` do.

mod adapters;
mod ranks;
mod raw;

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{EVENTS, GENERATE, MockEngine, Reply, Serve, tensors, three_blocks, wait_for};

/// A vocabulary's image placeholder; four of them stand for one image of the recordings.
pub(crate) const IMAGE_PAD: u32 = 1006;
/// Where the image begins: after some text, so that its offset matters.
const OFFSET: usize = 5;
const PLACEHOLDERS: usize = 4;
/// Tokens of the blocks that [`three_blocks`] fills.
const FULL: u64 = 96;

/// Engines to route over, and those of them that are simulated.
pub(crate) struct Engines {
    urls: Vec<String>,
    pub(crate) mocks: Vec<MockEngine>,
}

impl Engines {
    /// As many engines as `mocks`, each with its arguments, unless real ones are named.
    #[expect(clippy::disallowed_methods, reason = "real engines are named for the whole suite")]
    async fn of(mocks: &[&[&str]]) -> Self {
        if let Ok(named) = std::env::var("TITO_EXACT_ENGINES") {
            let urls = named.split(',').map(|engine| format!("vllm://{engine}")).collect();
            return Self { urls, mocks: Vec::new() };
        }
        Self::simulated(mocks).await
    }

    /// Simulated engines, each with its arguments.
    pub(crate) async fn simulated(mocks: &[&[&str]]) -> Self {
        let mut started = Vec::new();
        for args in mocks {
            started.push(MockEngine::of_model("vl", &[EVENTS, args].concat()).await);
        }
        Self { urls: started.iter().map(MockEngine::url).collect(), mocks: started }
    }

    /// The simulated engine behind a worker.
    fn mock(&self, worker: &str) -> &MockEngine {
        self.mocks.iter().find(|mock| mock.grpc.to_string() == worker).unwrap()
    }

    /// `tito serve` in front of them, with what every target holds known.
    pub(crate) async fn served(&self, args: &[&str]) -> Serve {
        let urls: Vec<&str> = self.urls.iter().map(String::as_str).collect();
        let serve = Serve::ready(&urls, args).await;
        serve.wait_complete(urls.len()).await;
        serve
    }
}

/// What is known of the blocks of each target of every worker.
async fn indexes(serve: &Serve) -> Vec<Value> {
    let targets = |worker: &Value| worker["targets"].as_array().unwrap().clone();
    serve.workers().await.iter().flat_map(targets).map(|target| target["index"].clone()).collect()
}

/// What `X-Tito-Route` says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    pub(crate) worker: String,
    rank: Option<u32>,
    pub(crate) overlap: u64,
}

pub(crate) fn told(reply: &Reply) -> Told {
    let route = reply.headers["x-tito-route"].to_str().unwrap();
    let field = |name: &str| {
        route.split("; ").find_map(|part| part.strip_prefix(name)).unwrap_or_else(|| panic!("{route}"))
    };
    Told {
        worker: field("worker=").to_owned(),
        rank: route.contains("rank=").then(|| field("rank=").parse().ok()).flatten(),
        overlap: field("overlap=").parse().unwrap(),
    }
}

pub(crate) fn cached(reply: &Reply) -> u64 {
    reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

/// Posts a body and asks where it went.
pub(crate) async fn ask(serve: &Serve, body: &Value) -> (Reply, Told) {
    let reply = serve.post(GENERATE, body).header("X-Tito-Explain", "1").send().await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let told = told(&reply);
    (reply, told)
}

/// Waits until the events of a request are applied: a dry run of it finds that many tokens on that worker.
pub(crate) async fn wait_held(serve: &Serve, body: &Value, worker: &str, tokens: u64) {
    wait_for(&format!("{worker} to be known to hold {tokens} tokens"), async || {
        let told = serve.post("/debug/route", body).send().await.json();
        let candidates = told["routes"][0]["candidates"].as_array().unwrap().clone();
        let holds = |candidate: &Value| {
            candidate["worker"] == worker && candidate["overlap_tokens"].as_u64() == Some(tokens)
        };
        candidates.iter().any(holds).then_some(())
    })
    .await;
}

/// A prompt of three blocks, unlike those with another `seed`, with an image near its start.
fn with_image(seed: u32, payload: &str, salt: Option<&str>) -> Value {
    let mut body = three_blocks(seed);
    body["token_ids"].as_array_mut().unwrap()[OFFSET..OFFSET + PLACEHOLDERS].fill(json!(IMAGE_PAD));
    body["features"] = json!({
        "mm_hashes": {"image": ["an-image"]},
        "mm_placeholders": {"image": [{"offset": OFFSET, "length": PLACEHOLDERS}]},
        "kwargs_data": {"image": [payload]},
    });
    body["cache_salt"] = json!(salt);
    body
}

#[tokio::test]
async fn distinct_images_and_salts_are_distinct_prefixes_and_repeats_return_to_theirs() {
    let engines = Engines::of(&[&["--multimodal"], &["--multimodal"]]).await;
    let serve = engines.served(&[]).await;
    let images = ["media-features", "media-features-b"].map(|recording| STANDARD.encode(tensors(recording)));
    let bodies: Vec<(usize, Option<&str>, Value)> = [None, Some("policy-7")]
        .into_iter()
        .flat_map(|salt| [(0, salt), (1, salt)])
        .map(|(image, salt)| (image, salt, with_image(0, &images[image], salt)))
        .collect();

    let mut homes = Vec::new();
    for (image, salt, body) in &bodies {
        let (reply, told) = ask(&serve, body).await;
        assert_eq!((told.overlap, cached(&reply)), (0, 0), "image {image}, salt {salt:?}: nothing is shared");
        wait_held(&serve, body, &told.worker, FULL).await;
        homes.push(told.worker);
    }
    for salt in [None, Some("policy-7")] {
        let of_salt = bodies.iter().zip(&homes).filter(|((_, other, _), _)| *other == salt);
        let warmed: BTreeSet<&String> = of_salt.map(|(_, home)| home).collect();
        assert_eq!(warmed.len(), 2, "images with salt {salt:?} warm engines of their own: {homes:?}");
    }
    for ((image, salt, body), home) in bodies.iter().zip(&homes) {
        let (reply, told) = ask(&serve, body).await;
        assert_eq!(&told.worker, home, "image {image}, salt {salt:?} returns");
        assert_eq!((told.overlap, cached(&reply)), (FULL, FULL), "image {image}, salt {salt:?}");
    }
    let known = indexes(&serve).await;
    assert!(known.iter().all(|index| index["media"] == "exact" && index["inexact"].is_null()), "{known:?}");
    serve.wait_metric("tito_router_cache_reports_total", &["result=\"equal\""], 8.0).await;
}
