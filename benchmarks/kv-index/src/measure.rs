//! Clocks, bytes and percentiles.
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Counts requested bytes, so that the figure does not depend on the allocator.
pub struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);
static INNER: mimalloc::MiMalloc = mimalloc::MiMalloc;

thread_local! {
    /// Not yet added to `LIVE`: the counter must not become what is measured.
    static LOCAL: Cell<i64> = const { Cell::new(0) };
}

fn note(bytes: i64) {
    let _ = LOCAL.try_with(|local| {
        let sum = local.get() + bytes;
        if sum.abs() > 1 << 14 {
            LIVE.fetch_add(sum, Relaxed);
            local.set(0);
        } else {
            local.set(sum);
        }
    });
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        unsafe { INNER.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        unsafe { INNER.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(-(layout.size() as i64));
        unsafe { INNER.dealloc(block, layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size as i64 - layout.size() as i64);
        unsafe { INNER.realloc(block, layout, size) }
    }
}

/// Requested bytes; of other threads to within 16 KiB.
pub fn live_bytes() -> i64 {
    LOCAL.with(|local| LIVE.fetch_add(local.replace(0), Relaxed));
    LIVE.load(Relaxed)
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(id, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of the calling thread.
pub fn cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The clock of the calling thread's CPU time, for other threads to read.
pub fn cpu_clock() -> libc::clockid_t {
    let mut id = 0;
    unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut id) };
    id
}

/// CPU time of a thread that is still running.
pub fn cpu_of(id: libc::clockid_t) -> Duration {
    clock(id)
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    let mut cpu = 0;
    unsafe {
        core::arch::x86_64::_mm_lfence();
        let ticks = core::arch::x86_64::__rdtscp(&raw mut cpu);
        core::arch::x86_64::_mm_lfence();
        ticks
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Nanoseconds per tick, and the ticks of an empty measurement.
fn scale() -> (f64, u64) {
    static SCALE: OnceLock<(f64, u64)> = OnceLock::new();
    *SCALE.get_or_init(|| {
        let (start, from) = (Instant::now(), ticks());
        while start.elapsed() < Duration::from_millis(100) {}
        let scale = start.elapsed().as_nanos() as f64 / (ticks() - from) as f64;
        let empty = (0..10_000).map(|_| { let from = ticks(); ticks() - from }).min().unwrap_or(0);
        (scale, empty)
    })
}

/// Nanoseconds of `look_up` for each query, over hashes that are in the cache.
pub fn timed<'a>(
    queries: impl Iterator<Item = &'a Vec<u64>>,
    mut look_up: impl FnMut(&[u64]) -> usize,
    stop: Option<&AtomicBool>,
) -> Vec<u32> {
    let (scale, empty) = scale();
    let (mut hot, mut times) = (Vec::with_capacity(4096), Vec::with_capacity(1 << 16));
    for query in queries {
        hot.clear();
        hot.extend_from_slice(query);
        let from = ticks();
        std::hint::black_box(look_up(std::hint::black_box(&hot)));
        times.push(((ticks() - from).saturating_sub(empty) as f64 * scale) as u32);
        if stop.is_some_and(|stop| stop.load(Relaxed)) {
            break;
        }
    }
    times
}

pub fn percentile(times: &mut [u32], share: f64) -> f64 {
    times.sort_unstable();
    times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1))).map_or(0.0, |&time| f64::from(time))
}

/// Look-ups per second of one thread, without those it did not run through.
pub fn rate(times: &[u32]) -> f64 {
    let run: Vec<f64> = times.iter().filter(|&&time| time < 20_000).map(|&time| f64::from(time)).collect();
    1e9 * run.len() as f64 / run.iter().sum::<f64>()
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
