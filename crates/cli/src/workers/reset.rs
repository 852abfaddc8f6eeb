//! `tito workers reset`: makes workers drop what they have cached.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use hyper::Method;
use serde::Deserialize;

use super::server::Question;
use super::{asked, table};
use crate::args::ResetArgs;
use crate::process;

/// Beyond what an order can take: an engine that computes may pause for a minute, and has ten seconds before and after.
const TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, Deserialize)]
struct Answer {
    success: bool,
    workers: Vec<Worker>,
}

#[derive(Debug, Deserialize)]
struct Worker {
    id: String,
    error: Option<String>,
}

pub(super) fn run(args: &ResetArgs) -> ExitCode {
    let (server, key) = match asked(&args.url, args.key_file.as_deref()) {
        Ok(asked) => asked,
        Err(error) => return process::usage(&[format!("{error:#}")]),
    };
    let path = path(args);
    process::block_on(async {
        let whom = "the --control-port of tito serve";
        let question = Question { method: Method::POST, path: &path, answer_within: TIMEOUT, whom };
        let text = server.ask(question, key).await?;
        let answer: Answer = serde_json::from_str(&text)
            .with_context(|| format!("{} answers in a way this release cannot read", args.url))?;
        process::print(&if args.json { format!("{text}\n") } else { render(&answer.workers, args.running) })?;
        Ok(if answer.success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Not vLLM's own path: an engine that listens there by mistake would drop its cache, and nobody would know.
fn path(args: &ResetArgs) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for worker in &args.workers {
        query.append_pair("worker", worker);
    }
    if args.running {
        query.append_pair("reset_running_requests", "true");
    }
    format!("/workers/reset?{}", query.finish())
}

fn render(workers: &[Worker], running: bool) -> String {
    if workers.is_empty() {
        return "no worker is configured\n".to_owned();
    }
    let width = workers.iter().map(|worker| worker.id.chars().count()).max().unwrap_or(0).max(6);
    let mut text = format!("{:<width$}  CACHE\n", "WORKER");
    for Worker { id, error } in workers {
        let cache =
            error.as_ref().map_or_else(|| "dropped".to_owned(), |error| format!("not dropped: {error}"));
        writeln!(text, "{:<width$}  {}", table::plain(id), table::plain(&cache))
            .expect("a string takes any text");
    }
    if !running && workers.iter().any(|worker| worker.error.is_some()) {
        text.push_str("\n--running also takes workers with requests in flight\n");
    }
    text
}
