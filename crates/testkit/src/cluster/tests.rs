mod hundreds;

use tito_engine::{Engine, fake};
use tito_types::{EngineError, FinishReason, GenerateRequest, Sampling, Stopping};

use super::*;

fn admission() -> AdmitConfig {
    AdmitConfig { in_flight_max: 64, queue_requests_max: 64, queue_timeout: Duration::from_secs(30) }
}

fn request(n: u32) -> GenerateRequest {
    GenerateRequest {
        model: "mock".to_owned(),
        n,
        sampling: Sampling { temperature: Some(0.0), ..Sampling::default() },
        stopping: Stopping { max_tokens: Some(5), ignore_eos: true, ..Stopping::default() },
        ..fake::request(&[1, 2, 3])
    }
}

/// Tokens per choice, after every choice was seen to end with `length`.
async fn generate(cluster: &Cluster, request: GenerateRequest) -> Result<Vec<Vec<u32>>, EngineError> {
    let mut choices = vec![Vec::new(); request.n as usize];
    let mut stream = cluster.engine().generate(request).await?;
    while let Some(delta) = stream.next().await {
        let delta = delta?;
        choices[delta.index as usize].extend(delta.token_ids);
        if let Some(finish) = delta.finish {
            assert_eq!(finish.reason, FinishReason::Length);
        }
    }
    Ok(choices)
}

#[tokio::test]
async fn requests_go_through_every_layer_to_any_engine() {
    let cluster = Cluster::start(vec![MockConfig::new(), MockConfig::new()], admission()).await;
    let one = generate(&cluster, request(1)).await.unwrap();
    assert_eq!(one[0].len(), 5);
    let three = generate(&cluster, request(3)).await.unwrap();
    assert_eq!(three, [one[0].clone(), one[0].clone(), one[0].clone()], "greedy children agree");
    let served: usize = cluster.mocks().iter().map(|mock| mock.handle().requests().len()).sum();
    assert_eq!(served, 4, "the engines' journals hold one entry per continuation");
    cluster.drain();
    assert_eq!(generate(&cluster, request(1)).await, Err(EngineError::Draining));
}

/// More than an HTTP/2 connection takes for the fault of its peer, in several rounds: what still arrives for a stream that
/// was dropped is nobody's fault.
#[tokio::test]
async fn readers_that_leave_early_by_the_thousand_cost_no_connection() {
    let cluster = Cluster::start(vec![MockConfig::new()], admission()).await;
    for _ in 0..30 {
        let mut left = tokio::task::JoinSet::new();
        for _ in 0..64 {
            let mut request = request(1);
            request.stopping.max_tokens = Some(200);
            let engine = cluster.engine().clone();
            left.spawn(async move { engine.generate(request).await?.next().await.transpose() });
        }
        while let Some(first) = left.join_next().await {
            first.unwrap().unwrap().expect("a first delta");
        }
    }
    assert_eq!(generate(&cluster, request(1)).await.unwrap()[0].len(), 5);
    let metrics = cluster.metrics();
    let connections = metrics.lines().find(|line| line.starts_with("fleet_worker_connections_total{"));
    assert!(connections.is_some_and(|line| line.ends_with(" 1")), "{connections:?}");
}
