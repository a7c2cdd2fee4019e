//! The turn in a lane, and the group of records that its last committer fences.
//!
//! LT1. One thread at a time has the lane.
//! LT2. A thread that is seen waiting to commit will have the lane after the thread that sees it.
//!     So a record may be left to it to fence. A waiter announces itself before it waits. It
//!     withdraws that when it has the lane, not when it gives the lane back.
//!
//! A waiter makes durable what was left to it, whatever becomes of its own transaction.

use crossbeam_utils::CachePadded;
use pmem_sys::{FarFence, Poisoned, StoreLock, StoreLockGuard};

use crate::threads::sync::{AtomicU32, Ordering};

/// The most records that one fence makes durable, in a group.
const GROUP_MAX: u32 = 32;

/// A lock on a lane that says whether a thread waits to commit.
#[derive(Debug)]
pub(crate) struct Turn<T> {
    state: StoreLock<T>,
    /// Threads that wait for the lane in order to commit.
    committers: CachePadded<AtomicU32>,
}

/// Records that are stored, and left to the next committer to fence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Group {
    records: u32,
}

impl<T> Turn<T> {
    /// Makes a lane that favours a thread that commits there again and again, where the system has
    /// far fences.
    pub(crate) fn new(state: T, far: Option<FarFence>) -> Self {
        let committers = CachePadded::new(AtomicU32::new(0));
        Self { state: StoreLock::favouring(state, far), committers }
    }

    /// Takes the lane in order to commit: other threads see that this one waits.
    #[inline(always)]
    pub(crate) fn take_to_commit(&self) -> Result<StoreLockGuard<'_, T>, Poisoned> {
        match self.state.try_lock()? {
            Some(guard) => Ok(guard),
            None => self.wait_to_commit(),
        }
    }

    #[cold]
    fn wait_to_commit(&self) -> Result<StoreLockGuard<'_, T>, Poisoned> {
        self.committers.fetch_add(1, Ordering::Relaxed);
        let locked = self.state.lock();
        self.committers.fetch_sub(1, Ordering::Relaxed);
        locked
    }

    /// Takes the lane for a moment, if this thread is favoured there and has it not yet. No other
    /// thread leaves a record to it, since it is not seen waiting.
    #[inline]
    pub(crate) fn take_by_favour(&self) -> Option<StoreLockGuard<'_, T>> {
        self.state.try_lock_by_favour()
    }

    /// Takes the lane for anything else.
    #[inline]
    pub(crate) fn take(&self) -> Result<StoreLockGuard<'_, T>, Poisoned> {
        self.state.lock()
    }

    /// Whether other threads wait to commit here.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.committers.load(Ordering::Relaxed) > 0
    }

    /// Whether a thread panicked while it had the lane: no thread will fence what is stored.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.state.is_poisoned()
    }
}

impl Group {
    /// Whether a committer waits for the lane's holder to fence.
    #[inline]
    pub(crate) const fn is_awaited(self) -> bool {
        self.records > 0
    }

    /// Whether one more record may be left to the next committer.
    #[inline]
    pub(crate) const fn has_room(self) -> bool {
        self.records + 1 < GROUP_MAX
    }

    /// Counts a record that is left to the next committer.
    #[inline]
    pub(crate) const fn leave(&mut self) {
        self.records += 1;
    }

    /// Ends the group: all that was left is durable.
    #[inline]
    pub(crate) const fn end(&mut self) {
        if self.is_awaited() {
            self.records = 0;
        }
    }
}

#[cfg(all(test, loom))]
mod explored;
