use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::Stream;
use prometheus_client::registry::Registry;
use tito_engine::fake::{Fake, FakeControl, Script};
use tito_types::{Capabilities, EngineError, ModelInfo, Parallelism, Resolution};

use tito_kv_index::IndexConfig;

use super::*;
use crate::TargetId;

mod again;
mod load;
mod lost;

/// What an engine answers at each attempt to connect: an error, or an identity.
type Attempts = Vec<Result<Identity, &'static str>>;

struct Scripted {
    id: WorkerId,
    attempts: Mutex<Attempts>,
    /// Notified to make the present connection end.
    cut: Arc<tokio::sync::Notify>,
    connects: Arc<AtomicUsize>,
    control: FakeControl,
    /// What every engine has loaded.
    adapters: watch::Receiver<Vec<Adapter>>,
    /// What every engine says it has to do.
    loads: watch::Receiver<Vec<EngineLoad>>,
}

impl Connector for Scripted {
    fn worker(&self) -> &WorkerId {
        &self.id
    }

    async fn connect(&self) -> Result<Connection, EngineError> {
        let at = self.connects.fetch_add(1, Ordering::SeqCst);
        let attempt = {
            let attempts = self.attempts.lock().expect("no test panics while holding it");
            attempts[at.min(attempts.len() - 1)].clone()
        };
        let identity = attempt.map_err(|reason| EngineError::Connect(self.id.clone(), reason.into()))?;
        let cut = Arc::clone(&self.cut);
        let mut adapters = self.adapters.clone();
        let loaded = adapters.borrow_and_update().clone();
        let info = EngineInfo {
            engine_version: "0".into(),
            instance_id: format!("i{at}"),
            kv_events: tito_types::KvSupport::Off(String::new()),
            pixels: None,
            identity,
        };
        Ok(Connection {
            info,
            engine: BoxEngine::new(Fake::new(|_| Script::default())),
            control: Arc::new(self.control.clone()),
            kv: Box::pin(futures_util::stream::pending()),
            adapters: loaded,
            adapter_feed: Box::pin(changes(adapters)),
            load_feed: Box::pin(changes(self.loads.clone()).map(|loads| {
                let problem = loads.is_empty().then(|| "it does not answer".to_owned());
                LoadNews { loads, problem }
            })),
            lost: Box::pin(async move {
                cut.notified().await;
                "cut".to_owned()
            }),
        })
    }
}

/// Each value after the present one.
fn changes<T: Clone + Send + Sync + 'static>(values: watch::Receiver<T>) -> impl Stream<Item = T> + Send {
    futures_util::stream::unfold(values, |mut values| async move {
        values.changed().await.ok()?;
        let now = values.borrow_and_update().clone();
        Some((now, values))
    })
}

fn identity(name: &str, max_model_len: u32) -> Identity {
    Identity {
        model: ModelInfo { source: "s".into(), names: vec![name.into()], lora: false, multimodal: false },
        parallelism: Parallelism { data: 1, data_local: 1, ..Parallelism::default() },
        capabilities: Capabilities::default(),
        max_model_len,
        kv_block_size: 16,
        total_kv_blocks: 100,
        max_running_requests: 8,
        max_batched_tokens: 64,
    }
}

struct Running {
    snapshot: watch::Receiver<Arc<Snapshot>>,
    catalog: watch::Receiver<Arc<Catalog>>,
    cut: Arc<tokio::sync::Notify>,
    connects: Arc<AtomicUsize>,
    control: FakeControl,
    blocks: Arc<Blocks>,
    adapters: watch::Sender<Vec<Adapter>>,
    loads: watch::Sender<Vec<EngineLoad>>,
    said: watch::Receiver<()>,
    registry: Registry,
    task: tokio::task::JoinHandle<()>,
    stop: CancellationToken,
}

#[expect(clippy::disallowed_methods, reason = "the test owns and joins the one task")]
fn run(workers: Vec<(&str, Attempts)>) -> Running {
    let (cut, connects) = (Arc::new(tokio::sync::Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (adapters, loads) = (watch::Sender::new(Vec::new()), watch::Sender::new(Vec::new()));
    let control = FakeControl::default();
    let connectors = workers
        .into_iter()
        .map(|(id, attempts)| Scripted {
            id: WorkerId::new(id),
            attempts: Mutex::new(attempts),
            cut: Arc::clone(&cut),
            connects: Arc::clone(&connects),
            control: control.clone(),
            adapters: adapters.subscribe(),
            loads: loads.subscribe(),
        })
        .collect();
    let config = FleetConfig { retry_min: Duration::from_secs(1), retry_max: Duration::from_secs(8) };
    let mut registry = Registry::default();
    let metrics = FleetMetrics::register(&mut registry);
    let blocks = Arc::new(Blocks::new(IndexConfig { bytes_max: 16 << 20 }, 7));
    let fleet = Fleet::new(config, connectors, Box::new(|_, engine| engine), Arc::clone(&blocks), metrics);
    let (snapshot, catalog, said) = (fleet.snapshot(), fleet.catalog(), fleet.loads());
    let stop = CancellationToken::new();
    let task = tokio::spawn(fleet.run(stop.clone()));
    Running { snapshot, catalog, cut, connects, control, blocks, adapters, loads, said, registry, task, stop }
}

impl Running {
    /// Waits until the states read so, "a=ready b=unreachable".
    async fn wait_for(&mut self, expected: &str) {
        let shown = |snapshot: &Arc<Snapshot>| {
            let words =
                snapshot.workers.iter().map(|worker| format!("{}={}", worker.id, worker.state.word()));
            words.collect::<Vec<_>>().join(" ")
        };
        let seen = tokio::time::timeout(
            Duration::from_secs(3600),
            self.snapshot.wait_for(|snapshot| shown(snapshot) == expected),
        );
        assert!(seen.await.is_ok(), "never saw {expected}, but {}", shown(&self.snapshot.borrow()));
    }

    /// The engines have these adapters now, by number of the load; returns when the fleet knows.
    async fn load(&mut self, adapters: &[(&str, u64, &str)]) {
        let adapter = |&(name, id, source): &(&str, u64, &str)| Adapter {
            name: name.to_owned(),
            id,
            source: source.to_owned(),
        };
        let adapters: Vec<_> = adapters.iter().map(adapter).collect();
        self.adapters.send_replace(adapters.clone());
        let known = self
            .snapshot
            .wait_for(|snapshot| snapshot.workers.iter().all(|worker| *worker.adapters == *adapters));
        let known = tokio::time::timeout(Duration::from_secs(3600), known).await;
        assert!(known.is_ok(), "the fleet never knew of {adapters:?}");
    }

    /// The engines say that their ranks run so many requests; what the first worker's targets then know of it.
    async fn say(&mut self, loads: &[(u32, u32)]) -> Vec<Option<u32>> {
        let load = |&(rank, running): &(u32, u32)| EngineLoad { rank, running, waiting: 0, kv_usage: 0.5 };
        self.loads.send_replace(loads.iter().map(load).collect());
        let said = tokio::time::timeout(Duration::from_secs(3600), self.said.changed()).await;
        assert!(said.is_ok_and(|said| said.is_ok()), "the fleet never told of {loads:?}");
        self.known_loads()
    }

    fn known_loads(&self) -> Vec<Option<u32>> {
        let targets = self.snapshot.borrow().workers[0].targets.clone();
        targets.iter().map(|target| target.told_load().map(|told| told.load.running)).collect()
    }

    /// How often the first worker's targets saw an adapter loaded again.
    fn generations(&self, name: &str) -> Vec<u64> {
        let snapshot = self.snapshot.borrow();
        snapshot.workers[0].targets.iter().map(|target| target.generations().of(name)).collect()
    }

    /// Every worker's adapters, as the snapshot has them.
    fn adapters(&self) -> Vec<String> {
        let snapshot = self.snapshot.borrow();
        let loaded = |worker: &Arc<Worker>| {
            worker
                .adapters
                .iter()
                .map(|adapter| format!("{}: {}", worker.id, adapter.name))
                .collect::<Vec<_>>()
        };
        snapshot.workers.iter().flat_map(loaded).collect()
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("the fleet does not panic");
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_not_there_yet_is_tried_again_with_growing_pauses() {
    let mut fleet =
        run(vec![("a", vec![Err("refused"), Err("refused"), Err("refused"), Ok(identity("m", 8))])]);
    let began = tokio::time::Instant::now();
    fleet.wait_for("a=ready").await;
    assert_eq!(began.elapsed().as_secs(), 1 + 2 + 4);
    assert!(matches!(fleet.catalog.borrow().resolve(None), Resolution::Served("m", _)));
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_engine_leaves_at_once_and_its_model_stays_known() {
    let mut fleet = run(vec![("a", vec![Ok(identity("m", 8)), Err("gone")])]);
    fleet.wait_for("a=ready").await;
    fleet.cut.notify_one();
    fleet.wait_for("a=unreachable").await;
    let catalog = fleet.catalog.borrow().clone();
    assert_eq!(catalog.resolve(Some("m")), Resolution::Unavailable);
    assert_eq!(catalog.resolve(Some("other")), Resolution::Unknown);
    assert_eq!(catalog.routable().count(), 0);
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_returning_engine_has_to_be_the_same_and_its_targets_are_new_ones() {
    let same = run(vec![("a", vec![Ok(identity("m", 8)), Ok(identity("m", 8))])]);
    let mut fleet = same;
    fleet.wait_for("a=ready").await;
    let ids = |snapshot: &Snapshot| -> Vec<TargetId> {
        snapshot.workers.iter().flat_map(|worker| &worker.targets).map(|target| target.id).collect()
    };
    let before = ids(&fleet.snapshot.borrow());
    fleet.cut.notify_one();
    fleet.wait_for("a=unreachable").await;
    assert_eq!(ids(&fleet.snapshot.borrow()), []);
    fleet.wait_for("a=ready").await;
    let after = ids(&fleet.snapshot.borrow());
    assert_eq!((before.len(), after.len()), (1, 1));
    assert_ne!(before, after);
    fleet.stop().await;

    let mut fleet = run(vec![("a", vec![Ok(identity("m", 8)), Ok(identity("m", 16)), Ok(identity("m", 8))])]);
    fleet.wait_for("a=ready").await;
    fleet.cut.notify_one();
    fleet.wait_for("a=refused").await;
    let reason = fleet.snapshot.borrow().workers[0].state.reason().map(str::to_owned);
    assert_eq!(reason.as_deref(), Some("identity changed: max_model_len was 8 and is 16"));
    fleet.cut.notify_one();
    fleet.wait_for("a=ready").await;
    assert_eq!(fleet.connects.load(Ordering::SeqCst), 3);
    fleet.stop().await;
}

#[test]
fn all_of_an_identity_but_the_number_of_its_blocks_has_to_stay() {
    let was = identity("m", 8);
    let check = |is: Identity, expected: Option<&str>| {
        assert_eq!(Change::between(&was, &is).map(|change| change.field), expected, "{is:?}");
    };
    let parallelism = Parallelism { data: 2, ..was.parallelism };
    let capabilities = Capabilities { max_loras: 1, ..Capabilities::default() };
    check(Identity { total_kv_blocks: 99, ..was.clone() }, None);
    check(identity("other", 8), Some("model"));
    check(Identity { parallelism, ..was.clone() }, Some("parallelism"));
    check(Identity { capabilities, ..was.clone() }, Some("capabilities"));
    check(identity("m", 9), Some("max_model_len"));
    check(Identity { kv_block_size: 32, ..was.clone() }, Some("kv_block_size"));
    check(Identity { max_running_requests: 9, ..was.clone() }, Some("max_running_requests"));
    check(Identity { max_batched_tokens: 65, ..was.clone() }, Some("max_batched_tokens"));
}

#[tokio::test(start_paused = true)]
async fn engines_of_one_model_make_one_entry_with_limits_that_hold_on_all() {
    let named = |name: &str, alias: &str, max_model_len| {
        let mut identity = identity(name, max_model_len);
        identity.model.names.push(alias.into());
        vec![Ok(identity)]
    };
    let mut fleet = run(vec![
        ("a", named("m", "x", 8)),
        ("b", named("m", "y", 4)),
        ("c", named("k", "x", 2)),
        ("d", vec![Err("down")]),
    ]);
    fleet.wait_for("a=ready b=ready c=ready d=unreachable").await;
    let catalog = fleet.catalog.borrow().clone();
    let entries: Vec<_> =
        catalog.routable().map(|model| (model.names.join(" "), model.max_model_len)).collect();
    assert_eq!(entries, [("m x y".to_owned(), 4), ("k x".to_owned(), 2)]);
    assert_eq!(catalog.resolve(None), Resolution::Ambiguous);
    assert_eq!(catalog.reasons, ["worker d is unreachable: worker d not reached: down"]);
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn adapters_are_models_while_they_are_loaded() {
    let mut fleet =
        run(vec![("a", vec![Ok(identity("m", 8)), Err("gone")]), ("b", vec![Ok(identity("m", 4))])]);
    fleet.wait_for("a=ready b=ready").await;
    fleet.load(&[("ad", 3, "org/ad")]).await;
    let catalog = fleet.catalog.borrow().clone();
    let Resolution::Served(_, entry) = catalog.resolve(Some("ad")) else { panic!("{catalog:?}") };
    assert_eq!(
        (entry.parent.as_deref(), entry.source.as_str(), entry.max_model_len),
        (Some("m"), "org/ad", 4)
    );
    assert!(matches!(catalog.resolve(None), Resolution::Served("m", _)), "adapters are asked for by name");
    assert_eq!(fleet.adapters(), ["a: ad", "b: ad"]);
    fleet.load(&[]).await;
    assert_eq!(fleet.catalog.borrow().resolve(Some("ad")), Resolution::Unknown);
    assert!(fleet.adapters().is_empty());
    fleet.stop().await;

    let mut fleet = run(vec![("a", vec![Ok(identity("m", 8)), Err("gone")])]);
    fleet.wait_for("a=ready").await;
    fleet.load(&[("ad", 3, "org/ad")]).await;
    fleet.cut.notify_one();
    fleet.wait_for("a=unreachable").await;
    assert_eq!(fleet.catalog.borrow().resolve(Some("ad")), Resolution::Unavailable);
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reload_and_other_weights_in_place_are_another_generation_and_a_new_connection_starts_over() {
    let mut fleet = run(vec![("a", vec![Ok(identity("m", 8))])]);
    fleet.wait_for("a=ready").await;
    fleet.load(&[("ad", 3, "org/1")]).await;
    assert_eq!(fleet.generations("ad"), [0]);
    fleet.load(&[]).await;
    fleet.load(&[("ad", 3, "org/1")]).await;
    assert_eq!(fleet.generations("ad"), [0], "the same load");
    fleet.load(&[("ad", 4, "org/1"), ("b", 1, "org/b")]).await;
    assert_eq!((fleet.generations("ad"), fleet.generations("b")), (vec![1], vec![0]));
    fleet.load(&[("ad", 4, "org/2"), ("b", 1, "org/b")]).await;
    assert_eq!((fleet.generations("ad"), fleet.generations("b")), (vec![2], vec![0]));
    fleet.cut.notify_one();
    fleet.wait_for("a=unreachable").await;
    fleet.wait_for("a=ready").await;
    assert_eq!(fleet.generations("ad"), [0], "targets are new, and hold nothing");
    assert_eq!(fleet.adapters(), ["a: ad", "a: b"], "adapters are known from the first moment");
    fleet.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_we_paused_is_told_to_go_on_until_it_does_or_is_another_one() {
    let mut fleet = run(vec![("a", vec![Ok(identity("m", 8))])]);
    fleet.wait_for("a=ready").await;
    let worker = || Arc::clone(&fleet.snapshot.borrow().workers[0]);
    assert_eq!(worker().clear_cache(&fleet.blocks, || ()).await, Ok(()));
    fleet.control.hang();
    let (first, blocks) = (worker(), Arc::clone(&fleet.blocks));
    let dropped = tokio::time::timeout(Duration::from_secs(5), first.clear_cache(&blocks, || ())).await;
    assert!(dropped.is_err() && fleet.control.paused());
    (0..3).for_each(|_| fleet.control.fail(EngineError::Deadline(WorkerId::new("a"))));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(fleet.control.paused() && first.halt.halted(), "it does not answer");
    fleet.cut.notify_one();
    fleet.wait_for("a=unreachable").await;
    fleet.wait_for("a=ready").await;
    tokio::time::timeout(Duration::from_secs(60), first.halt.idle()).await.unwrap();
    assert!(fleet.control.paused(), "it is another process: what is paused there is none of ours");
    fleet.stop().await;
}
