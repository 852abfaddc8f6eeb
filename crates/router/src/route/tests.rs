use prometheus_client::registry::Registry;
use tito_engine::BoxEngine;
use tito_engine::fake::{self, Fake, Script, last, tokens};
use tito_fleet::{Load, Worker};
use tito_types::{Capabilities, Delivery, EngineInfo, Identity, KvSupport, ModelInfo, Parallelism};

use super::*;

/// A worker that serves `model`; without an engine it is unreachable.
pub(crate) fn worker(id: &str, model: &str, engine: Option<Fake>) -> Worker {
    let identity = Identity {
        model: ModelInfo { source: "s".into(), names: vec![model.into()], lora: false, multimodal: false },
        parallelism: Parallelism { data: 1, data_local: 1, ..Parallelism::default() },
        capabilities: Capabilities::default(),
        max_model_len: 64,
        kv_block_size: 16,
        total_kv_blocks: 4,
        max_running_requests: 8,
        max_batched_tokens: 64,
    };
    let info = EngineInfo {
        engine_version: "0".into(),
        instance_id: "i".into(),
        kv_events: KvSupport::Off(String::new()),
        pixels: None,
        identity,
    };
    let state = match engine {
        Some(engine) => State::Ready(BoxEngine::new(engine)),
        None => State::Unreachable("down".into()),
    };
    Worker { id: WorkerId::new(id), info: Some(Arc::new(info)), state, load: Load::default() }
}

/// An engine that accepts and stays silent.
pub(crate) fn hanging() -> Fake {
    Fake::new(|_| Script { hang: true, ..Script::default() })
}

fn unreached() -> EngineError {
    EngineError::Connect(WorkerId::new("x"), "refused".into())
}

fn answering(token: u32) -> Fake {
    Fake::new(move |_| Script {
        items: vec![Ok(tokens(0, &[token])), Ok(last(0, &[token], 2))],
        ..Script::default()
    })
}

fn refusing(error: EngineError) -> Fake {
    Fake::new(move |_| Script { refuse: Some(error.clone()), ..Script::default() })
}

fn breaking(items: Vec<Result<Delta, EngineError>>) -> Fake {
    Fake::new(move |_| Script { items: items.clone(), ..Script::default() })
}

fn request(delivery: Delivery) -> GenerateRequest {
    GenerateRequest { delivery, ..fake::request(&[1]) }
}

/// Sends one request over workers a, b, c … and says what came: tokens, or the error.
async fn outcome(engines: &[Fake], delivery: Delivery) -> String {
    let names = ["a", "b", "c"];
    let workers: Vec<_> = engines
        .iter()
        .zip(names)
        .map(|(engine, name)| Arc::new(worker(name, "m", Some(engine.clone()))))
        .collect();
    let loads: Vec<_> = workers.iter().map(|worker| worker.load.clone()).collect();
    let (_sender, fleet) = watch::channel(Arc::new(Snapshot { workers }));
    let route = Route::new(fleet, RouteMetrics::register(&mut Registry::default()));
    let mut seen = Vec::new();
    match route.generate(request(delivery)).await {
        Err(error) => seen.push(error.to_string()),
        Ok(mut tokens) => {
            while let Some(item) = TokenStream::next(&mut tokens).await {
                match item {
                    Ok(delta) => seen.extend(delta.token_ids.iter().map(ToString::to_string)),
                    Err(error) => seen.push(error.to_string()),
                }
            }
        }
    }
    assert!(loads.iter().all(|load| load.in_flight() == 0), "every load is released");
    seen.join(" ")
}

#[tokio::test]
async fn a_first_contact_that_fails_goes_to_another_worker_once() {
    for delivery in [Delivery::Whole, Delivery::Deltas] {
        let down = || refusing(unreached());
        assert_eq!(outcome(&[answering(1)], delivery).await, "1 1");
        assert_eq!(outcome(&[down(), answering(2)], delivery).await, "2 2");
        assert_eq!(outcome(&[down(), down(), answering(3)], delivery).await, "worker x not reached: refused");
        assert_eq!(outcome(&[down()], delivery).await, "worker x not reached: refused");
        assert_eq!(outcome(&[], delivery).await, "no worker: none is ready for m");
        let refused = refusing(EngineError::Refused("bad".into()));
        assert_eq!(
            outcome(&[refused, answering(2)], delivery).await,
            "engine refused the request: bad",
            "what another worker would say too is not asked twice"
        );
    }
}

#[tokio::test]
async fn a_worker_that_goes_before_its_first_delta_is_a_failed_contact_and_one_that_goes_later_is_not() {
    let early = || breaking(vec![Err(unreached())]);
    // An engine may stream what was asked for as a whole.
    for delivery in [Delivery::Whole, Delivery::Deltas] {
        assert_eq!(outcome(&[early(), answering(2)], delivery).await, "2 2");
    }
    assert_eq!(
        outcome(&[early(), early(), answering(3)], Delivery::Deltas).await,
        "worker x not reached: refused"
    );
    assert_eq!(outcome(&[early()], Delivery::Deltas).await, "worker x not reached: refused");
    let late =
        breaking(vec![Ok(tokens(0, &[7])), Err(EngineError::Lost(WorkerId::new("x"), "reset".into()))]);
    assert_eq!(outcome(&[late, answering(2)], Delivery::Deltas).await, "7 worker x lost: reset");
}

#[tokio::test]
async fn load_is_held_while_the_stream_lives_and_counts_every_continuation() {
    let one = Arc::new(worker("a", "m", Some(hanging())));
    let load = one.load.clone();
    let (_sender, fleet) = watch::channel(Arc::new(Snapshot { workers: vec![one] }));
    let route = Route::new(fleet, RouteMetrics::register(&mut Registry::default()));
    let asked = GenerateRequest { n: 3, ..request(Delivery::Deltas) };
    let tokens = route.generate(asked).await.expect("accepted");
    assert_eq!(load.in_flight(), 3);
    drop(tokens);
    assert_eq!(load.in_flight(), 0);
}
