//! Appends that are on their way, and what no head may pass meanwhile.
//!
//! An append goes home through a handle of its own, beside a checkpoint. The two meet here for a
//! moment: where an append begins, and where heads pass.
//!
//! AP1. From when an append begins until its home is synced, no head passes a durable discard of
//!      its block. So a crash in between shows no content of it. The append holds such a discard
//!      that it finds, or else the end of its lane, where it stores one. It does so with the lock
//!      in hand in which heads pass, and lets go once its record is stored. Where heads fail to
//!      pass, that is noted with the lock in hand: one superblock may have them already.
//! AP2. An append begins where no batch has its block, and the home is not suspect from then on.
//!      The share of the index is locked meanwhile, in which a batch says that it takes a block.
//! AP3. A whole checkpoint ends when the appends are at an end that had begun when it had written
//!      everything home. Those that begin later hold nothing that it lets heads pass.
//! AP4. While the device forgets blocks, nothing is written ahead of its record. A device may
//!      become shorter by that, and cut off what another handle writes behind its end.

use std::sync::PoisonError;
use std::time::Instant;

use journal_core::parts::{NotPassed, OrderedDevice};
use journal_core::units::{LANES_MAX, LaneNumber, Sequence};

use crate::threads::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, wait_timeout};

/// Appends whose records are not stored yet, and other writes that come before a record.
#[derive(Debug)]
pub(crate) struct Appends<D, H> {
    under_way: WritesAhead,
    /// Handles that no append has.
    devices: Mutex<Vec<OrderedDevice<D, H>>>,
}

#[derive(Debug)]
struct WritesAhead {
    holds: Mutex<Holds>,
    /// Wakes threads that wait for one that ends.
    has_ended: Condvar,
    /// Appends that have ended. It is counted with the lock in hand.
    ended: AtomicU64,
}

/// What appends need of the lanes.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    begun: u64,
    each: Vec<Hold>,
    /// Of each lane, the record from which on one may be held (AP3).
    held_from: [Sequence; LANES_MAX as usize],
    /// Threads that now write what comes before a record.
    writing: usize,
    /// Whether the device forgets blocks now, or is about to.
    forgets: bool,
}

/// A record that the head of its lane must not pass, and where it lies.
#[derive(Clone, Copy, Debug)]
struct Hold {
    append: u64,
    lane: LaneNumber,
    record: (Sequence, u64),
}

/// The appends of one transaction, until its record is stored.
#[derive(Debug)]
pub(crate) struct Appending<'a> {
    of: &'a WritesAhead,
    number: u64,
}

impl<D, H> Appends<D, H> {
    pub(crate) fn none() -> Self {
        let holds = Mutex::new(Holds::default());
        let (has_ended, ended) = (Condvar::new(), AtomicU64::new(0));
        let under_way = WritesAhead { holds, has_ended, ended };
        Self { under_way, devices: Mutex::new(Vec::new()) }
    }

    /// Locks what appends need. Where a thread has panicked with it, the journal has failed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Holds> {
        self.under_way.lock()
    }

    /// How many appends have ended: what they held may be passed.
    pub(crate) fn ended(&self) -> u64 {
        self.under_way.ended.load(Ordering::Relaxed)
    }

    /// Begins the appends of a transaction, which may store discards at the end of its lane:
    /// `end` says where that is.
    pub(crate) fn begin<E>(
        &self,
        lane: LaneNumber,
        end: impl FnOnce() -> Result<(Sequence, u64), E>,
    ) -> Result<Appending<'_>, E> {
        let mut holds = self.lock();
        let record = end()?;
        holds.begun += 1;
        let number = holds.begun;
        holds.each.push(Hold { append: number, lane, record });
        drop(holds);
        Ok(Appending { of: &self.under_way, number })
    }

    /// Waits until the appends have ended that have begun by now. Those that begin later hold no
    /// record below the `ends` of the lanes (AP3). An append needs no room and no upkeep to end.
    pub(crate) fn await_begun<E>(
        &self,
        ends: impl IntoIterator<Item = Result<Sequence, E>>,
    ) -> Result<(), E> {
        let mut holds = self.lock();
        for (from, end) in holds.held_from.iter_mut().zip(ends) {
            *from = (*from).max(end?);
        }
        let begun = holds.begun;
        self.under_way.await_until(holds, |holds| holds.each.iter().all(|of| of.append > begun));
        Ok(())
    }

    /// Waits until an append ends, unless one has since there were `ended` of them, or there is
    /// none. It waits no longer than `until`.
    pub(crate) fn await_one(&self, ended: u64, until: Option<Instant>) {
        let has_ended = |holds: &Holds| self.ended() != ended || holds.each.is_empty();
        let Some(until) = until else {
            return self.under_way.await_until(self.lock(), has_ended);
        };
        let mut holds = self.lock();
        while !has_ended(&holds) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            holds = wait_timeout(&self.under_way.has_ended, holds, left);
        }
    }

    /// Whether the device forgets blocks now.
    pub(crate) fn forgets(&self) -> bool {
        self.lock().forgets
    }

    /// Calls while the device forgets no blocks (AP4).
    pub(crate) fn writing<R>(&self, call: impl FnOnce() -> R) -> R {
        let mut holds = self.lock();
        while holds.forgets {
            holds = self.under_way.wait(holds);
        }
        holds.writing += 1;
        drop(holds);
        let _writing = OnDrop(|| self.under_way.end(|holds| holds.writing -= 1));
        call()
    }

    /// Waits while the device forgets blocks.
    pub(crate) fn await_forgotten(&self) {
        self.under_way.await_until(self.lock(), |holds| !holds.forgets);
    }

    /// Calls while nothing is written that comes before a record (AP4). What writes home is in
    /// hand, so no other thread is here.
    pub(crate) fn forgetting<R>(&self, call: impl FnOnce() -> R) -> R {
        self.lock().forgets = true;
        let _forgetting = OnDrop(|| self.under_way.end(|holds| holds.forgets = false));
        self.under_way.await_until(self.lock(), |holds| holds.writing == 0);
        call()
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

impl WritesAhead {
    fn lock(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, holds: MutexGuard<'a, Holds>) -> MutexGuard<'a, Holds> {
        self.has_ended.wait(holds).unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that something has ended, and wakes the threads that wait for it.
    fn end(&self, note: impl FnOnce(&mut Holds)) {
        note(&mut self.lock());
        self.has_ended.notify_all();
    }

    fn await_until(&self, mut holds: MutexGuard<'_, Holds>, is_so: impl Fn(&Holds) -> bool) {
        while !is_so(&holds) {
            holds = self.wait(holds);
        }
    }
}

impl Holds {
    /// Holds a record for some appends. Returns whether it may be held (AP3).
    pub(crate) fn hold(
        &mut self,
        appending: &Appending<'_>,
        lane: LaneNumber,
        record: (Sequence, u64),
    ) -> bool {
        let may_be = record.0 >= self.held_from[usize::from(lane.raw())];
        if may_be {
            self.each.push(Hold { append: appending.number, lane, record });
        }
        may_be
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
        self.of.end(|holds| {
            holds.each.retain(|hold| hold.append != self.number);
            self.of.ended.fetch_add(1, Ordering::Relaxed);
        });
    }
}

/// Calls when it is dropped, also by a panic.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
