//! Room of a lane that is neither used nor reserved.
//!
//! FS1. No more is promised than there is, however many threads ask at once.
//! FS2. What is given back was used up before or was never used. A thread that frees room in a lane
//!     frees it first, and counts it then.

use crate::threads::sync::{AtomicU64, Ordering};

/// How much is neither used nor reserved, in bytes or in pieces.
#[derive(Debug)]
pub(crate) struct Unreserved(AtomicU64);

impl Unreserved {
    pub(crate) fn new(left: u64) -> Self {
        Self(AtomicU64::new(left))
    }

    /// How much there is at this moment.
    #[inline]
    pub(crate) fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Reserves `count`, if at least `kept` is left after that; returns what is left.
    #[inline]
    pub(crate) fn take(&self, count: u64, kept: u64) -> Option<u64> {
        let take = |free: u64| free.checked_sub(count).filter(|left| *left >= kept);
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.ok().map(|before| before - count)
    }

    /// Gives back what was reserved, or has come free.
    #[inline]
    pub(crate) fn give(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod explored;
