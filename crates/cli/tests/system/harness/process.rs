use std::fs::File;
use std::process::{ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tito_test_support::wait::{wait_for, within};
use tokio::process::{Child, Command};

/// What of its log a failed test shows (bytes).
const TAIL_BYTES: usize = 2 << 10;

/// A command line.
pub(crate) type Args<'a> = &'a [&'a str];
/// Environment variables.
pub(crate) type Env<'a> = &'a [(&'a str, &'a str)];

/// One running process of the binary. Killed when dropped; a failing test shows the end of its log.
pub(crate) struct Tito {
    child: Child,
    name: String,
    files: TempDir,
}

fn command(args: Args<'_>, env: Env<'_>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tito"));
    // The settings of whoever runs the tests are none of theirs.
    command.env_clear().envs(env.iter().copied()).args(args).stdin(Stdio::null()).kill_on_drop(true);
    command
}

impl Tito {
    /// Starts it. Its output goes to files, so that it never waits for a reader.
    pub(crate) fn spawn(args: Args<'_>, env: Env<'_>) -> Self {
        let files = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(files.path().join(name)).unwrap();
        let child = command(args, env).stdout(file("stdout")).stderr(file("stderr")).spawn().unwrap();
        Self { child, name: args.join(" "), files }
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.files.path().join(name)).unwrap()).into_owned()
    }

    /// What it printed.
    pub(crate) fn stdout(&self) -> String {
        self.read("stdout")
    }

    /// What it logged.
    pub(crate) fn log(&self) -> String {
        self.read("stderr")
    }

    /// The first whole line of its output that holds `mark`.
    pub(crate) async fn line(&mut self, mark: &str) -> String {
        let what = format!("`{mark}` from {}", self.name);
        wait_for(&what, async || {
            let stdout = self.stdout();
            let whole = &stdout[..stdout.rfind('\n').unwrap_or(0)];
            let found = whole.lines().find(|line| line.contains(mark)).map(str::to_owned);
            if found.is_none()
                && let Ok(Some(status)) = self.child.try_wait()
            {
                panic!("{} ended with {status} before {what}: {}", self.name, self.log());
            }
            found
        })
        .await
    }

    /// Waits until its log holds `mark`.
    pub(crate) async fn logged(&self, mark: &str) {
        wait_for(&format!("`{mark}` in the log"), async || self.log().contains(mark).then_some(())).await;
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it was not waited for yet")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn exit(&mut self) -> ExitStatus {
        within(&format!("the end of {}", self.name), self.child.wait()).await.unwrap()
    }

    /// Ends it as `kill -9` does, and waits until it is gone.
    pub(crate) async fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.exit().await;
    }
}

impl Drop for Tito {
    #[expect(clippy::print_stderr, reason = "what a failing test shows")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail = log.floor_char_boundary(log.len().saturating_sub(TAIL_BYTES));
            eprintln!("--- {}\n{}", self.name, &log[tail..]);
        }
    }
}

/// A process that has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command of the binary to its end.
pub(crate) async fn run(args: Args<'_>, env: Env<'_>) -> Ran {
    let output = within(&args.join(" "), command(args, env).output()).await.unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
