//! Other programs: run to the end, run with their lines watched, or held on a leash.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often a state is looked at while it is waited for.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// How long a killed process may take to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// `cargo` with these arguments, to be run from the root of the checkout.
pub(crate) fn cargo(root: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(arguments);
    command
}

/// Runs a command on this terminal and says whether it ended with status 0.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command.status().with_context(|| format!("start {}", name(command)))?;
    Ok(status.success())
}

/// Runs a command silently and returns what it printed; an error when it fails.
pub(crate) fn output(root: &str, words: &[&str]) -> Result<String> {
    let (program, arguments) = words.split_first().context("a command has at least a program")?;
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .with_context(|| format!("start {program}"))?;
    if !output.status.success() {
        bail!("{} failed: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a command, shows each line of its standard output at once and hands it to `watch`.
pub(crate) fn watched(command: &mut Command, mut watch: impl FnMut(&str)) -> Result<ExitStatus> {
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("start {}", name(command)))?;
    let stdout = child.stdout.take().expect("standard output is piped");
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        watch(&line);
    }
    Ok(child.wait()?)
}

/// Kills its process group when the seconds in its first argument have passed or when our end of the pipe closes.
const LIMITED: &str = r#"
exec 3<&0 </dev/null
( read -r -t "$1" _ <&3; kill -KILL -- "-$$" ) >/dev/null 2>&1 &
exec 3<&-
shift
"$@"
"#;

/// Runs a command and what it starts in a process group of its own, and hands each line of its standard output to `watch`.
///
/// The group is killed after `limit` (whole seconds, at least one) and when this process ends first. None: the limit passed.
pub(crate) fn limited(
    words: &[&str],
    limit: Duration,
    prepare: impl FnOnce(&mut Command),
    mut watch: impl FnMut(&str),
) -> Result<Option<ExitStatus>> {
    let limit = Duration::from_secs(limit.as_secs().max(1));
    let seconds = limit.as_secs().to_string();
    let began = Instant::now();
    let mut leash = Leash::start(LIMITED, &[&[seconds.as_str()], words].concat(), |command| {
        command.stdout(Stdio::piped());
        prepare(command);
    })?;
    let stdout = leash.stdout().expect("standard output is piped");
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        watch(&line);
    }
    let status = leash.wait(limit.saturating_sub(began.elapsed()) + KILL_LIMIT)?;
    Ok(status.filter(|status| status.code().is_some() || began.elapsed() < limit))
}

/// Looks at a state until it is there or the limit has passed.
#[expect(
    clippy::disallowed_methods,
    reason = "the wait has a deadline, and the states are outside this process"
)]
pub(crate) fn poll<T>(limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(POLL_EVERY);
    }
}

/// A bash script in a process group of its own that learns when we are gone, however we end.
///
/// Its standard input is a pipe that never carries anything: the script stops what it started when it reads the
/// end of it. That holds for a return, a panic, Ctrl-C and a kill alike, with no signal handler.
pub(crate) struct Leash {
    child: Child,
    rope: Option<ChildStdin>,
}

impl Leash {
    /// Starts `script` with positional arguments; `prepare` sets folder, environment and output.
    pub(crate) fn start(
        script: &str,
        arguments: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self> {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new("bash");
        command.args(["-c", script, "bash"]).args(arguments).stdin(Stdio::piped()).process_group(0);
        prepare(&mut command);
        let mut child = command.spawn().context("start bash")?;
        let rope = child.stdin.take();
        Ok(Self { child, rope })
    }

    /// The script's standard output, when it was piped and not taken before.
    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits for the script to end by itself; None when the limit passed first.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        poll(limit, || Ok(self.child.try_wait()?))
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        drop(self.rope.take());
        // The script is ending; how it ends no longer matters to anyone.
        let _ = self.child.wait();
    }
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
