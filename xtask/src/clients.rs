//! `cargo xtask clients`: third-party clients against `tito serve` over the real dense engine.

use std::fs;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::engine_kit::KitArgs;
use crate::process::{self, Leash};
use crate::workspace::Workspace;
use crate::{Verdict, docs_check, table};

/// The engine the drivers expect, and the model it serves.
const ENGINE: &str = "dense";
/// How long `tito serve` may take to be ready.
const READY_LIMIT: Duration = Duration::from_mins(1);
/// How long one look at it may take.
const LOOK_LIMIT: Duration = Duration::from_secs(5);
/// Runs a server until it ends by itself, or asks it to drain when our end of the pipe closes.
const SERVER: &str = r#"
exec 3<&0 </dev/null
"$@" 3<&- &
server=$!
( read -r _ <&3; kill -TERM "$server" ) 2>/dev/null &
exec 3<&-
wait "$server"
"#;

/// Arguments of `cargo xtask clients`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which client; every one when absent.
    #[arg(long = "driver", value_enum)]
    drivers: Vec<Driver>,
    /// Folder of the drivers; `clients` beside the engine kit when absent.
    #[arg(long, env = "TITO_CLIENTS", value_name = "DIR")]
    clients: Option<PathBuf>,
    /// Use the release build of tito.
    #[arg(long)]
    release: bool,
    /// Only install what the drivers need, so that it is known whether the network gives it.
    #[arg(long)]
    install_only: bool,
    #[command(flatten)]
    kit: KitArgs,
}

/// A third-party client with a driver script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Driver {
    Renderers,
    Openai,
}

impl Driver {
    const ALL: [Self; 2] = [Self::Renderers, Self::Openai];

    fn name(self) -> &'static str {
        match self {
            Self::Renderers => "renderers",
            Self::Openai => "openai",
        }
    }

    /// What pip installs for it.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Renderers => &["renderers==0.1.12", "openai<3"],
            Self::Openai => &["openai<3"],
        }
    }

    /// Arguments beyond the address and the model: the routes that are served today.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Renderers => &[],
            Self::Openai => &["--only", "generate,completions"],
        }
    }
}

/// Starts the engine and `tito serve`, then runs each driver and prints how it ended.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<Verdict> {
    let drivers = if args.drivers.is_empty() { Driver::ALL.to_vec() } else { args.drivers.clone() };
    let folder = args
        .clients
        .clone()
        .map_or_else(|| Ok::<_, anyhow::Error>(args.kit.folder()?.join("../clients")), Ok)?;
    // Everything that can be missing is found out before an engine starts.
    let ready: Vec<_> =
        drivers.iter().map(|driver| prepare(workspace, &folder, *driver)).collect::<Result<_>>()?;
    if args.install_only {
        return Ok(Verdict::Holds);
    }
    let bin = docs_check::build_tito(workspace, args.release)?;

    let engine = args.kit.start(ENGINE, "clients", &[], &[])?;
    let server = Server::start(workspace, &bin, &engine.grpc)?;
    let mut rows = Vec::new();
    let mut holds = true;
    for (driver, (python, script)) in drivers.iter().zip(&ready) {
        println!("--- {}", driver.name());
        let base = format!("http://{}", server.address);
        let mut command = Command::new(python);
        command.arg(script).args(["--base", &base, "--model", ENGINE]).args(driver.arguments());
        let status = command.status().with_context(|| format!("start {}", python.display()))?;
        holds &= status.success();
        rows.push(vec![driver.name().to_owned(), status.to_string()]);
    }
    print!("\n{}", table::markdown(&["client", "driver ended with"], &rows));
    Ok(Verdict::of(holds))
}

/// The Python that has the driver's packages, and the driver.
fn prepare(workspace: &Workspace, folder: &Path, driver: Driver) -> Result<(PathBuf, PathBuf)> {
    let script = folder.join(format!("drive_{}.py", driver.name()));
    if !script.is_file() {
        bail!("there is no {}: pass --clients or set TITO_CLIENTS to the drivers' folder", script.display());
    }
    let venv = PathBuf::from(format!("{}/clients/{}", workspace.target, driver.name()));
    let python = venv.join("bin/python");
    let installed = venv.join("installed");
    let wanted = driver.packages().join("\n");
    if fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok((python, script));
    }
    println!("installing {} for {}", driver.packages().join(", "), driver.name());
    let venv = venv.to_str().context("the target folder is not UTF-8")?;
    process::output(&workspace.root, &["python3", "-m", "venv", "--clear", venv])?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    if !process::succeeds(Command::new(&python).args(pip).args(driver.packages()))? {
        bail!("pip could not install {}", driver.packages().join(" "));
    }
    fs::write(&installed, wanted)?;
    Ok((python, script))
}

/// A running `tito serve`; dropping it drains it.
struct Server {
    address: SocketAddr,
    _leash: Leash,
}

impl Server {
    fn start(workspace: &Workspace, bin: &str, engine: &str) -> Result<Self> {
        // The port is free now and probably still when the server binds it; if not, the server says so.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let (program, engine, port) =
            (format!("{bin}/tito"), format!("vllm://{engine}"), address.port().to_string());
        let log = format!("{}/clients/serve.log", workspace.target);
        let output = File::create(&log).with_context(|| format!("create {log}"))?;
        let errors = output.try_clone()?;
        let arguments = [program.as_str(), "serve", "--engine", engine.as_str(), "--port", port.as_str()];
        let began = Instant::now();
        let mut leash = Leash::start(SERVER, &arguments, |command| {
            command.stdout(Stdio::from(output)).stderr(Stdio::from(errors));
        })?;
        let ready = process::poll(READY_LIMIT, || {
            let ended = leash.wait(Duration::ZERO)?;
            Ok(ended.map(|_| false).or(is_ready(address).is_ok_and(|ready| ready).then_some(true)))
        })?;
        if ready != Some(true) {
            drop(leash);
            let said = fs::read_to_string(&log).unwrap_or_default();
            bail!("tito serve was not ready after {} s; it said:\n{said}", began.elapsed().as_secs());
        }
        println!("tito serve is ready on {address}, its log is {log}");
        Ok(Self { address, _leash: leash })
    }
}

/// Whether `GET /ready` answers 200.
fn is_ready(address: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&address, LOOK_LIMIT)?;
    stream.set_read_timeout(Some(LOOK_LIMIT))?;
    write!(stream, "GET /ready HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status)?;
    Ok(status.split(' ').nth(1) == Some("200"))
}

#[cfg(test)]
mod tests;
