//! Waiting for the moment a request is due.
//!
//! The runtime's own timer counts in milliseconds, which is longer than a fast server takes to answer. On Linux a
//! kernel timer wakes the open loop to within some ten microseconds instead; elsewhere, and in tests on a paused
//! clock, the runtime's timer has to do.

use std::io;

use tokio::task::yield_now;
use tokio::time::Instant;

/// A way to wait until a given time.
#[derive(Debug)]
pub(crate) enum Pacer {
    /// The kernel's timer.
    #[cfg(target_os = "linux")]
    Kernel(kernel::Timer),
    /// The runtime's timer.
    #[cfg(any(test, not(target_os = "linux")))]
    Runtime,
}

impl Pacer {
    /// The most exact one this system has.
    pub(crate) fn exact() -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        return Ok(Self::Kernel(kernel::Timer::try_new()?));
        #[cfg(not(target_os = "linux"))]
        return Ok(Self::Runtime);
    }

    /// Another one of the same kind, which can wait at the same time.
    pub(crate) fn another(&self) -> io::Result<Self> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Kernel(_) => Self::exact(),
            #[cfg(any(test, not(target_os = "linux")))]
            Self::Runtime => Ok(Self::Runtime),
        }
    }

    /// Returns at `due`, or after one turn of the runtime when that has passed: a late schedule must not keep the
    /// replies from being read.
    pub(crate) async fn wait_until(&self, due: Instant) -> io::Result<()> {
        if due <= Instant::now() {
            yield_now().await;
            return Ok(());
        }
        match self {
            #[cfg(target_os = "linux")]
            Self::Kernel(timer) => timer.wait_until(due).await,
            #[cfg(any(test, not(target_os = "linux")))]
            Self::Runtime => {
                tokio::time::sleep_until(due).await;
                Ok(())
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::io;
    use std::os::fd::{AsFd as _, AsRawFd, RawFd};

    use nix::errno::Errno;
    use nix::sys::time::TimeSpec;
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
    use tokio::io::unix::AsyncFd;
    use tokio::time::Instant;

    /// A `timerfd` the runtime watches like a socket.
    #[derive(Debug)]
    pub(crate) struct Timer(AsyncFd<Fd>);

    #[derive(Debug)]
    struct Fd(TimerFd);

    impl AsRawFd for Fd {
        fn as_raw_fd(&self) -> RawFd {
            self.0.as_fd().as_raw_fd()
        }
    }

    impl Timer {
        pub(super) fn try_new() -> io::Result<Self> {
            let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
            let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
            #[expect(
                deprecated,
                reason = "its replacement is unsafe; what that asks of the caller holds here: the descriptor is owned \
                          and never changes"
            )]
            Ok(Self(AsyncFd::new(Fd(timer))?))
        }

        pub(super) async fn wait_until(&self, due: Instant) -> io::Result<()> {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(()); // a zero would disarm the timer instead of firing it
            }
            let once = Expiration::OneShot(TimeSpec::from_duration(left));
            self.0.get_ref().0.set(once, TimerSetTimeFlags::empty())?;
            loop {
                let mut ready = self.0.readable().await?;
                match ready.get_inner().0.wait() {
                    Ok(()) => return Ok(()),
                    Err(Errno::EAGAIN) => ready.clear_ready(),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
