//! What a piece of work costs: wall clock, CPU seconds, peak anonymous memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Between two looks at the memory in use.
const SAMPLE_EVERY: Duration = Duration::from_millis(5);

/// What a piece of work cost.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Cost {
    /// Seconds by the clock on the wall.
    pub(crate) wall_seconds: f64,
    /// Seconds that all threads of the process computed, system calls included.
    pub(crate) cpu_seconds: f64,
    /// Largest anonymous memory seen: what was asked for, not the pages of mapped files.
    pub(crate) peak_anonymous_bytes: u64,
}

/// A running measurement.
#[derive(Debug)]
pub(crate) struct Measurement {
    began: Instant,
    cpu_before: Duration,
    peak: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
    sampler: Option<JoinHandle<()>>,
}

impl Measurement {
    /// Starts the clocks, and a thread that samples the memory in use.
    pub(crate) fn start() -> Self {
        let peak = Arc::new(AtomicU64::new(anonymous_bytes()));
        let done = Arc::new(AtomicBool::new(false));
        let (thread_peak, thread_done) = (Arc::clone(&peak), Arc::clone(&done));
        let sample = move || {
            while !thread_done.load(Ordering::Relaxed) {
                thread_peak.fetch_max(anonymous_bytes(), Ordering::Relaxed);
                std::thread::sleep(SAMPLE_EVERY);
            }
        };
        let sampler = std::thread::Builder::new().name("memory sampler".to_owned()).spawn(sample).ok();
        Self { began: Instant::now(), cpu_before: cpu_time(), peak, done, sampler }
    }

    /// Stops the clocks.
    pub(crate) fn stop(mut self) -> Cost {
        let wall = self.began.elapsed();
        let cpu = cpu_time().saturating_sub(self.cpu_before);
        self.peak.fetch_max(anonymous_bytes(), Ordering::Relaxed);
        self.done.store(true, Ordering::Relaxed);
        if let Some(sampler) = self.sampler.take() {
            let _ = sampler.join();
        }
        Cost {
            wall_seconds: wall.as_secs_f64(),
            cpu_seconds: cpu.as_secs_f64(),
            peak_anonymous_bytes: self.peak.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

/// CPU time of the process so far, all threads.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Anonymous memory of the process now (`RssAnon`), 0 where the system does not say.
pub(crate) fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib =
        line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Bytes a second that one thread copies, from memory to memory, best of a few runs: the yardstick of the infeed.
pub(crate) fn memcpy_bytes_per_second() -> f64 {
    let source = vec![1u8; 64 << 20];
    let mut target = vec![0u8; 64 << 20];
    let mut best = 0.0f64;
    for _ in 0..8 {
        let began = Instant::now();
        target.copy_from_slice(&source);
        std::hint::black_box(&mut target);
        best = best.max(source.len() as f64 / began.elapsed().as_secs_f64());
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_memory_are_seen() {
        let measurement = Measurement::start();
        let mut block = vec![1u8; 64 << 20];
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(60) {
            block.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
            std::hint::black_box(&mut block);
        }
        let cost = measurement.stop();
        assert!(cost.wall_seconds >= 0.06, "{cost:?}");
        assert!(cost.cpu_seconds > 0.0, "{cost:?}");
        assert!(cost.peak_anonymous_bytes >= 64 << 20, "{cost:?}");
    }
}
