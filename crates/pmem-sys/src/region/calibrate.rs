//! From which length on does streaming beat storing and flushing, on this machine?
//!
//! Guarantees: nothing is measured unless asked. Measuring takes a few milliseconds. The content of
//! the region stays what it was, since only what was read is written back. So a crash in the middle
//! changes nothing either. The answer is a matter of speed only.
//!
//! What is written is outside the caches when the clock starts, as it is in a log that is larger
//! than they are. Streaming to a line that is in a cache costs many times as much, and would be
//! measured instead.

use std::time::Instant;

use journal_core::{Granularity, LINE_BYTES, MediumError, Offset, Pmem, PmemRead};

use crate::processor::method::Method;
use crate::region::Region;

/// Commits of these many lines are measured.
const LINES: [usize; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64];

/// Commits per timing: long enough for the clock, short enough that an interruption spoils few.
const BATCH: usize = 12;

/// Timings of each kind and length; the median counts.
const ROUNDS: usize = 15;

/// The longest commit measured.
const LONGEST_BYTES: usize = LINES[LINES.len() - 1] * LINE_BYTES;

/// The longest batch.
const BATCH_BYTES: usize = BATCH * LONGEST_BYTES;

/// How much of a region is used, if it has as much: no line is written twice.
const WINDOW_BYTES: usize = 8 << 20;

/// What commits of one length cost.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CalibrationPoint {
    /// Lines of a commit.
    pub lines: usize,
    /// Median of storing, flushing and fencing, in nanoseconds.
    pub store_nanos: f64,
    /// Median of streaming over the same, round by round: below one, streaming wins.
    pub stream_to_store: f64,
}

/// What [`Region::calibrate`] measured and concluded.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Calibration {
    /// The threshold that the region has now.
    pub stream_from_bytes: usize,
    /// The measurements, shortest commit first; empty if there was nothing to measure.
    pub points: Vec<CalibrationPoint>,
}

impl Calibration {
    /// Nanoseconds in which the memory takes in another line, where several are on their way: what
    /// the adaptive policy asks of a medium. It is how much longer the longest commit takes than
    /// the second longest, each the faster way. `None` if nothing was measured.
    ///
    /// ```
    /// use pmem_sys::Region;
    ///
    /// let (_region, measured) = Region::anonymous(16 << 20)?.calibrate()?;
    /// assert!(measured.line_nanos().is_some_and(|nanos| nanos >= 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn line_nanos(&self) -> Option<u32> {
        let [.., shorter, longest] = &self.points[..] else { return None };
        let nanos = |point: &CalibrationPoint| point.store_nanos * point.stream_to_store.min(1.0);
        let lines = longest.lines.saturating_sub(shorter.lines).max(1);
        let each = (nanos(longest) - nanos(shorter)) / lines as f64;
        // A clock that jumped says less than nothing.
        Some(each.round().clamp(1.0, u32::MAX.into()) as u32)
    }
}

impl Region {
    /// Measures from which length on streaming is cheaper than storing and flushing. It does so by
    /// commits of 1 to 64 lines with one fence each. It sets
    /// [`PmemFacts::stream_from_bytes`](journal_core::PmemFacts::stream_from_bytes) of this region,
    /// and of the parts that are cut from it later.
    ///
    /// Takes a few milliseconds. A page-granular medium, or a region below 48 KiB, is left as it
    /// is.
    ///
    /// # Errors
    /// The medium's; the region is gone then.
    pub fn calibrate(mut self) -> Result<(Self, Calibration), MediumError> {
        let points = measure(&mut self)?;
        let stream_from_bytes =
            if points.is_empty() { self.facts().stream_from_bytes } else { threshold(&points) };
        let region = self.with_stream_from_bytes(stream_from_bytes);
        Ok((region, Calibration { stream_from_bytes, points }))
    }
}

/// The shortest length from which streaming wins at every measured length.
fn threshold(points: &[CalibrationPoint]) -> usize {
    let wins = points.iter().rev().take_while(|point| point.stream_to_store <= 1.0);
    wins.last().map_or(usize::MAX, |shortest| shortest.lines * LINE_BYTES)
}

fn measure(region: &mut Region) -> Result<Vec<CalibrationPoint>, MediumError> {
    let len = usize::try_from(region.len()).unwrap_or(usize::MAX).min(WINDOW_BYTES);
    if region.facts().granularity == Granularity::Page || len < BATCH_BYTES {
        return Ok(Vec::new());
    }
    let content = vec![0; BATCH_BYTES];
    let mut window = Window { region, len, next: 0, content, evicting: Method::evicting() };
    LINES.iter().map(|&lines| window.point(lines)).collect()
}

/// A part of the region, written over with what it holds.
struct Window<'a> {
    region: &'a mut Region,
    len: usize,
    next: usize,
    /// What the next batch writes.
    content: Vec<u8>,
    /// Flushes lines out of the caches.
    evicting: Method,
}

impl Window<'_> {
    fn point(&mut self, lines: usize) -> Result<CalibrationPoint, MediumError> {
        let mut stores = Vec::with_capacity(ROUNDS);
        let mut ratios = Vec::with_capacity(ROUNDS);
        // The first round warms up and is dropped.
        for round in 0..=ROUNDS {
            // Each goes first in every second round: what disturbs one disturbs the other.
            let (store, stream) = if round % 2 == 0 {
                let store = self.batch(lines, false)?;
                (store, self.batch(lines, true)?)
            } else {
                let stream = self.batch(lines, true)?;
                (self.batch(lines, false)?, stream)
            };
            if round > 0 {
                stores.push(store);
                ratios.push(stream / store);
            }
        }
        Ok(CalibrationPoint {
            lines,
            store_nanos: median(&mut stores),
            stream_to_store: median(&mut ratios),
        })
    }

    /// Takes the next part of the region, learns its content, and gets it out of the caches.
    fn prepare(&mut self, bytes: usize) -> Result<u64, MediumError> {
        if self.next + bytes > self.len {
            self.next = 0;
        }
        let at = self.next as u64;
        self.next += bytes;
        let content = &mut self.content[..bytes];
        self.region.read_into(Offset(at), content)?;
        // Written once before the clock starts: the first write to a page is the kernel's business.
        self.region.store(Offset(at), content);
        self.region.flush_by(self.evicting, Offset(at), bytes);
        self.region.fence()?;
        Ok(at)
    }

    /// Nanoseconds per commit.
    fn batch(&mut self, lines: usize, stream: bool) -> Result<f64, MediumError> {
        let len = lines * LINE_BYTES;
        let start_at = self.prepare(BATCH * len)?;
        let start = Instant::now();
        for (commit, bytes) in self.content[..BATCH * len].chunks_exact(len).enumerate() {
            let at = Offset(start_at + (commit * len) as u64);
            if stream {
                self.region.stream(at, bytes);
            } else {
                self.region.store(at, bytes);
                self.region.flush(at, len);
            }
            self.region.fence()?;
        }
        // A clock that did not move at all must not divide by zero.
        Ok(start.elapsed().as_nanos().max(1) as f64 / BATCH as f64)
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(ratios: &[f64]) -> Vec<CalibrationPoint> {
        let point = |(&lines, &stream_to_store)| CalibrationPoint {
            lines,
            store_nanos: 1.0,
            stream_to_store,
        };
        LINES.iter().zip(ratios).map(point).collect()
    }

    #[test]
    fn the_threshold_is_the_shortest_length_from_which_streaming_always_wins() {
        assert_eq!(threshold(&points(&[0.9, 0.8, 0.7])), 64);
        assert_eq!(threshold(&points(&[1.2, 1.1, 0.9, 0.8])), 3 * 64);
        assert_eq!(threshold(&points(&[0.9, 1.1, 0.9, 0.8])), 3 * 64, "a stroke of luck is none");
        assert_eq!(threshold(&points(&[0.9, 1.1])), usize::MAX);
    }

    #[test]
    fn a_line_takes_what_the_longest_commit_takes_more() {
        let of = |points: &[(usize, f64, f64)]| {
            let point = |(lines, store_nanos, stream_to_store): &(usize, f64, f64)| {
                let (store_nanos, stream_to_store) = (*store_nanos, *stream_to_store);
                CalibrationPoint { lines: *lines, store_nanos, stream_to_store }
            };
            let points = points.iter().map(point).collect();
            Calibration { stream_from_bytes: 0, points }.line_nanos()
        };
        assert_eq!(of(&[(1, 9.0, 1.0), (32, 400.0, 0.5), (64, 1160.0, 0.5)]), Some(12));
        assert_eq!(of(&[(32, 200.0, 2.0), (64, 580.0, 3.0)]), Some(12), "by stores");
        assert_eq!(of(&[(32, 200.0, 1.0), (64, 100.0, 1.0)]), Some(1));
        assert_eq!(of(&[(32, 200.0, 1.0)]), None);
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert!(median(&mut []).is_nan());
    }
}
