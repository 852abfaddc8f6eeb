//! The feed over connections that a test answers itself, so that all of it runs in paused time.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinSet;

use super::*;

const WITHIN: Duration = Duration::from_secs(10);

/// What becomes of one connection.
#[derive(Clone)]
enum Reply {
    /// These bytes, then the end.
    Bytes(String),
    /// Nothing, for ever.
    Silence,
    /// It is not made.
    Refusal,
}

fn http(status: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::Bytes(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}"))
}

fn gauges(running: u32) -> String {
    let labels = "{engine=\"0\",model_name=\"m\"}";
    format!(
        "vllm:num_requests_running{labels} {running}\nvllm:num_requests_waiting{labels} 0\n\
         vllm:kv_cache_usage_perc{labels} 0.5\n"
    )
}

fn busy(running: u32) -> Reply {
    http("200 OK", &gauges(running))
}

/// An engine that answers one connection after the other so, the last way from then on, and what it was asked.
struct Engine {
    feed: LoadFeed,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Engine {
    fn new(replies: Vec<Reply>) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (seen, mut serving, mut at) = (Arc::clone(&asked), JoinSet::new(), 0);
        let open = move || {
            let reply = replies[at.min(replies.len() - 1)].clone();
            at += 1;
            let (ours, theirs) = duplex(1024);
            if matches!(reply, Reply::Refusal) {
                return std::future::ready(Err(io::Error::from(io::ErrorKind::ConnectionRefused)));
            }
            serving.spawn(answer(theirs, reply, Arc::clone(&seen)));
            std::future::ready(Ok(ours))
        };
        let look = Look {
            worker: WorkerId::new("w"),
            address: MetricsAddress { authority: "h:1".to_owned(), path: "/metrics".to_owned() },
            ranks: 0..1,
            answer_within: WITHIN,
            next: None,
            failing: false,
        };
        Self { feed: feed_over(open, look), asked }
    }

    /// Requests running by the next item; none where nothing is known.
    async fn next(&mut self) -> Option<u32> {
        let LoadNews { loads, problem } = self.feed.next().await.expect("it never ends");
        assert_eq!(loads.is_empty(), problem.is_some(), "a rank is left out for a reason");
        loads.first().map(|load| load.running)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

async fn answer(mut stream: DuplexStream, reply: Reply, asked: Arc<Mutex<Vec<String>>>) {
    let mut request = vec![0; 1024];
    let length = stream.read(&mut request).await.expect("a request");
    asked.lock().expect("no panic").push(String::from_utf8_lossy(&request[..length]).into_owned());
    match reply {
        // The client may have seen enough.
        Reply::Bytes(bytes) => drop(stream.write_all(bytes.as_bytes()).await),
        Reply::Silence => std::future::pending().await,
        Reply::Refusal => {}
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_is_asked_every_second_from_the_first_moment_on() {
    let mut engine = Engine::new(vec![busy(1), busy(2), busy(3)]);
    assert_eq!(engine.asked().len(), 0, "not before it is polled");
    let began = Instant::now();
    for (running, seconds) in [(1, 0), (2, 1), (3, 2), (3, 3)] {
        assert_eq!(engine.next().await, Some(running));
        assert_eq!(began.elapsed().as_secs(), seconds);
    }
    let asked = &engine.asked()[0];
    assert!(asked.starts_with("GET /metrics HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("host: h:1\r\n"), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_of_no_use_leaves_nothing_known_until_there_is_a_better_one() {
    let long = gauges(9) + &"#".repeat(ANSWER_BYTES_MAX);
    for reply in [
        Reply::Refusal,
        Reply::Bytes(String::new()),
        Reply::Bytes("\0\0\0garbage\r\n\r\n".to_owned()),
        Reply::Bytes("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nvllm:".to_owned()),
        http("503 Service Unavailable", &gauges(9)),
        http("301 Moved Permanently", &gauges(9)),
        http("200 OK", "tito_build_info{version=\"1\"} 1\n"),
        http("200 OK", &long),
    ] {
        let mut engine = Engine::new(vec![busy(1), reply.clone(), reply, busy(2)]);
        let seen = [engine.next().await, engine.next().await, engine.next().await, engine.next().await];
        assert_eq!(seen, [Some(1), None, None, Some(2)]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_does_not_answer_is_given_up_for_that_time() {
    let mut engine = Engine::new(vec![busy(1), Reply::Silence, busy(2)]);
    let began = Instant::now();
    assert_eq!(engine.next().await, Some(1));
    assert_eq!(engine.next().await, None);
    assert_eq!(began.elapsed(), LOAD_EVERY + ANSWER_WITHIN_MAX);
    assert_eq!(engine.next().await, Some(2), "at once: its time has passed");
    assert_eq!(began.elapsed(), LOAD_EVERY + ANSWER_WITHIN_MAX);
}

#[tokio::test(start_paused = true)]
async fn without_an_address_nothing_is_ever_said() {
    let mut feed = feed(&WorkerId::new("w"), None, 0..1, WITHIN);
    assert!(timeout(Duration::from_secs(3600), feed.next()).await.is_err());
}
