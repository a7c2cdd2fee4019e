//! Callers that are told when what they have committed is durable, and wait for it in no thread.
//!
//! WT1. A watcher is told once: by the thread that makes its record durable, that makes the journal
//!      fail, or that drops the journal.
//! WT2. A watcher comes with its lane in hand, and looks there whether it is too late. So the
//!      lane's next holder sees it.

use core::task::Waker;
use std::sync::{Arc, PoisonError};

use journal_core::units::Sequence;

use crate::threads::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering};

/// How it ended: whether it is durable.
type Tell = Box<dyn FnOnce(bool) + Send>;

struct Watcher {
    sequence: Sequence,
    tell: Option<Tell>,
}

impl Watcher {
    fn end(mut self, is_durable: bool) {
        if let Some(tell) = self.tell.take() {
            tell(is_durable);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            tell(false);
        }
    }
}

/// The watchers of a lane.
pub(crate) struct Watchers {
    count: AtomicUsize,
    all: Mutex<Vec<Watcher>>,
    /// Whether the journal has failed.
    is_over: AtomicBool,
}

impl Watchers {
    pub(crate) fn none() -> Arc<Self> {
        let (count, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { count, all: Mutex::new(Vec::new()), is_over })
    }

    /// Adds a watcher of a record that is not durable yet. The caller has the lane.
    pub(crate) fn add(&self, sequence: Sequence, tell: Tell) {
        let mut all = self.lock();
        all.push(Watcher { sequence, tell: Some(tell) });
        self.count.store(all.len(), Ordering::Relaxed);
        drop(all);
        if self.is_over.load(Ordering::SeqCst) {
            self.end_all();
        }
    }

    /// Whether there are any. The caller has the lane.
    #[inline(always)]
    pub(crate) fn are_there(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Takes out those of records below `durable_to`. The caller has the lane, and tells them when
    /// it has given that back.
    #[cold]
    pub(crate) fn due(&self, durable_to: Sequence) -> Due {
        let mut all = self.lock();
        let (due, left) = core::mem::take(&mut *all)
            .into_iter()
            .partition(|watcher: &Watcher| watcher.sequence < durable_to);
        *all = left;
        self.count.store(all.len(), Ordering::Relaxed);
        Due(due)
    }

    /// Tells all that nothing more becomes durable.
    #[cold]
    pub(crate) fn end_all(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let all = core::mem::take(&mut *self.lock());
        all.into_iter().for_each(|watcher| watcher.end(false));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watcher>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl core::fmt::Debug for Watchers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Watchers").field("count", &self.count).finish_non_exhaustive()
    }
}

/// Watchers whose records are durable.
#[derive(Default)]
pub(crate) struct Due(Vec<Watcher>);

impl Due {
    /// Tells them. No lane is in hand.
    #[inline(always)]
    pub(crate) fn tell(self) {
        if !self.0.is_empty() {
            self.0.into_iter().for_each(|watcher| watcher.end(true));
        }
    }
}

/// What a future and its watcher share.
#[derive(Debug)]
pub(crate) struct Told(Mutex<(Option<bool>, Option<Waker>)>);

impl Told {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new((None, None))))
    }

    /// Tells the future, and wakes its task.
    pub(crate) fn tell(&self, is_durable: bool) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = Some(is_durable);
        let waker = state.1.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What it was told, or else the task is woken when it is told.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<bool> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0.is_none() {
            state.1 = Some(waker.clone());
        }
        state.0
    }
}
