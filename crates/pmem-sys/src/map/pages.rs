//! Durability by the page: what each thread flushed, and one group of calls for all threads that
//! fence at a time.
//!
//! Guarantees: when a fence returns `Ok`, exactly the pages that its own thread flushed through any
//! region of the span since its last fence are written back, as far as this thread is concerned.
//! Neighbours are merged.
//!
//! One thread at a time writes pages back, the *leader* of a group. Threads that fence meanwhile
//! are the next group: one of them leads it, and writes the pages of all of them. The group pays
//! for one flush of the disk's cache.
//!
//! Once a call fails the span is stuck for ever: the kernel reports an error once, to the first
//! caller that asks, and forgets it. For the same reason groups take turns. Otherwise one group's
//! call could collect the error of another's pages, and the other be told that all is well. A group
//! that failed has failed for each of its threads.
//!
//! What a crash may do: until the fence returns, the kernel may have written back any of the pages,
//! flushed or not. A page may be torn at the word.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use rustix::io::Errno;

use crate::lines::{Run, touched};

/// The unit of this file, and of the length of a mapped file. Larger pages of the machine are
/// handled where the call is made, which widens to them.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Runs a thread may have pending before they are merged on the spot for the first time.
const MERGE_AT_RUNS: usize = 256;

/// Writes runs of pages of the mapping back. They ascend, and no two touch.
pub(crate) type Syncer = Box<dyn Fn(&[Run]) -> Result<(), Errno> + Send + Sync>;

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

/// The groups of fences: the one that gathers, and those before it.
#[derive(Debug, Default)]
struct Groups {
    /// What the threads of the group that gathers have flushed.
    runs: Vec<Run>,
    /// How many have begun, which is the number of the one that gathers.
    begun: u64,
    /// How many have ended: all of those that began, or all but one.
    ended: u64,
    /// Which one failed, and how.
    failed: Option<(u64, Errno)>,
}

impl Groups {
    /// How a group has ended.
    fn result(&self, group: u64) -> Result<(), SyncError> {
        match self.failed {
            Some((failed, errno)) if failed == group => Err(SyncError::Failed(errno)),
            Some((failed, _)) if failed < group => Err(SyncError::Stuck),
            _ => Ok(()),
        }
    }
}

/// The page-granular side of one span.
pub(crate) struct Pages {
    syncer: Syncer,
    /// One entry per thread that has something pending. Few threads write to a span, so a list.
    pending: Mutex<Vec<Pending>>,
    groups: Mutex<Groups>,
    /// A group has ended.
    ended: Condvar,
    stuck: AtomicBool,
}

impl Pages {
    pub(crate) fn new(syncer: Syncer) -> Self {
        Self {
            syncer,
            pending: Mutex::new(Vec::new()),
            groups: Mutex::default(),
            ended: Condvar::new(),
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

    /// Has what this thread flushed written back.
    pub(crate) fn fence(&self) -> Result<(), SyncError> {
        let me = thread::current().id();
        let mut runs = {
            let mut pending = lock(&self.pending);
            match pending.iter().position(|entry| entry.thread == me) {
                Some(index) => pending.swap_remove(index).runs,
                None => Vec::new(),
            }
        };
        if runs.is_empty() {
            return if self.is_stuck() { Err(SyncError::Stuck) } else { Ok(()) };
        }
        let mut groups = lock(&self.groups);
        let mine = groups.begun;
        groups.runs.append(&mut runs);
        while groups.begun == mine && groups.ended < mine {
            groups = self.ended.wait(groups).unwrap_or_else(PoisonError::into_inner);
        }
        if groups.begun == mine {
            return self.lead(groups);
        }
        while groups.ended <= mine {
            groups = self.ended.wait(groups).unwrap_or_else(PoisonError::into_inner);
        }
        groups.result(mine)
    }

    /// Writes back what the threads of the group that gathers have flushed.
    fn lead(&self, mut groups: MutexGuard<'_, Groups>) -> Result<(), SyncError> {
        let mine = groups.begun;
        groups.begun += 1;
        let mut runs = core::mem::take(&mut groups.runs);
        drop(groups);
        merge(&mut runs);
        let written = if self.is_stuck() { Ok(()) } else { (self.syncer)(&runs) };
        let mut groups = lock(&self.groups);
        if let Err(errno) = written {
            self.stuck.store(true, Ordering::Release);
            groups.failed = Some((mine, errno));
        }
        groups.ended += 1;
        self.ended.notify_all();
        groups.result(mine)
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
        let pages = Pages::new(Box::new(move |runs| {
            lock(&copy).extend(runs.iter().map(|run| (run.start, run.count * PAGE_BYTES)));
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
        let pages = Pages::new(Box::new(|runs| match runs[0].start {
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

    /// A call that each test lets go on by hand, and how many runs each call had.
    fn held() -> (Pages, std::sync::mpsc::Sender<Result<(), Errno>>, Log) {
        let (go, gate) = std::sync::mpsc::channel();
        let (log, gate) = (Log::default(), Mutex::new(gate));
        let copy = Arc::clone(&log);
        let pages = Pages::new(Box::new(move |runs| {
            lock(&copy).push((runs.len(), runs.iter().map(|run| run.count).sum()));
            lock(&gate).recv().expect("the test says how it ends")
        }));
        (pages, go, log)
    }

    /// Flushes a page in a thread of its own, and fences.
    fn fence_of<'s>(
        scope: &'s thread::Scope<'s, '_>,
        pages: &'s Pages,
        at: usize,
    ) -> thread::ScopedJoinHandle<'s, Result<(), SyncError>> {
        scope.spawn(move || {
            pages.flushed(at, 1);
            pages.fence()
        })
    }

    /// Waits until something is so that other threads bring about.
    fn until(is_so: impl Fn() -> bool) {
        while !is_so() {
            thread::yield_now();
        }
    }

    #[test]
    fn threads_that_fence_during_a_call_share_the_next_one() {
        let (pages, go, log) = held();
        thread::scope(|scope| {
            let fence = |at| fence_of(scope, &pages, at);
            let first = fence(0);
            until(|| lock(&log).len() == 1);
            let others = [4096, 8192, 5 * 4096].map(fence);
            until(|| lock(&pages.groups).runs.len() == 3);
            assert_eq!(lock(&log).len(), 1, "one group at a time");
            go.send(Ok(())).expect("it is awaited");
            go.send(Ok(())).expect("it is awaited");
            assert_eq!(first.join().expect("no panic"), Ok(()));
            for other in others {
                assert_eq!(other.join().expect("no panic"), Ok(()));
            }
        });
        assert_eq!(*lock(&log), [(1, 1), (2, 3)], "the last one has the pages of three threads");
    }

    #[test]
    fn a_group_that_fails_fails_for_each_of_its_threads_and_no_earlier_one() {
        let (pages, go, log) = held();
        thread::scope(|scope| {
            let fence = |at| fence_of(scope, &pages, at);
            let first = fence(0);
            until(|| lock(&log).len() == 1);
            let others = [4096, 8192].map(fence);
            until(|| lock(&pages.groups).runs.len() == 2);
            go.send(Ok(())).expect("it is awaited");
            go.send(Err(Errno::IO)).expect("it is awaited");
            assert_eq!(first.join().expect("no panic"), Ok(()));
            for other in others {
                let result = other.join().expect("no panic");
                assert_eq!(result, Err(SyncError::Failed(Errno::IO)));
            }
        });
        pages.flushed(0, 1);
        assert_eq!(pages.fence(), Err(SyncError::Stuck));
    }

    #[test]
    fn no_fence_returns_before_its_pages_are_written() {
        let written = Arc::new(Mutex::new(BTreeSet::new()));
        let copy = Arc::clone(&written);
        let pages = Pages::new(Box::new(move |runs| {
            for run in runs {
                thread::yield_now();
                lock(&copy).extend((0..run.count).map(|page| run.start / PAGE_BYTES + page));
            }
            Ok(())
        }));
        let rounds = if cfg!(miri) { 5 } else { 500 };
        thread::scope(|scope| {
            for number in 0..4 {
                let (pages, written) = (&pages, &written);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let page = number + 4 * round;
                        pages.flushed(page * PAGE_BYTES, 8);
                        assert_eq!(pages.fence(), Ok(()));
                        assert!(lock(written).contains(&page));
                    }
                });
            }
        });
        let groups = lock(&pages.groups);
        assert_eq!((groups.begun, groups.runs.len()), (groups.ended, 0));
    }

    /// Pages that cannot be joined are not sorted at every flush; flushes that can are not kept.
    #[test]
    #[cfg_attr(miri, ignore = "a long list of plain numbers")]
    fn merging_is_rare_where_it_gains_nothing_and_bounds_the_list_where_it_does() {
        let of_this_thread = |pages: &Pages| {
            let pending = lock(&pages.pending);
            pending.first().map(|mine| (mine.runs.len(), mine.merge_at))
        };
        let (pages, log) = recording();
        let count = 20_000;
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
    const RANGES: usize = if cfg!(miri) { 6 } else { 400 };

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
