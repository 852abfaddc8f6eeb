//! What every command does to its process.

use std::future::Future;
use std::process::ExitCode;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Exit status of a command line or a configuration that cannot work.
const USAGE: u8 = 2;

/// Prints every problem. Where help is, `main` says for all commands.
pub(crate) fn usage(problems: &[String]) -> ExitCode {
    for problem in problems {
        eprintln!("tito: {problem}");
    }
    ExitCode::from(USAGE)
}

/// Ends a command: after what [`usage`] printed comes where its help is.
pub(crate) fn ended(command: &str, exit: ExitCode) -> ExitCode {
    if exit == ExitCode::from(USAGE) {
        eprintln!("tito: see {command} --help");
    }
    exit
}

/// Prints a result. Whoever reads may leave before its end, as `head` does: that is no failure.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Runs a command on a runtime of its own; an error is printed with its causes.
pub(crate) fn block_on(command: impl Future<Output = anyhow::Result<ExitCode>>) -> ExitCode {
    block_on_runtime(tokio::runtime::Builder::new_multi_thread(), command)
}

/// The same on this thread alone, for a command whose own time is measured.
pub(crate) fn block_on_this_thread(command: impl Future<Output = anyhow::Result<ExitCode>>) -> ExitCode {
    block_on_runtime(tokio::runtime::Builder::new_current_thread(), command)
}

fn block_on_runtime(
    mut runtime: tokio::runtime::Builder,
    command: impl Future<Output = anyhow::Result<ExitCode>>,
) -> ExitCode {
    raise_open_files();
    let runtime = runtime.enable_all().build();
    let done = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(command));
    done.unwrap_or_else(|error| failed(&error))
}

/// Prints why a command did not do what it was asked to.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("tito: {error:#}");
    ExitCode::FAILURE
}

/// Thousands of requests are open at a time, and the usual soft limit is 1024 files: take what the hard limit gives.
fn raise_open_files() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        tracing::warn!(soft, hard, %error, "the limit on open files stays as it is");
    }
}
