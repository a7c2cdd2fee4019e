//! Scanning the lanes of a journal that is being opened, by several threads where that pays.

use core::num::NonZero;
use std::thread;

use journal_core::parts::{Scanning, Unscanned};
use journal_core::units::LaneNumber;
use journal_core::{Hook, Kernels, Pmem};

/// A lane of this size is scanned in about a tenth of a millisecond: less is not worth a thread.
const WORTH_A_THREAD_BYTES: u64 = 1 << 20;

/// Scans all lanes; `front` is large enough for one front.
pub(crate) fn scan<'u, P: Pmem + Sync, H: Hook + Sync, K: Kernels + Sync>(
    unscanned: &Unscanned<'u, P, H>,
    kernels: &K,
    front: &mut [u8],
) -> Scanning<'u> {
    scan_by(threads_for(unscanned), unscanned, kernels, front)
}

/// How many threads scan: each has at least a lane, and enough bytes to be worth its while.
fn threads_for<P: Pmem, H: Hook>(unscanned: &Unscanned<'_, P, H>) -> usize {
    let geometry = unscanned.geometry();
    if geometry.lanes == 1 || geometry.lane_bytes < WORTH_A_THREAD_BYTES {
        return 1;
    }
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    processors.min(geometry.lanes.into())
}

/// Scans all lanes by `threads` threads, the caller's among them.
fn scan_by<'u, P: Pmem + Sync, H: Hook + Sync, K: Kernels + Sync>(
    threads: usize,
    unscanned: &Unscanned<'u, P, H>,
    kernels: &K,
    front: &mut [u8],
) -> Scanning<'u> {
    let lanes: Vec<LaneNumber> = unscanned.lanes().collect();
    let mut pieces = lanes.chunks(lanes.len().div_ceil(threads));
    let own = pieces.next().unwrap_or_default();
    let scan = |lanes: &[LaneNumber], front: &mut [u8]| {
        unscanned.scan(lanes.iter().copied(), kernels, front)
    };
    thread::scope(|scope| {
        let front_bytes = front.len();
        let others: Vec<_> = pieces
            .map(|lanes| {
                let scan = move || scan(lanes, &mut vec![0; front_bytes]);
                let thread = thread::Builder::new().name("nvmj-scan".into());
                (lanes, thread.spawn_scoped(scope, scan))
            })
            .collect();
        let own = scan(own, front);
        // The scan of the lowest lanes says what is wrong, as one thread would.
        let scans =
            others.into_iter().map(|(lanes, other)| match other.map(|other| other.join()) {
                Ok(Ok(scan)) => scan,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                // The system has no thread to give, which is no reason not to open.
                Err(_) => scan(lanes, front),
            });
        scans.fold(own, |known, more| Ok(known?.and(more?)))
    })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
