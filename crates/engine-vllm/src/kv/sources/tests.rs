use super::*;

pub(crate) fn source(rank: u32) -> KvEventSource {
    KvEventSource {
        transport: "zmq".into(),
        endpoint: format!("tcp://*:{}", 5557 + rank),
        topic: "kv".into(),
        replay_endpoint: format!("tcp://*:{}", 6057 + rank),
        data_parallel_rank: Some(rank),
        encoding: "msgpack".into(),
        schema_version: 1,
        buffer_steps: 10_000,
        hwm: 100_000,
        max_queue_size: 100_000,
    }
}

fn with(rank: u32, change: impl FnOnce(&mut KvEventSource)) -> KvEventSource {
    let mut source = source(rank);
    change(&mut source);
    source
}

/// What comes of a reply for ranks 0 and 1 of an engine reached at `engine`.
#[track_caller]
fn check(reply: Vec<KvEventSource>, expected: &str) {
    let found = match sources(reply, 0..2, "engine") {
        Ok(Sources { ranks, skipped }) => {
            let ranks = ranks.iter().map(|source| format!("{}={}", source.rank, source.events));
            let skipped = skipped.iter().map(|why| format!("skipped {why}"));
            ranks.chain(skipped).collect::<Vec<_>>().join(", ")
        }
        Err(problem) => format!("refused: {problem}"),
    };
    assert_eq!(found, expected);
}

#[test]
fn a_reply_is_used_left_out_or_refused_by_the_rules() {
    let foreign = |rank| with(rank, |s| s.transport = "nats".into());
    let both = "0=engine:5557, 1=engine:5558";
    check(vec![], "");
    check(vec![source(0), source(1)], both);
    check(vec![source(1), source(0)], both);
    check(vec![foreign(0)], "skipped rank 0: transport \"nats\"");
    check(vec![foreign(7), source(0), source(1)], &format!("{both}, skipped rank 7: transport \"nats\""));
    check(vec![foreign(0), source(0), source(1)], &format!("{both}, skipped rank 0: transport \"nats\""));
    check(vec![source(0), foreign(1)], "refused: rank 1 has no KV event source while others have one");
    check(vec![with(0, |s| s.encoding = "json".into())], "skipped rank 0: encoding \"json\"");
    check(vec![with(0, |s| s.schema_version = 2)], "skipped rank 0: schema version 2");
    check(vec![with(0, |s| s.endpoint = "inproc://kv".into())], "skipped rank 0: inproc endpoints");
    check(vec![source(0), source(2)], "refused: KV event source of rank 2, which is not in 0..2");
    check(vec![source(0), source(0), source(1)], "refused: rank 0 has two KV event sources");
    check(vec![source(0)], "refused: rank 1 has no KV event source while others have one");
    let refused = |change: fn(&mut KvEventSource), problem: &str| {
        check(vec![with(0, change), source(1)], &format!("refused: {problem}"));
    };
    refused(|s| s.data_parallel_rank = None, "a KV event source names no data-parallel rank");
    let of_rank_0 = |change, problem| refused(change, &format!("KV event source of rank 0 has {problem}"));
    of_rank_0(|s| s.endpoint.clear(), "no endpoint");
    of_rank_0(|s| s.endpoint = "tcp://*".into(), "the endpoint \"tcp://*\"");
    of_rank_0(|s| s.replay_endpoint = "6057".into(), "the replay endpoint \"6057\"");
}

#[test]
fn an_empty_topic_takes_all_and_a_missing_replay_endpoint_is_no_mistake() {
    let reply = vec![with(0, |s| (s.topic, s.replay_endpoint) = (String::new(), String::new()))];
    let found = sources(reply, 0..1, "engine").expect("valid");
    assert_eq!((found.ranks[0].topic.as_str(), &found.ranks[0].replay), ("", &None));
}

#[test]
fn a_wildcard_stands_for_the_host_we_reach_the_engine_on() {
    let tcp = |host: &str| Ok(Endpoint::Tcp { host: host.to_owned(), port: 7 });
    let listen = |host: &str| Ok(Endpoint::Listen { host: host.to_owned(), port: 7 });
    for (named, host, expected) in [
        ("*", "engine", tcp("engine")),
        ("0.0.0.0", "engine", tcp("engine")),
        ("[::]", "engine", tcp("engine")),
        ("::", "engine", tcp("engine")),
        ("*", "::1", tcp("::1")),
        ("*", "[::1]", tcp("::1")),
        ("[2001:db8::1]", "engine", tcp("2001:db8::1")),
        ("[fe80::1%eth0]", "engine", tcp("fe80::1%eth0")),
        ("[2001:db8:1:2:3:4:5:6]", "engine", listen("2001:db8:1:2:3:4:5:6")),
        ("192.0.2.7", "engine", listen("192.0.2.7")),
        ("router", "engine", listen("router")),
        ("2001:db8::1", "engine", Err(Unusable::Malformed)),
        ("", "engine", Err(Unusable::Malformed)),
    ] {
        assert_eq!(Endpoint::published(&format!("tcp://{named}:7"), host), expected, "{named} at {host}");
    }
    for (text, expected) in [
        ("ipc:///tmp/kv", Ok(Endpoint::Ipc("/tmp/kv".into()))),
        ("ipc://", Err(Unusable::Malformed)),
        ("tcp://*:0", Err(Unusable::Malformed)),
        ("tcp://*", Err(Unusable::Malformed)),
        ("*:7", Err(Unusable::Malformed)),
        ("pgm://x:1", Err(Unusable::Unsupported("pgm endpoints".into()))),
    ] {
        assert_eq!(Endpoint::published(text, "engine"), expected, "{text}");
    }
    assert_eq!(Endpoint::bound("tcp://192.0.2.7:7", "engine"), tcp("192.0.2.7"));
    let shown = Endpoint::Tcp { host: "2001:db8::1".to_owned(), port: 7 }.to_string();
    assert_eq!(shown, "[2001:db8::1]:7");
}
