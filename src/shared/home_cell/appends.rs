//! Appends that are on their way, and what no head may pass meanwhile.
//!
//! An append goes home through a handle of its own, beside a checkpoint. The two meet here for a
//! moment: where an append begins, and where heads pass.
//!
//! AP1. From when an append begins until its record is durable, no head passes the discard that
//!      says that the block is not live. A crash before that shows no content of it. Where the
//!      append stores that discard itself, it holds the end of its lane before that. Heads pass
//!      with this lock in hand, and so nothing is held that has been passed.
//! AP2. An append begins where no batch has its block, and the home is not suspect from then on.
//!      The share of the index is locked meanwhile, in which a batch says that it takes a block.

use std::sync::PoisonError;

use journal_core::parts::{NotPassed, OrderedDevice};
use journal_core::units::{LANES_MAX, LaneNumber, Sequence};

use crate::threads::sync::{Mutex, MutexGuard};

/// Appends whose records are not durable yet.
#[derive(Debug)]
pub(crate) struct Appends<D, H> {
    holds: Mutex<Holds>,
    /// Handles that no append has.
    devices: Mutex<Vec<OrderedDevice<D, H>>>,
}

/// What appends need of the lanes.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    begun: u64,
    each: Vec<Hold>,
}

/// A record that the head of its lane must not pass, and where it lies.
#[derive(Clone, Copy, Debug)]
struct Hold {
    append: u64,
    lane: LaneNumber,
    record: (Sequence, u64),
}

/// The appends of one transaction, until its record is durable.
#[derive(Debug)]
pub(crate) struct Appending<'a> {
    holds: &'a Mutex<Holds>,
    number: u64,
}

impl<D, H> Appends<D, H> {
    pub(crate) fn none() -> Self {
        Self { holds: Mutex::new(Holds::default()), devices: Mutex::new(Vec::new()) }
    }

    /// Locks what appends need. Where a thread has panicked with it, the journal has failed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the appends of a transaction, which may store discards at the end of its lane:
    /// `end` says where that is.
    pub(crate) fn begin<E>(
        &self,
        lane: LaneNumber,
        end: impl FnOnce() -> Result<(Sequence, u64), E>,
    ) -> Result<Appending<'_>, E> {
        let mut holds = self.lock();
        holds.begun += 1;
        let appending = Appending { holds: &self.holds, number: holds.begun };
        let record = end();
        if let Ok(record) = record {
            holds.add(appending.number, lane, record);
        }
        drop(holds);
        record.map(|_| appending)
    }

    /// Lends a handle of the device, which `make` makes if there is none.
    pub(crate) fn with_device<R>(
        &self,
        make: impl FnOnce() -> OrderedDevice<D, H>,
        call: impl FnOnce(&mut OrderedDevice<D, H>) -> R,
    ) -> R {
        let devices = || self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = devices().pop();
        let mut device = kept.unwrap_or_else(make);
        let result = call(&mut device);
        devices().push(device);
        result
    }
}

impl Holds {
    fn add(&mut self, append: u64, lane: LaneNumber, record: (Sequence, u64)) {
        self.each.push(Hold { append, lane, record });
    }

    /// Holds a record for some appends.
    pub(crate) fn hold(
        &mut self,
        appending: &Appending<'_>,
        lane: LaneNumber,
        record: (Sequence, u64),
    ) {
        self.add(appending.number, lane, record);
    }

    /// The first record of each lane that its head may not pass.
    pub(crate) fn not_passed(&self) -> NotPassed {
        let mut not_passed: NotPassed = [None; LANES_MAX as usize];
        for Hold { lane, record, .. } in &self.each {
            let first = &mut not_passed[usize::from(lane.raw())];
            *first = Some(first.map_or(*record, |first| first.min(*record)));
        }
        not_passed
    }
}

impl Drop for Appending<'_> {
    fn drop(&mut self) {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.each.retain(|hold| hold.append != self.number);
    }
}
