//! Whose turn it is in a lane, and the group whose last one fences.
//!
//! T1. One at a time has the lane.
//! T2. Who is seen waiting to commit will have the lane after whoever sees it: so a record may be
//!     left to it to fence. A waiter says that it has come before it waits, and takes that back
//!     when it has the lane, and not when it has given it back.
//!
//! What was left to a waiter it makes durable whatever becomes of its own transaction.

use crossbeam_utils::CachePadded;
use pmem_sys::{FarFence, Poisoned, StoreLock, StoreLockGuard};

use crate::threads::sync::{AtomicU32, Ordering};

/// The most records that one fence makes durable, in a group.
const GROUP_MAX: u32 = 32;

/// A lock on a lane that says whether somebody waits to commit.
#[derive(Debug)]
pub(crate) struct Turn<T> {
    state: StoreLock<T>,
    /// Threads that wait for the lane in order to commit.
    committers: CachePadded<AtomicU32>,
}

/// Records that are stored, and left to the next one to fence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Group {
    records: u32,
}

impl<T> Turn<T> {
    /// The lane favours who commits there again and again, where the system has such fences.
    pub(crate) fn new(state: T, far: Option<FarFence>) -> Self {
        let committers = CachePadded::new(AtomicU32::new(0));
        Self { state: StoreLock::favouring(state, far), committers }
    }

    /// Takes the lane in order to commit: others see that somebody waits.
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

    /// Takes the lane for anything else.
    #[inline]
    pub(crate) fn take(&self) -> Result<StoreLockGuard<'_, T>, Poisoned> {
        self.state.lock()
    }

    /// Whether others are waiting to commit here.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.committers.load(Ordering::Relaxed) > 0
    }

    /// Whether a thread panicked while it had the lane: nobody will fence what is stored.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.state.is_poisoned()
    }
}

impl Group {
    /// Whether somebody waits for the lane's holder to fence.
    #[inline]
    pub(crate) const fn is_awaited(self) -> bool {
        self.records > 0
    }

    /// Whether one more record may be left to the next one.
    #[inline]
    pub(crate) const fn has_room(self) -> bool {
        self.records + 1 < GROUP_MAX
    }

    /// A record is left to the next one.
    #[inline]
    pub(crate) const fn leave(&mut self) {
        self.records += 1;
    }

    /// All that was left is durable.
    #[inline]
    pub(crate) const fn end(&mut self) {
        if self.is_awaited() {
            self.records = 0;
        }
    }
}

#[cfg(all(test, loom))]
mod explored;
