use prometheus_client::registry::Registry;
use tito_engine::fake::{self, Fake, FakeControl, Script, last, tokens};
use tito_engine::{BoxEngine, Control};
use tito_fleet::{FleetMetrics, State, Target, Worker};
use tito_kv_index::IndexConfig;
use tito_policy::PolicyKind;
use tito_types::{
    BlockExtras, Capabilities, EngineHash, EngineInfo, Identity, KvEvent, KvNews, KvSupport, Media,
    MediaFeatures, MediaInBlock, Modality, ModelInfo, Parallelism, StoredBlocks, Tier,
};

use super::*;
use crate::TargetLimit;

mod adapters;
mod blocks;
mod booked;
mod clear;
mod down;
mod line;
mod load;
mod raw;
mod rules;
mod tiers;

/// Tokens per block of every engine here.
const BLOCK: u32 = 4;

/// Workers behind a router.
struct Bench {
    blocks: Arc<Blocks>,
    route: Route,
    /// Where the orders to each worker go.
    controls: Vec<FakeControl>,
    sender: watch::Sender<Arc<Snapshot>>,
    registry: Registry,
}

impl Bench {
    /// Workers a, b, c … with one rank each, over these engines.
    fn new(engines: &[Fake]) -> Self {
        Self::with(engines, 1, TargetLimit::Off, PolicyKind::Kv)
    }

    fn with(engines: &[Fake], ranks: u32, limit: TargetLimit, policy: PolicyKind) -> Self {
        let mut registry = Registry::default();
        let controls: Vec<_> = engines.iter().map(|_| FakeControl::default()).collect();
        let blocks = Arc::new(Blocks::new(IndexConfig { bytes_max: 16 << 20 }, 7));
        let fleet_metrics = FleetMetrics::register(&mut registry);
        let names = ["a", "b", "c"].into_iter();
        let worker = |((engine, control), name): ((&Fake, &FakeControl), &str)| {
            let (id, info) = (WorkerId::new(name), info(ranks));
            let targets = Target::of_engine(&blocks, &id, &info, &fleet_metrics);
            let state = State::Ready(BoxEngine::new(engine.clone()));
            let control: Arc<dyn Control> = Arc::new(control.clone());
            let (info, adapters, halt) = (Some(Arc::new(info)), Arc::default(), Arc::default());
            Arc::new(Worker { id, info, adapters, state, control: Some(control), halt, targets })
        };
        let workers = engines.iter().zip(&controls).zip(names).map(worker).collect();
        let (sender, fleet) = watch::channel(Arc::new(Snapshot { workers }));
        let config = RouteConfig {
            target_limit: limit,
            queue_requests_max: 2,
            queue_timeout: Duration::from_secs(5),
            ..RouteConfig::new(policy, 1)
        };
        let metrics = RouteMetrics::register(&mut registry);
        let route = Route::new(fleet, Arc::clone(&blocks), config, metrics);
        Self { blocks, route, controls, sender, registry }
    }

    fn target(&self, worker: usize, rank: usize) -> Arc<Target> {
        Arc::clone(&self.sender.borrow().workers[worker].targets[rank])
    }

    /// Continuations in flight per target.
    fn in_flight(&self) -> Vec<u64> {
        let workers = self.route.workers();
        workers.iter().flat_map(|worker| &worker.targets).map(|target| target.load.in_flight).collect()
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("a string takes it");
        text
    }
}

fn info(ranks: u32) -> EngineInfo {
    EngineInfo {
        engine_version: "0".into(),
        instance_id: "i".into(),
        kv_events: KvSupport::On { replay: true },
        pixels: None,
        identity: Identity {
            model: ModelInfo { source: "s".into(), names: vec!["m".into()], lora: false, multimodal: true },
            parallelism: Parallelism { data: ranks, data_local: ranks, ..Parallelism::default() },
            capabilities: Capabilities::default(),
            max_model_len: 64,
            kv_block_size: BLOCK,
            total_kv_blocks: 400,
            max_running_requests: 8,
            max_batched_tokens: 64,
        },
    }
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
    let bench = Bench::new(engines);
    let mut seen = Vec::new();
    match bench.route.generate(request(delivery)).await {
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
    assert!(bench.in_flight().iter().all(|count| *count == 0), "every load is released");
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
    for (error, said) in [
        (EngineError::Refused("bad".into()), "engine refused the request: bad"),
        (EngineError::Lost(WorkerId::new("x"), "reset".into()), "worker x lost: reset"),
    ] {
        let first = breaking(vec![Err(error)]);
        assert_eq!(outcome(&[first, answering(2)], Delivery::Deltas).await, said, "it was reached");
    }
    let late =
        breaking(vec![Ok(tokens(0, &[7])), Err(EngineError::Lost(WorkerId::new("x"), "reset".into()))]);
    assert_eq!(outcome(&[late, answering(2)], Delivery::Deltas).await, "7 worker x lost: reset");
}

#[tokio::test]
async fn load_is_held_while_the_stream_lives_and_counts_every_continuation() {
    let bench = Bench::new(&[hanging()]);
    let asked = GenerateRequest { n: 3, ..request(Delivery::Deltas) };
    let tokens = bench.route.generate(asked).await.expect("accepted");
    assert_eq!(bench.in_flight(), [3]);
    drop(tokens);
    assert_eq!(bench.in_flight(), [0]);
}

#[tokio::test]
async fn the_rank_is_said_to_engines_that_have_several_and_to_others_only_when_pinned() {
    for (ranks, pinned, said) in
        [(1, None, None), (1, Some(0), Some(0)), (2, None, Some(0)), (2, Some(1), Some(1))]
    {
        let engine = answering(1);
        let bench = Bench::with(std::slice::from_ref(&engine), ranks, TargetLimit::Off, PolicyKind::Kv);
        let asked = GenerateRequest { rank: pinned, ..request(Delivery::Deltas) };
        let tokens = bench.route.generate(asked).await.expect("accepted");
        let placed = tokens.placement().expect("it was placed").rank;
        assert_eq!((engine.seen()[0].rank, placed), (said, said), "{ranks} ranks, pinned to {pinned:?}");
    }
}

#[tokio::test]
async fn an_impossible_pin_is_refused_with_what_is_possible() {
    let refusal = async |ranks, policy, rank, worker: Option<&str>| {
        let bench = Bench::with(&[answering(1), answering(2)], ranks, TargetLimit::Off, policy);
        let worker = worker.map(WorkerId::new);
        let asked = GenerateRequest { rank, worker, ..request(Delivery::Deltas) };
        match bench.route.generate(asked).await {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    let kv = PolicyKind::Kv;
    assert_eq!(refusal(4, kv, Some(3), Some("b")).await, "accepted");
    assert_eq!(
        refusal(4, kv, Some(4), None).await,
        "x-data-parallel-rank: rank 4 does not exist; valid: 0 to 3"
    );
    assert_eq!(
        refusal(1, kv, None, Some("z")).await,
        "x-tito-worker: worker z does not serve the request; valid: a, b"
    );
    assert_eq!(
        refusal(1, PolicyKind::Direct, None, None).await,
        "x-tito-worker: the direct policy needs a worker or a rank"
    );
    assert_eq!(refusal(1, PolicyKind::Direct, Some(0), None).await, "accepted");
}
