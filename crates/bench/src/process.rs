//! What a process on this machine costs: CPU time and memory, from `/proc`.

use std::fs;
use std::io;
use std::time::Duration;

use nix::unistd::{SysconfVar, sysconf};

/// A process whose cost cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It does not exist, or has exited and waits to be reaped.
    #[error("process {pid} is gone")]
    Gone {
        /// Its id.
        pid: u32,
    },
    /// The id belongs to a process that started after the run began.
    #[error("process {pid} exited and its id was taken by another")]
    Replaced {
        /// Its id.
        pid: u32,
    },
    /// The files of the process could not be read.
    #[error("process {pid} cannot be read")]
    Read {
        /// Its id.
        pid: u32,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file of the process does not say what it should.
    #[error("process {pid} has no usable {what}")]
    Malformed {
        /// Its id.
        pid: u32,
        /// Which value is missing.
        what: &'static str,
    },
}

/// The state of a process at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) pid: u32,
    /// Its command name as the kernel shows it, at most 15 bytes.
    pub(crate) name: String,
    /// User and system time of all its threads, ended ones included. Counted in clock ticks, mostly 10 ms.
    pub(crate) cpu: Duration,
    /// Largest resident set since the process started.
    pub(crate) rss_peak_bytes: u64,
    /// Resident set now.
    pub(crate) rss_bytes: u64,
    /// Start time in clock ticks since boot, which tells it from another process under the same id.
    started_ticks: u64,
}

impl Reading {
    /// Reads a process now.
    pub(crate) fn take(pid: u32) -> Result<Self, ProcessError> {
        let stat = read(pid, "stat")?;
        let status = read(pid, "status")?;
        Self::parse(pid, &stat, &status, ticks_per_second(pid)?)
    }

    /// Reads the same process again.
    pub(crate) fn again(&self) -> Result<Self, ProcessError> {
        let now = Self::take(self.pid)?;
        if now.started_ticks == self.started_ticks {
            Ok(now)
        } else {
            Err(ProcessError::Replaced { pid: self.pid })
        }
    }

    /// Takes the two files apart; proc(5) numbers the fields of `stat` from 1.
    pub(crate) fn parse(
        pid: u32,
        stat: &str,
        status: &str,
        ticks_per_second: u64,
    ) -> Result<Self, ProcessError> {
        let malformed = |what| ProcessError::Malformed { pid, what };
        // The name may hold blanks and parentheses, so it ends at the last one.
        let (before, after) = stat.rsplit_once(')').ok_or_else(|| malformed("stat"))?;
        let name = before.split_once('(').ok_or_else(|| malformed("name"))?.1;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        if matches!(field(3), Some("Z" | "X")) {
            return Err(ProcessError::Gone { pid });
        }
        let ticks =
            |number, what| field(number).and_then(|text| text.parse().ok()).ok_or_else(|| malformed(what));
        let user_ticks: u64 = ticks(14, "user time")?;
        let system_ticks: u64 = ticks(15, "system time")?;
        let kib = |key, what| kib_of(status, key).ok_or_else(|| malformed(what));
        let cpu_ticks = user_ticks.saturating_add(system_ticks);
        Ok(Self {
            pid,
            name: name.to_owned(),
            cpu: Duration::from_secs_f64(cpu_ticks as f64 / ticks_per_second as f64),
            rss_peak_bytes: kib("VmHWM:", "peak memory")? << 10,
            rss_bytes: kib("VmRSS:", "memory")? << 10,
            started_ticks: ticks(22, "start time")?,
        })
    }
}

/// The value of a line `KEY  123 kB` in `status`.
fn kib_of(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().filter(|kib| *kib < 1 << 50)
}

fn read(pid: u32, file: &str) -> Result<String, ProcessError> {
    // ESRCH is what the kernel answers when the process ends between opening and reading.
    let gone = |error: &io::Error| {
        error.kind() == io::ErrorKind::NotFound
            || error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32)
    };
    let bytes = fs::read(format!("/proc/{pid}/{file}")).map_err(|source| match source {
        source if gone(&source) => ProcessError::Gone { pid },
        source => ProcessError::Read { pid, source },
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn ticks_per_second(pid: u32) -> Result<u64, ProcessError> {
    let ticks = sysconf(SysconfVar::CLK_TCK);
    ticks
        .map_err(|errno| ProcessError::Read { pid, source: errno.into() })?
        .and_then(|ticks| u64::try_from(ticks).ok())
        .filter(|ticks| *ticks > 0)
        .ok_or(ProcessError::Malformed { pid, what: "clock tick" })
}

#[cfg(test)]
mod tests;
