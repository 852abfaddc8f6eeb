//! Real engines, started and stopped by the engine kit's `engine.sh`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::process::Leash;

/// How much of the kit's output and of the engine's log an error shows (lines of each).
const LOG_LINES: usize = 40;
/// Brings an engine up, then holds it until our end of the pipe closes. The pipe to us may be gone by then.
const KEEPER: &str = r#"
trap '' PIPE
trap '"$1" down "$2" >/dev/null 2>&1' EXIT
"$1" up "${@:2}" 2>&1 </dev/null || exit 1
read -r _
exit 0
"#;

/// The folder that holds `engine.sh`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct KitArgs {
    /// Folder of the engine kit, the one that holds engine.sh.
    #[arg(long, env = "TITO_ENGINE_KIT", value_name = "DIR")]
    kit: Option<PathBuf>,
    /// gRPC port of the engine; a free one when absent.
    #[arg(long, value_name = "PORT")]
    grpc_port: Option<u16>,
    /// HTTP port of the engine; a free one when absent.
    #[arg(long, value_name = "PORT")]
    http_port: Option<u16>,
    /// Seconds an engine may take to become healthy.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    start_limit_secs: u32,
}

/// A running engine; dropping it stops it.
pub(crate) struct RunningEngine {
    /// `host:port` of its gRPC services.
    pub grpc: String,
    /// `host:port` of its HTTP server.
    pub http: String,
    _keeper: Leash,
}

impl KitArgs {
    /// The kit's folder, when it was given and is one.
    pub(crate) fn folder(&self) -> Result<&Path> {
        let Some(folder) = self.kit.as_deref() else {
            bail!("no engine kit: pass --kit or set TITO_ENGINE_KIT to the folder that holds engine.sh");
        };
        if !folder.join("engine.sh").is_file() {
            bail!(
                "{} holds no engine.sh: --kit (TITO_ENGINE_KIT) must be the engine kit's folder",
                folder.display()
            );
        }
        Ok(folder)
    }

    /// Starts an engine of this kind under a name nobody else uses and returns when it is healthy. `kit_args` are the
    /// kit's own, `engine_args` the engine's.
    pub(crate) fn start(
        &self,
        kind: &str,
        purpose: &str,
        kit_args: &[&str],
        engine_args: &[&str],
    ) -> Result<RunningEngine> {
        let script = self.folder()?.join("engine.sh");
        let script = script.to_str().context("the kit's path is not UTF-8")?;
        let name = format!("tito-{purpose}-{kind}-{}", std::process::id());
        let limit = self.start_limit_secs.to_string();
        let (grpc, http) =
            (self.grpc_port.map(|port| port.to_string()), self.http_port.map(|port| port.to_string()));
        let mut arguments = vec![script, name.as_str(), "--kind", kind, "--timeout", limit.as_str()];
        for (flag, port) in [("--grpc", &grpc), ("--http", &http)] {
            arguments.extend(port.iter().flat_map(|port| [flag, port.as_str()]));
        }
        arguments.extend(kit_args);
        if !engine_args.is_empty() {
            arguments.push("--");
            arguments.extend(engine_args);
        }
        println!("starting engine {name}");
        let mut keeper = Leash::start(KEEPER, &arguments, |command| {
            command.stdout(Stdio::piped());
        })?;
        let stdout = keeper.stdout().expect("standard output is piped");
        let mut said = Vec::new();
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            if let Some((grpc, http)) = addresses(&name, &line) {
                println!("{line}");
                return Ok(RunningEngine { grpc, http, _keeper: keeper });
            }
            said.push(line);
            if said.len() > LOG_LINES {
                said.remove(0);
            }
        }
        bail!("engine {name} did not start\n{}", failure(&said))
    }
}

/// The addresses in the line that says the engine is up.
fn addresses(name: &str, line: &str) -> Option<(String, String)> {
    let facts = line.strip_prefix(name)?.strip_prefix(": up after ")?;
    let fact =
        |key: &str| facts.split_whitespace().find_map(|word| word.strip_prefix(key)).map(str::to_owned);
    Some((fact("GRPC=")?, fact("HTTP=")?))
}

/// What the kit said, and the end of the log it pointed to.
fn failure(said: &[String]) -> String {
    let mut text = said.join("\n");
    let log = said.iter().rev().find_map(|line| Some(line.rsplit_once("see ")?.1.trim()));
    if let Some(log) = log.and_then(|path| fs::read_to_string(path).ok()) {
        let lines: Vec<&str> = log.lines().collect();
        text = format!(
            "{}\nthe end of its log:\n{}",
            said.last().map_or("", String::as_str),
            lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
        );
    }
    text
}

#[cfg(test)]
mod tests;
