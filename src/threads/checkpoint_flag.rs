//! Whether a checkpoint is under way, for a thread that would forget frames that the checkpoint
//! uses.
//!
//! W1. A thread may build on what every checkpoint finds durable. A checkpoint whose
//!     snapshot lacks it is over, and a later snapshot has it.
//!
//! The thread that makes a record durable says so while it has the record's lane. A checkpoint sets
//! its flag before it takes that lane for its snapshot. Suppose the record was not durable by then.
//! A thread that later sees that the record is durable also sees the flag: both went through the
//! lane's lock. Nothing else orders them.

use crate::threads::sync::{AtomicBool, Ordering};

/// Set from before a checkpoint takes its snapshot of the lanes until it needs that no more.
#[derive(Debug)]
pub(crate) struct UnderWay(AtomicBool);

impl UnderWay {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Begins: a checkpoint is about to take its snapshot. One at a time is under way.
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Ends: the checkpoint does not use its snapshot any more.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether every checkpoint finds durable what `is_durable` reports as durable.
    #[inline]
    pub(crate) fn all_find(&self, is_durable: impl FnOnce() -> bool) -> bool {
        // In this order: a thread that sees the record durable also sees the flag of a checkpoint
        // before.
        is_durable() && !self.0.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod explored;
