//! How far a lane is: what of it may be read, what is durable, and whether a record is deferred.
//!
//! DR1. A reader that finds a record readable reads its content. A thread that finds a record
//!     durable sees what the fence has made durable.
//! DR2. What is durable is readable. A slot may be written again once the version that follows it
//!     is durable. A reader that missed that version would still copy from the slot.
//! DR3. A thread that finds a record readable also finds it durable, or finds that something is
//!     deferred. So a thread that builds on the record makes it durable first.
//!
//! One thread at a time writes here, the holder of the lane. It writes by plain stores alone,
//! because this is between a commit's fence and its return.

use crossbeam_utils::CachePadded;
use journal_core::units::Sequence;

use crate::threads::sync::{AtomicBool, AtomicU64, Ordering};

/// What others may know of a lane without its lock.
#[derive(Debug)]
pub(crate) struct Reach {
    /// Every record below is durable.
    durable_to: AtomicU64,
    /// Every record below may be read: it is durable, or was deferred.
    readable_to: AtomicU64,
    /// Whether deferred records wait to be flushed. It has a cache line of its own (C6).
    has_deferred: CachePadded<AtomicBool>,
}

impl Reach {
    /// Makes the state of a lane in which everything is durable.
    pub(crate) fn new(durable_to: Sequence) -> Self {
        Self {
            durable_to: AtomicU64::new(durable_to.raw()),
            readable_to: AtomicU64::new(durable_to.raw()),
            has_deferred: CachePadded::new(AtomicBool::new(false)),
        }
    }

    /// Whether a frame of this sequence may be read.
    #[inline]
    pub(crate) fn is_readable(&self, sequence: Sequence) -> bool {
        // Pairs with the release in `let_read`: with the sequence comes the content.
        sequence.raw() < self.readable_to.load(Ordering::Acquire)
    }

    /// How far the lane may be read, for a caller that reads no content.
    pub(crate) fn readable_to(&self) -> u64 {
        self.readable_to.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn is_durable(&self, sequence: Sequence) -> bool {
        sequence.raw() < self.durable_to.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn has_deferred(&self) -> bool {
        self.has_deferred.load(Ordering::Acquire)
    }

    /// Tells all threads what the lane's holder has made durable, and whether anything is left that
    /// is not.
    #[inline]
    pub(crate) fn publish(&self, durable_to: Sequence, has_deferred: bool) {
        // In this order for DR2. For a thread that looks whether anything is deferred, DR3 asks for
        // it too.
        if self.readable_to.load(Ordering::Relaxed) < durable_to.raw() {
            self.let_read(durable_to);
        }
        self.say_durable(durable_to);
        if !has_deferred && self.has_deferred.load(Ordering::Relaxed) {
            self.say_deferred(false);
        }
    }

    /// Lets all threads read the records that the lane's holder stored, durable or not.
    pub(crate) fn publish_deferred(&self, next: Sequence) {
        // C6: mostly it is said already.
        if !self.has_deferred.load(Ordering::Relaxed) {
            self.say_deferred(true);
        }
        self.let_read(next);
    }

    #[inline]
    fn let_read(&self, to: Sequence) {
        self.readable_to.store(to.raw(), Ordering::Release);
    }

    #[inline]
    fn say_durable(&self, to: Sequence) {
        self.durable_to.store(to.raw(), Ordering::Release);
    }

    #[inline]
    fn say_deferred(&self, is_so: bool) {
        self.has_deferred.store(is_so, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod explored;
