//! A slower memory over DRAM: extra latency per written line, and a limit on bandwidth.
//!
//! The model, in the manner of Mnemosyne and of the papers that followed it:
//!
//! - a *flush* waits the write latency once per line, there and then: this is what those papers
//!   add behind each `clflush`;
//! - a *stream* waits it once per call: its lines overlap;
//! - a *flush* and a *stream* put their lines into one queue in front of the medium, shared by the
//!   whole span, which drains at the bandwidth;
//! - a *fence* waits until what was queued before it has drained.
//!
//! Waiting is spinning on the monotonic clock: sleeping cannot be this short. Stores and reads cost
//! what DRAM costs. The content is as lost in a power loss as any DRAM: what is emulated is time.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

use journal_core::LINE_BYTES;

/// How slow the emulated memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EmulatorModel {
    write_latency: Duration,
    bytes_per_second: Option<u64>,
}

impl EmulatorModel {
    /// Adds this latency to each written line; no limit on bandwidth.
    #[must_use]
    pub const fn new(write_latency: Duration) -> Self {
        Self { write_latency, bytes_per_second: None }
    }

    /// This model, draining at most this many bytes a second (at least one).
    #[must_use]
    pub const fn with_bytes_per_second(self, bytes: u64) -> Self {
        Self { bytes_per_second: Some(if bytes == 0 { 1 } else { bytes }), ..self }
    }

    /// The memory that NJS was evaluated on: 300 ns per line, 1 GB/s.
    #[must_use]
    pub const fn njs() -> Self {
        Self::new(Duration::from_nanos(300)).with_bytes_per_second(1_000_000_000)
    }

    /// The memory that HasFS was evaluated on: 200 ns per write.
    #[must_use]
    pub const fn hasfs() -> Self {
        Self::new(Duration::from_nanos(200))
    }

    /// Extra time per written line.
    #[must_use]
    pub const fn write_latency(self) -> Duration {
        self.write_latency
    }

    /// The limit on bandwidth, if there is one.
    #[must_use]
    pub const fn bytes_per_second(self) -> Option<u64> {
        self.bytes_per_second
    }

    /// How long the medium takes to drain this many lines. Rounded up, so that a limit never
    /// becomes none: in nanoseconds one line would be free from 64 GB/s on.
    fn drain_picos(self, lines: usize) -> u64 {
        let Some(rate) = self.bytes_per_second else { return 0 };
        let bytes = u128::from(lines as u64) * LINE_BYTES as u128;
        u64::try_from((bytes * 1_000_000_000_000).div_ceil(u128::from(rate))).unwrap_or(u64::MAX)
    }
}

/// The state of one emulated span.
#[derive(Debug)]
pub(crate) struct Emulator {
    model: EmulatorModel,
    origin: Instant,
    /// When the queue will have drained, in picoseconds after `origin`: enough for 200 days.
    drained_at_picos: AtomicU64,
}

impl Emulator {
    pub(crate) fn new(model: EmulatorModel) -> Self {
        Self { model, origin: Instant::now(), drained_at_picos: AtomicU64::new(0) }
    }

    fn now_picos(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos() * 1000).unwrap_or(u64::MAX)
    }

    /// `lines` were flushed, one after the other.
    pub(crate) fn flushed(&self, lines: usize) {
        self.enqueue(lines);
        let waits = u32::try_from(lines).unwrap_or(u32::MAX);
        spin(self.model.write_latency.saturating_mul(waits));
    }

    /// `lines` were streamed by one call.
    pub(crate) fn streamed(&self, lines: usize) {
        self.enqueue(lines);
        if lines > 0 {
            spin(self.model.write_latency);
        }
    }

    /// A fence: waits for the queue as it is now.
    pub(crate) fn fenced(&self) {
        let until = self.drained_at_picos.load(Ordering::Relaxed);
        while self.now_picos() < until {
            core::hint::spin_loop();
        }
    }

    fn enqueue(&self, lines: usize) {
        let more = self.model.drain_picos(lines);
        if more == 0 {
            return;
        }
        let now = self.now_picos();
        // Failure is impossible: the closure never declines.
        let _ = self.drained_at_picos.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |until| {
            Some(until.max(now).saturating_add(more))
        });
    }
}

fn spin(how_long: Duration) {
    if how_long.is_zero() {
        return;
    }
    let start = Instant::now();
    while start.elapsed() < how_long {
        core::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(work: impl FnOnce()) -> Duration {
        let start = Instant::now();
        work();
        start.elapsed()
    }

    #[test]
    fn the_presets_are_what_the_papers_say() {
        let njs = EmulatorModel::njs();
        assert_eq!(njs.write_latency(), Duration::from_nanos(300));
        assert_eq!(njs.bytes_per_second(), Some(1_000_000_000));
        let hasfs = EmulatorModel::hasfs();
        assert_eq!(hasfs.write_latency(), Duration::from_nanos(200));
        assert_eq!(hasfs.bytes_per_second(), None);
    }

    #[test]
    fn draining_is_bytes_over_bandwidth() {
        assert_eq!(EmulatorModel::njs().drain_picos(1000), 64_000_000);
        assert_eq!(EmulatorModel::hasfs().drain_picos(1000), 0);
        let stopped = EmulatorModel::new(Duration::ZERO).with_bytes_per_second(0);
        assert_eq!(stopped.drain_picos(usize::MAX), u64::MAX);
        // Faster than a line a nanosecond is not without limit.
        let fast = |bytes| EmulatorModel::new(Duration::ZERO).with_bytes_per_second(bytes);
        assert_eq!(fast(100_000_000_000).drain_picos(1), 640);
        assert_eq!(fast(100_000_000_000).drain_picos(1000), 640_000);
        assert_eq!(fast(u64::MAX).drain_picos(1), 1);
    }

    #[test]
    fn a_flush_waits_per_line_and_a_stream_per_call() {
        let emulator = Emulator::new(EmulatorModel::new(Duration::from_micros(200)));
        assert!(takes(|| emulator.flushed(5)) >= Duration::from_millis(1));
        // Not five latencies; the margin is for a machine that is busy elsewhere.
        let quickest = (0..5).map(|_| takes(|| emulator.streamed(50))).min();
        assert!(quickest.is_some_and(|time| time < Duration::from_millis(9)));
        assert!(takes(|| emulator.streamed(1)) >= Duration::from_micros(200));
    }

    #[test]
    fn a_fence_waits_for_the_bandwidth() {
        let slow = EmulatorModel::new(Duration::ZERO).with_bytes_per_second(6_400_000);
        let emulator = Emulator::new(slow);
        let start = Instant::now();
        emulator.streamed(100);
        emulator.flushed(100);
        emulator.fenced();
        // 200 lines of 64 bytes at 6.4 MB/s.
        assert!(start.elapsed() >= Duration::from_millis(2));
    }
}
