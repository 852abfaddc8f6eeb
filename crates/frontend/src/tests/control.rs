//! The socket where orders are taken.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};
use tito_runtime::Stage;
use tito_test_support::http::Call;

use crate::config::{ORDER_BYTES_MAX, ORDERS_MAX};
use crate::testing::engines::quick;
use crate::testing::{Setup, check_metrics, get, json_of, keys, post, refusal_of, setup, setup_with, with};
use crate::{ControlConfig, Exit, KeyConfig};

const RESET: &str = "/reset_prefix_cache";

/// A frontend that takes orders, with a key for clients and another for orders.
async fn controlled() -> Setup {
    let built = setup_with(quick(), |config| {
        config.keys = keys(&["client"]);
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        config.control = Some(ControlConfig { listen, keys: keys(&["operator"]) });
    });
    built.await.unwrap()
}

fn with_key(request: Request<Body>, key: &str) -> Request<Body> {
    with(request, "x-api-key", key)
}

/// An order to drop caches, by the operator.
fn reset() -> Request<Body> {
    with_key(post(RESET, ""), "operator")
}

#[tokio::test]
async fn each_socket_has_its_own_routes_and_its_own_keys() {
    let setup = controlled().await;
    let status = async |request, key| setup.ask(with_key(request, key)).await.status().as_u16();
    assert_eq!(status(get("/workers"), "client").await, 200);
    assert_eq!(status(get("/workers"), "operator").await, 401);
    assert_eq!(status(post(RESET, ""), "client").await, 404, "no client gives orders");
    let status = async |request, key| setup.order(with_key(request, key)).await.status().as_u16();
    assert_eq!(status(get("/workers"), "operator").await, 200);
    assert_eq!(status(post(RESET, ""), "operator").await, 200);
    assert_eq!(status(post("/workers/reset", ""), "operator").await, 200);
    for request in [get("/workers"), post(RESET, ""), get("/nowhere")] {
        assert_eq!(status(request, "client").await, 401);
    }
    for path in ["/inference/v1/generate", "/live", "/metrics", "/debug/route", "/v1/models"] {
        assert_eq!(status(post(path, "{}"), "operator").await, 404, "{path}");
    }
    assert_eq!(status(get(RESET), "operator").await, 405);
    let counted = r#"tito_frontend_requests_total{route="reset_prefix_cache",status="2xx",code="ok"} 2"#;
    check_metrics(&setup.registry, &[counted]);
}

#[tokio::test]
async fn without_a_socket_for_orders_there_are_none() {
    let setup = setup(quick()).await;
    assert_eq!((setup.frontend.control_addr(), setup.frontend.control_router().is_none()), (None, true));
    assert_eq!(setup.ask(post(RESET, "")).await.status(), 404);
}

#[tokio::test]
async fn an_order_to_drop_caches_says_what_came_of_each_worker() {
    let setup = controlled().await;
    let order = async |path: &str, body: &str| -> (u16, Value) {
        let reply = setup.order(with_key(post(path, body.to_owned()), "operator")).await;
        (reply.status().as_u16(), json_of(reply).await)
    };
    let done = json!({"success": true, "workers": [{"id": "w", "success": true, "error": null}]});
    assert_eq!(order(RESET, "").await, (200, done.clone()));
    assert_eq!(order("/reset_prefix_cache?worker=w&reset_running_requests=false", "{}").await, (200, done));
    let failed =
        json!({"success": false, "workers": [{"id": "w", "success": false, "error": "nothing runs"}]});
    assert_eq!(order(RESET, r#"{"reset_running_requests":true}"#).await, (200, failed));
    for (path, body, param) in [
        ("/reset_prefix_cache?worker=x", "", json!("worker")),
        ("/reset_prefix_cache?force=1", "", json!("force")),
        (RESET, r#"{"reset_external":false}"#, json!("reset_external")),
        (RESET, "no", Value::Null),
    ] {
        let (status, told) = order(path, body).await;
        assert_eq!((status, &told["error"]["param"]), (400, &param), "{path} {body}");
    }
    let large = order(RESET, &" ".repeat(ORDER_BYTES_MAX + 1)).await;
    assert_eq!((large.0, &large.1["error"]["code"]), (413, &json!("body_too_large")));
}

#[tokio::test]
async fn web_pages_give_no_orders() {
    let setup = controlled().await;
    let refused = setup.order(with(reset(), "origin", "http://attacker.test")).await;
    assert_eq!(refused.status(), 400);
    assert_eq!(json_of(refused).await["error"]["param"], "origin");
}

#[tokio::test]
async fn as_many_orders_are_carried_out_as_may_be() {
    let setup = controlled().await;
    let orders = Arc::clone(&setup.frontend.app.orders);
    let others = orders.try_acquire_many_owned(ORDERS_MAX as u32).unwrap();
    assert_eq!(refusal_of(setup.order(reset()).await).await, (429, "overloaded".to_owned()));
    drop(others);
    assert_eq!(setup.order(reset()).await.status(), 200);
}

#[tokio::test]
async fn both_sockets_serve_and_close_together() {
    let setup = controlled().await;
    let control = setup.frontend.control_addr().unwrap();
    let running = setup.run();
    assert_ne!(control, running.addr);
    for (address, key) in [(running.addr, "client"), (control, "operator")] {
        let reply = Call::get(address, "/workers").header("x-api-key", key).send().await;
        assert_eq!(reply.status, 200, "{key}");
    }
    running.next_stage(Stage::Unready).await;
    running.trigger.fire("test");
    assert_eq!(running.ended().await, Exit::Clean);
    assert!(tokio::net::TcpStream::connect(control).await.is_err());
}

#[tokio::test]
async fn a_server_that_drains_takes_no_new_orders() {
    let setup = controlled().await;
    for stage in [Stage::Unready, Stage::Draining] {
        assert_eq!(setup.order(reset()).await.status(), 200);
        setup.trigger.fire("test");
        setup.shutdown.reached(stage).await;
    }
    assert_eq!(refusal_of(setup.order(reset()).await).await, (503, "draining".to_owned()));
}

#[tokio::test]
async fn an_address_that_is_taken_is_told_as_that_for_orders() {
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listen = taken.local_addr().unwrap();
    let built = setup_with(quick(), |config| {
        config.control = Some(ControlConfig { listen, keys: KeyConfig::default() });
    });
    let error = built.await.err().expect("it cannot be bound");
    assert_eq!(tito_runtime::Chain(&error).to_string().split(": ").next(), Some("control"));
    assert!(matches!(error, crate::Error::Control(_)));
}
