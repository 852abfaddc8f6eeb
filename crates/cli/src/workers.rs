//! `tito workers`: what a running server knows of its workers, and orders to them.

mod reply;
mod reset;
mod server;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use hyper::Method;
use hyper::header::HeaderValue;

use crate::args::{WorkersAction, WorkersArgs};
use crate::process;
use crate::workers::reply::Listed;
use crate::workers::server::{Question, Server, key_of};

/// The list is made of what the server knows already.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &WorkersArgs) -> ExitCode {
    match &args.action {
        Some(WorkersAction::Reset(args)) => reset::run(args),
        None => list(args),
    }
}

fn list(args: &WorkersArgs) -> ExitCode {
    let (server, key) = match asked(&args.url, args.key_file.as_deref()) {
        Ok(asked) => asked,
        Err(error) => return process::usage(&[format!("{error:#}")]),
    };
    process::block_on(async {
        let question =
            Question { method: Method::GET, path: "/workers", answer_within: TIMEOUT, whom: "tito serve" };
        let text = server.ask(question, key).await?;
        if args.json {
            process::print(&format!("{text}\n"))?;
        } else {
            let listed: Listed = serde_json::from_str(&text).with_context(|| {
                format!("{} lists its workers in a way this release cannot read", args.url)
            })?;
            process::print(&table::render(&listed.workers))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Whom to ask, and with which key.
fn asked(url: &str, key_file: Option<&Path>) -> anyhow::Result<(Server, Option<HeaderValue>)> {
    Ok((Server::parse(url)?, key_file.map(key_of).transpose()?))
}

#[cfg(test)]
mod tests;
