//! Durability by the page: what each thread flushed, and one system call per run of pages.
//!
//! Guarantees: a fence writes back exactly the pages that its own thread flushed through any region
//! of the span since its last fence. Neighbours are merged. It returns `Ok` only if every call did.
//!
//! Once a call fails the span is stuck for ever: the kernel reports an error once, to the first
//! caller that asks, and forgets it. For the same reason fences of different threads take turns.
//! Otherwise one thread's call could collect the error of another's pages, and the other be told
//! that all is well.
//!
//! What a crash may do: until the fence returns, the kernel may have written back any of the pages,
//! flushed or not. A page may be torn at the word.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use rustix::io::Errno;

use crate::lines::{Run, touched};

/// The unit of this file, and of the length of a mapped file. Larger pages of the machine are
/// handled where the call is made, which widens to them.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Runs a thread may have pending before they are merged on the spot for the first time.
const MERGE_AT_RUNS: usize = 256;

/// Writes a range of the mapping back: position and length in bytes.
pub(crate) type Syncer = Box<dyn Fn(usize, usize) -> Result<(), Errno> + Send + Sync>;

/// Why a fence did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncError {
    /// The system call failed, now.
    Failed(Errno),
    /// A call failed earlier.
    Stuck,
}

/// What one thread flushed and has not fenced.
#[derive(Debug)]
struct Pending {
    thread: ThreadId,
    runs: Vec<Run>,
    /// Runs at which they are merged: twice what the last merge left, so that many scattered pages
    /// are not sorted again at every flush.
    merge_at: usize,
}

impl Pending {
    fn push(&mut self, run: Run) {
        if self.runs.last() == Some(&run) {
            return;
        }
        self.runs.push(run);
        if self.runs.len() >= self.merge_at {
            merge(&mut self.runs);
            self.merge_at = MERGE_AT_RUNS.max(2 * self.runs.len());
        }
    }
}

/// The page-granular side of one span.
pub(crate) struct Pages {
    syncer: Syncer,
    /// One entry per thread that has something pending. Few threads write to a span, so a list.
    pending: Mutex<Vec<Pending>>,
    /// Held across the system calls of one fence.
    turn: Mutex<()>,
    stuck: AtomicBool,
}

impl Pages {
    pub(crate) fn new(syncer: Syncer) -> Self {
        Self {
            syncer,
            pending: Mutex::new(Vec::new()),
            turn: Mutex::new(()),
            stuck: AtomicBool::new(false),
        }
    }

    /// Whether an earlier fence failed.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Acquire)
    }

    /// This thread flushed `len` bytes at `at` of the span.
    pub(crate) fn flushed(&self, at: usize, len: usize) {
        let run = touched(at, len, PAGE_BYTES);
        if run.count == 0 {
            return;
        }
        let me = thread::current().id();
        let mut pending = lock(&self.pending);
        match pending.iter_mut().find(|entry| entry.thread == me) {
            Some(mine) => mine.push(run),
            None => {
                pending.push(Pending { thread: me, runs: vec![run], merge_at: MERGE_AT_RUNS });
            }
        }
    }

    /// Writes back what this thread flushed.
    pub(crate) fn fence(&self) -> Result<(), SyncError> {
        let me = thread::current().id();
        let mut runs = {
            let mut pending = lock(&self.pending);
            match pending.iter().position(|entry| entry.thread == me) {
                Some(index) => pending.swap_remove(index).runs,
                None => Vec::new(),
            }
        };
        merge(&mut runs);
        let _turn = lock(&self.turn);
        if self.is_stuck() {
            return Err(SyncError::Stuck);
        }
        for run in runs {
            if let Err(errno) = (self.syncer)(run.start, run.count * PAGE_BYTES) {
                self.stuck.store(true, Ordering::Release);
                return Err(SyncError::Failed(errno));
            }
        }
        Ok(())
    }
}

impl core::fmt::Debug for Pages {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pages")
            .field("pending", &*lock(&self.pending))
            .field("stuck", &self.is_stuck())
            .finish_non_exhaustive()
    }
}

/// A panic elsewhere leaves the lists whole: every change to them is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sorts the runs and joins those that overlap or touch.
fn merge(runs: &mut Vec<Run>) {
    runs.sort_unstable_by_key(|run| run.start);
    runs.dedup_by(|next, merged| {
        let end = merged.start + merged.count * PAGE_BYTES;
        let joins = next.start <= end;
        if joins {
            let next_end = next.start + next.count * PAGE_BYTES;
            merged.count = (next_end.max(end) - merged.start) / PAGE_BYTES;
        }
        joins
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    type Log = Arc<Mutex<Vec<(usize, usize)>>>;

    fn recording() -> (Pages, Log) {
        let log = Log::default();
        let copy = Arc::clone(&log);
        let pages = Pages::new(Box::new(move |at, len| {
            lock(&copy).push((at, len));
            Ok(())
        }));
        (pages, log)
    }

    #[test]
    fn a_fence_writes_back_just_what_was_flushed_merged() {
        let (pages, log) = recording();
        pages.flushed(9 * 4096 + 5, 1);
        pages.flushed(4095, 2);
        pages.flushed(2 * 4096, 4096);
        pages.flushed(100, 0);
        pages.flushed(9 * 4096 + 7, 8);
        assert_eq!(pages.fence(), Ok(()));
        assert_eq!(*lock(&log), [(0, 3 * 4096), (9 * 4096, 4096)]);
        assert_eq!(pages.fence(), Ok(()));
        assert_eq!(lock(&log).len(), 2, "a fence with nothing pending makes no call");
    }

    #[test]
    fn a_fence_completes_its_own_thread_and_no_other() {
        let (pages, log) = recording();
        pages.flushed(0, 8);
        thread::scope(|scope| {
            scope.spawn(|| {
                pages.flushed(5 * 4096, 8);
                assert_eq!(pages.fence(), Ok(()));
            });
        });
        assert_eq!(*lock(&log), [(5 * 4096, 4096)]);
        assert_eq!(pages.fence(), Ok(()));
        assert_eq!(*lock(&log), [(5 * 4096, 4096), (0, 4096)]);
    }

    #[test]
    fn a_failed_call_is_told_once_and_remembered_for_everybody() {
        let pages = Pages::new(Box::new(|at, _| match at {
            0 => Ok(()),
            _ => Err(Errno::IO),
        }));
        pages.flushed(0, 1);
        assert_eq!(pages.fence(), Ok(()));
        assert!(!pages.is_stuck());
        pages.flushed(8192, 1);
        assert_eq!(pages.fence(), Err(SyncError::Failed(Errno::IO)));
        assert!(pages.is_stuck());
        assert_eq!(pages.fence(), Err(SyncError::Stuck));
        thread::scope(|scope| {
            scope.spawn(|| {
                pages.flushed(0, 1);
                assert_eq!(pages.fence(), Err(SyncError::Stuck));
            });
        });
    }

    /// Pages that cannot be joined are not sorted at every flush; flushes that can are not kept.
    #[test]
    fn merging_is_rare_where_it_gains_nothing_and_bounds_the_list_where_it_does() {
        let of_this_thread = |pages: &Pages| {
            let pending = lock(&pages.pending);
            pending.first().map(|mine| (mine.runs.len(), mine.merge_at))
        };
        let (pages, log) = recording();
        let count = if cfg!(miri) { 1_000 } else { 20_000 };
        let scattered = || (0..count).map(|index| (index * 7919 % count) * 2 * 4096);
        scattered().for_each(|at| pages.flushed(at, 8));
        let (runs, merge_at) = of_this_thread(&pages).expect("much is pending");
        assert_eq!(runs, count);
        assert!(merge_at > count && merge_at <= 2 * count, "{merge_at}");
        scattered().for_each(|at| pages.flushed(at, 8));
        let (runs, _) = of_this_thread(&pages).expect("much is pending");
        assert!(runs < 2 * count, "the second time brought nothing new: {runs}");
        assert_eq!(pages.fence(), Ok(()));
        assert_eq!(lock(&log).len(), count);
    }

    /// Ranges of one case; few under Miri, which is slow.
    const RANGES: usize = if cfg!(miri) { 20 } else { 400 };

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 2 } else { 500 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn exactly_the_touched_pages_are_written_back_once(
            ranges in proptest::collection::vec((0usize..1 << 20, 0usize..20_000), 0..RANGES),
        ) {
            let (pages, log) = recording();
            let mut expected = BTreeSet::new();
            for (at, len) in ranges {
                pages.flushed(at, len);
                let run = touched(at, len, PAGE_BYTES);
                expected.extend((0..run.count).map(|i| run.start + i * PAGE_BYTES));
            }
            prop_assert_eq!(pages.fence(), Ok(()));
            let calls = lock(&log).clone();
            let written: Vec<_> =
                calls.iter().flat_map(|&(at, len)| (at..at + len).step_by(PAGE_BYTES)).collect();
            prop_assert_eq!(written, expected.into_iter().collect::<Vec<_>>());
            prop_assert!(calls.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0));
        }
    }
}
