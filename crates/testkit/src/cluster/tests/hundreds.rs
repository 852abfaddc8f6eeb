use std::collections::BTreeSet;

use tito_mock::{Exit, Fault, FaultSpec, KvEventsConfig, RequestState};
use tito_test_support::wait::wait_until;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::*;

const ENGINES: usize = 200;
/// Requests that run at a time, per engine.
const EACH: usize = 2;

fn config() -> MockConfig {
    let events = r#"{"enable_kv_cache_events":true,"endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0"}"#;
    MockConfig { kv_events: Some(KvEventsConfig::parse(events).unwrap()), ..MockConfig::new() }
}

/// What each engine was asked and how that stands, without what was asked elsewhere.
fn journals(cluster: &Cluster) -> Vec<Vec<RequestState>> {
    let states = |mock: &RunningMock| mock.handle().requests().iter().map(|entry| entry.state()).collect();
    cluster.mocks().iter().map(states).collect()
}

/// Resident memory of this process as the kernel words it, where it does.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap_or("unknown").trim().to_owned()
}

#[tokio::test]
async fn hundreds_of_engines_are_one_fleet_that_shares_the_work_and_ends_clean() {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let (idle, began) = (tasks(), Instant::now());
    let admission = AdmitConfig { in_flight_max: 4_096, ..admission() };
    let cluster = Cluster::start(vec![config(); ENGINES], admission).await;
    let complete = |worker: &Arc<Worker>| worker.targets.iter().all(|target| target.complete());
    let all_complete = || cluster.snapshot.borrow().workers.iter().all(complete);
    wait_until("every block table known", all_complete).await;
    println!("{ENGINES} engines known after {:?}, {} resident", began.elapsed(), resident());

    let snapshot = Arc::clone(&cluster.snapshot.borrow());
    assert_eq!(ready(&snapshot), ENGINES);
    let ids: BTreeSet<_> = snapshot.workers.iter().map(|worker| worker.id.clone()).collect();
    assert_eq!(ids.len(), ENGINES);
    let models: Vec<Vec<String>> =
        cluster.catalog().borrow().models.iter().map(|model| model.names.clone()).collect();
    assert_eq!(models, [["mock"]], "one model of many engines");

    for mock in cluster.mocks() {
        mock.handle().add_fault(FaultSpec::new(Fault::Stall { at_token: 1 })).unwrap();
    }
    let mut streams = Vec::new();
    for number in 0..ENGINES * EACH {
        let mut request = request(1);
        // No prefix in common: nothing but load decides.
        request.prompt = (number as u32..).take(40).collect();
        let mut stream = cluster.engine().generate(request).await.unwrap();
        stream.next().await.expect("a first delta").unwrap();
        streams.push(stream);
    }
    assert_eq!(journals(&cluster), vec![vec![RequestState::Running; EACH]; ENGINES]);
    drop(streams);
    let ended = || journals(&cluster).iter().flatten().all(|state| matches!(state, RequestState::Aborted(_)));
    wait_until("every request aborted at its engine", ended).await;
    println!("{} requests later {} resident", ENGINES * EACH, resident());

    cluster.drain();
    assert_eq!(generate(&cluster, request(1)).await, Err(EngineError::Draining));
    drop(snapshot);
    for mock in mocks_alone(cluster) {
        assert_eq!(mock.stop().await.unwrap(), Exit::Stopped);
    }
    wait_until("every task at its end", || tasks() == idle).await;
}

/// The engines, after everything around them has ended.
fn mocks_alone(cluster: Cluster) -> Vec<RunningMock> {
    let Cluster { mocks, .. } = cluster;
    mocks
}
