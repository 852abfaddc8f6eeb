use expect_test::{Expect, expect};

use super::{Backend, backend, warnings};
use crate::config::{Api, ApiKey, Target};
use crate::testing::{Answer, OverTcp, config};

fn of(name: &str, address: &str, instances: &[&str]) -> Backend {
    Backend {
        name: name.to_owned(),
        addresses: [address.parse().unwrap()].into(),
        instances: instances.iter().map(|instance| (*instance).to_owned()).collect(),
    }
}

#[track_caller]
fn check(backends: &[Backend], expect: &Expect) {
    expect.assert_eq(&warnings(backends).join("\n"));
}

#[test]
fn targets_with_nothing_in_common_are_not_warned_of() {
    check(&[of("a", "192.0.2.1:80", &[]), of("b", "192.0.2.2:80", &[])], &expect![[""]]);
    check(&[of("a", "192.0.2.1:80", &["1"]), of("b", "192.0.2.1:81", &["2"])], &expect![[""]]);
}

#[test]
fn each_pair_with_an_engine_or_an_address_in_common_is_named() {
    check(
        &[
            of("a", "192.0.2.1:80", &["1", "2"]),
            of("b", "192.0.2.1:81", &["2", "3", "4"]),
            of("c", "192.0.2.1:81", &[]),
            of("d", "192.0.2.1:82", &["3", "4"]),
        ],
        &expect![[r"
            a and b share an engine, by their /workers: no run asks for another run's prompts, but each leaves the caches of those engines full for the next
            b and c are one server (192.0.2.1:81): no run asks for another run's prompts, but each leaves the caches of those engines full for the next
            b and d share 2 engines, by their /workers: no run asks for another run's prompts, but each leaves the caches of those engines full for the next"]],
    );
}

/// What is learned from a server that answers every request with this.
async fn learned(answer: Answer) -> Backend {
    let server = OverTcp::start(move |asked| {
        assert!(asked.head.starts_with("GET /base/workers HTTP/1.1\r\n"), "{}", asked.head);
        assert!(asked.head.contains("\r\nauthorization: Bearer k\r\n"), "{}", asked.head);
        answer.clone()
    })
    .await;
    let url = format!("{}/base", server.url);
    let api_key = Some(ApiKey::new("k".to_owned()));
    backend(&Target { url, api_key, ..config(Api::Generate, false).target }).await
}

#[tokio::test]
async fn engines_are_those_that_the_target_lists_as_reached() {
    let list = r#"{"workers":[{"id":"h:1","engine":{"instance":"one","version":"x"}},{"id":"h:2","engine":null},
        {"id":"h:3","engine":{"instance":"two"}}],"more":1}"#;
    let found = learned(Answer::json(list)).await;
    assert_eq!(found.instances, ["one", "two"].map(str::to_owned).into());
    assert_eq!(found.addresses.len(), 1);
}

#[tokio::test]
async fn a_target_without_such_a_list_is_known_by_its_address_only() {
    for answer in [Answer::json("<html>"), Answer { status: 404, ..Answer::json("{}") }] {
        let found = learned(answer).await;
        assert!(found.instances.is_empty() && found.addresses.len() == 1, "{found:?}");
    }
    let nowhere = Target { url: "ftp://x".to_owned(), ..config(Api::Generate, false).target };
    assert!(backend(&nowhere).await.addresses.is_empty());
}
