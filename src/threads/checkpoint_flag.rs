//! Whether a checkpoint is under way, for who would forget frames that it goes by.
//!
//! W1. What every checkpoint finds durable may be built on: one that has settled without it is
//!     over, and one that settles later finds it.
//!
//! Who makes a record durable says so while it has the record's lane, and a checkpoint begins
//! before it takes that lane to settle. So where the record was not durable by then, who hears that
//! it is knows of the checkpoint too; which nothing but the order of the lane's holders says.

use crate::threads::sync::{AtomicBool, Ordering};

/// From before a checkpoint settles what is durable until it is done with that.
#[derive(Debug)]
pub(crate) struct UnderWay(AtomicBool);

impl UnderWay {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// A checkpoint is about to settle. One at a time is under way.
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// It goes by nothing any more that it has settled.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether every checkpoint finds durable what this says is.
    #[inline]
    pub(crate) fn all_find(&self, is_durable: impl FnOnce() -> bool) -> bool {
        // In this order: with the word that it is durable comes that of a checkpoint before.
        is_durable() && !self.0.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod explored;
