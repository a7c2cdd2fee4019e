//! Threads that wait long, asleep, for a block or for room, and how each is woken.
//!
//! A transaction ends by plain stores, so it cannot learn by the same step that a thread waits. It
//! gives everything back, and then looks at one word to see whether any thread sleeps.
//!
//! SL1. A thread that is going to sleep says so in that word, has a far fence made
//!     ([`pmem_sys::FarFence`]), and looks once more at what it waits for. By that fence either the
//!     transaction that ends sees the word, or the thread sees what was given back. So no wake-up
//!     is lost. Threads that come while the word says so already rely on the fence that was made.
//! SL2. Each sleeper has an alarm of its own, which keeps a ring until the sleeper takes it. A
//!     sleeper takes it before it looks. So a ring between its look and its sleep ends that sleep.
//! SL3. A block that comes free wakes the eldest thread that waits for it. It also wakes each one
//!     that holds something: such a thread has to give up if the next holder is older. The others
//!     sleep on. The transaction that ends knows the stripe of the block alone, so this is done for
//!     each block of the stripe.
//! SL4. A thread that stops waiting for a block, and has not got it, wakes the next one instead.
//! SL5. Of the threads that wait for room the eldest alone looks for it. It is woken by each
//!     transaction that ends and by each checkpoint that frees something. When it stops waiting, it
//!     wakes the next one.
//!     A thread that is not the eldest looks by itself once nothing was given back for a while (N5
//!     of [`room_in_turn`](crate::engine::room_in_turn)).
//! SL6. A thread that waits for room holds nothing, so no thread waits for it.
//! SL7. Where the journal fails, every sleeper is woken. A thread enters its queue before it looks
//!     whether the journal has failed. All queues are gone through after the failure was noted.
//!
//! SL1 is also why waiting ends although no thread looks at a clock. Where the system has no far
//! fences, a sleeper looks again by itself after a short nap.
//!
//! *Circles.* Wait-die keeps transactions from waiting in a circle. But a thread with several of
//! them open holds their blocks while it waits with another one. A circle closes when its last
//! thread enters: from then on none of its threads does anything. So that thread follows the
//! circle: from the holder of its block to what the holder's thread waits for, and on. If this
//! leads back to the thread itself, it gets an error instead of going to sleep. The journal does
//! not see what a thread waits for in another journal, or by other means than blocks.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use crossbeam_utils::CachePadded;
use journal_core::BlockNumber;
use pmem_sys::FarFence;

use crate::threads::block_locks::{Age, BlockLocks, Stripe};
use crate::threads::seat_numbers::SeatNumbers;
use crate::threads::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, wait_timeout};

/// A sleeper that is certain to be woken looks again after this time, all the same.
const NAP_MAX: Duration = Duration::from_secs(1);

/// The limit for a sleeper that is not certain to be woken.
const NAP_UNFENCED: Duration = Duration::from_micros(200);

/// The bit for room, in the word that says what is waited for.
const ROOM: u64 = 1;

/// The other bits stand for stripes, each bit for many.
const STRIPE_BITS: u32 = 63;

/// Wakes one thread.
#[derive(Debug)]
struct Alarm {
    has_rung: Mutex<bool>,
    changed: Condvar,
}

impl Alarm {
    fn new() -> Arc<Self> {
        Arc::new(Self { has_rung: Mutex::new(false), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.has_rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        *self.lock() = true;
        self.changed.notify_one();
    }

    /// Sleeps until the alarm rings, or for `nap`.
    fn sleep(&self, nap: Duration) {
        let mut has_rung = self.lock();
        if !*has_rung {
            has_rung = wait_timeout(&self.changed, has_rung, nap);
        }
        *has_rung = false;
    }
}

/// A thread that waits for a block.
#[derive(Debug)]
struct Waiter {
    alarm: Arc<Alarm>,
    /// All seats that its thread's transactions may sit on.
    seats: SeatNumbers,
}

/// What a thread waits for, with its stripe, and the age of the transaction that it waits with.
type WaitKey = (Stripe, BlockNumber, Age);

/// All threads that wait for blocks.
#[derive(Debug, Default)]
struct Waiters {
    /// The waiters; of each block the eldest first.
    queue: BTreeMap<WaitKey, Waiter>,
    /// The waiters that hold something.
    holding: BTreeSet<WaitKey>,
    /// For each seat, where its thread waits.
    of_seat: BTreeMap<u64, WaitKey>,
    /// For each bit, how many threads wait for its stripes.
    counts: BTreeMap<u64, u32>,
    /// Bits after whose setting a far fence was made.
    fenced: u64,
}

/// All threads that wait for room.
#[derive(Debug, Default)]
struct Tickets {
    queue: BTreeMap<Age, Arc<Alarm>>,
    is_fenced: bool,
    /// How often something was given back, or freed, while somebody waited.
    changes: u64,
}

/// All threads that sleep.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// A bit for all stripes of one kind, and one for room.
    asleep: CachePadded<AtomicU64>,
    far: Option<FarFence>,
    blocks: Mutex<Waiters>,
    room: Mutex<Tickets>,
}

/// The thread would wait for itself, by way of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InCircle;

/// What a transaction that has ended finds asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asleep(u64);

impl Asleep {
    #[inline(always)]
    pub(crate) const fn is_nobody(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn may_want(self, stripe: Stripe) -> bool {
        self.0 & bit_of(stripe) != 0
    }

    pub(crate) const fn want_room(self) -> bool {
        self.0 & ROOM != 0
    }
}

const fn bit_of(stripe: Stripe) -> u64 {
    ROOM << (1 + stripe.number() % STRIPE_BITS)
}

impl Waiters {
    /// The alarms of the waiters that are woken when a block of a stripe comes free (SL3).
    fn woken_by(&self, stripe: Stripe) -> Vec<Arc<Alarm>> {
        let first = (stripe, BlockNumber(0), Age(0));
        let last = (stripe, BlockNumber(u64::MAX), Age(u64::MAX));
        let (mut woken, mut before) = (Vec::new(), None);
        for (key, waiter) in self.queue.range(first..=last) {
            let is_eldest = before != Some(key.1);
            before = Some(key.1);
            if is_eldest || self.holding.contains(key) {
                woken.push(Arc::clone(&waiter.alarm));
            }
        }
        woken
    }

    /// Whether a thread with these seats, which begins to wait with this key, would wait for
    /// itself. Suppose each thread in the circle waits with the very transaction that holds the
    /// block before it in the circle. Then this is no deadlock: the youngest of them is about to
    /// give up by itself.
    fn would_be_circle(&self, blocks: &BlockLocks, seats: &SeatNumbers, key: WaitKey) -> bool {
        let (_, mut block, age) = key;
        let mut has_another = false;
        // Another thread has seen a circle that does not come through here.
        for _ in 0..=self.queue.len() {
            let Some(holder) = blocks.holder_of(block) else { return false };
            if seats.have(holder) {
                return has_another || holder != age;
            }
            let number = SeatNumbers::number_in(holder);
            let Some(next) = self.of_seat.get(&number) else { return false };
            has_another |= next.2 != holder;
            block = next.1;
        }
        false
    }

    /// Returns whether this waiter is the first of its bit.
    fn insert(&mut self, key: WaitKey, waiter: Waiter, holds_some: bool) -> bool {
        for number in waiter.seats.each() {
            self.of_seat.insert(number, key);
        }
        if holds_some {
            self.holding.insert(key);
        }
        self.queue.insert(key, waiter);
        let count = self.counts.entry(bit_of(key.0)).or_default();
        *count += 1;
        *count == 1
    }

    /// Returns the bit, if it stands for no waiter any more.
    fn remove(&mut self, key: WaitKey) -> Option<u64> {
        let waiter = self.queue.remove(&key)?;
        for number in waiter.seats.each() {
            self.of_seat.remove(&number);
        }
        self.holding.remove(&key);
        let bit = bit_of(key.0);
        let count = self.counts.get_mut(&bit)?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        self.counts.remove(&bit);
        self.fenced &= !bit;
        Some(bit)
    }
}

impl Waiting {
    pub(crate) fn new(far: Option<FarFence>) -> Self {
        Self {
            asleep: CachePadded::new(AtomicU64::new(0)),
            far,
            blocks: Mutex::default(),
            room: Mutex::default(),
        }
    }

    fn blocks(&self) -> MutexGuard<'_, Waiters> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(&self) -> MutexGuard<'_, Tickets> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self) -> bool {
        self.far.is_some_and(FarFence::reach)
    }

    /// What sleeps, for a transaction that has given back all that it had (SL1).
    #[inline(always)]
    pub(crate) fn asleep(&self) -> Asleep {
        FarFence::near();
        self.now_asleep()
    }

    /// What sleeps, for any other caller, which may not see the latest sleeper.
    #[inline(always)]
    pub(crate) fn now_asleep(&self) -> Asleep {
        Asleep(self.asleep.load(Ordering::Relaxed))
    }

    /// Begins a thread's wait for a block, with a transaction of this age.
    ///
    /// # Errors
    /// The thread would wait for itself.
    pub(crate) fn wait_for_block(
        &self,
        blocks: &BlockLocks,
        (block, age): (BlockNumber, Age),
        seats: SeatNumbers,
        holds_some: bool,
    ) -> Result<BlockWait<'_>, InCircle> {
        let stripe = blocks.stripe(block);
        let (key, bit) = ((stripe, block, age), bit_of(stripe));
        let alarm = Alarm::new();
        let mut waiters = self.blocks();
        if waiters.would_be_circle(blocks, &seats, key) {
            return Err(InCircle);
        }
        if waiters.insert(key, Waiter { alarm: Arc::clone(&alarm), seats }, holds_some) {
            self.asleep.fetch_add(bit, Ordering::Relaxed);
        }
        let mut is_fenced = waiters.fenced & bit != 0;
        drop(waiters);
        if !is_fenced && self.reach() {
            is_fenced = true;
            self.blocks().fenced |= bit;
        }
        Ok(BlockWait { waiting: self, key, alarm, nap: nap(is_fenced), has_taken: false })
    }

    /// Wakes threads after a block of a stripe has come free (SL3).
    #[cold]
    pub(crate) fn wake_for_block(&self, stripe: Stripe) {
        let woken = self.blocks().woken_by(stripe);
        woken.iter().for_each(|alarm| alarm.ring());
    }

    fn leave_block(&self, key: WaitKey) {
        let mut waiters = self.blocks();
        if let Some(bit) = waiters.remove(key) {
            self.asleep.fetch_sub(bit, Ordering::Relaxed);
        }
    }

    /// Begins a wait for room, of a thread that holds nothing, with a transaction of this age.
    pub(crate) fn wait_for_room(&self, age: Age) -> RoomWait<'_> {
        let alarm = Alarm::new();
        let mut tickets = self.room();
        if tickets.queue.is_empty() {
            self.asleep.fetch_add(ROOM, Ordering::Relaxed);
        }
        tickets.queue.insert(age, Arc::clone(&alarm));
        let mut is_fenced = tickets.is_fenced;
        drop(tickets);
        if !is_fenced && self.reach() {
            is_fenced = true;
            self.room().is_fenced = true;
        }
        RoomWait { waiting: self, age, alarm, nap: nap(is_fenced) }
    }

    /// Whether a transaction that is older than this one waits for room.
    #[cold]
    pub(crate) fn has_older_for_room(&self, age: Age) -> bool {
        self.room().queue.keys().next().is_some_and(|eldest| *eldest < age)
    }

    /// Wakes the eldest thread that waits for room: some may have come free.
    #[cold]
    pub(crate) fn wake_for_room(&self) {
        let mut tickets = self.room();
        tickets.changes = tickets.changes.wrapping_add(1);
        let first = tickets.queue.values().next().map(Arc::clone);
        drop(tickets);
        if let Some(first) = first {
            first.ring();
        }
    }

    /// How many threads wait for room.
    pub(crate) fn waiters_for_room(&self) -> usize {
        self.room().queue.len()
    }

    fn leave_room(&self, age: Age) {
        let mut tickets = self.room();
        let was_there = tickets.queue.remove(&age).is_some();
        if was_there && tickets.queue.is_empty() {
            tickets.is_fenced = false;
            self.asleep.fetch_sub(ROOM, Ordering::Relaxed);
        }
    }

    /// Wakes every sleeper: the journal has failed (SL7).
    #[cold]
    pub(crate) fn wake_all(&self) {
        self.blocks().queue.values().for_each(|waiter| waiter.alarm.ring());
        self.room().queue.values().for_each(|alarm| alarm.ring());
    }
}

/// Whether an explorer has found something, and can do nothing any more.
fn is_end_of_exploration() -> bool {
    cfg!(any(loom, shuttle)) && std::thread::panicking()
}

const fn nap(is_fenced: bool) -> Duration {
    if is_fenced { NAP_MAX } else { NAP_UNFENCED }
}

/// A thread's wait for a block, until it ends.
#[derive(Debug)]
pub(crate) struct BlockWait<'w> {
    waiting: &'w Waiting,
    key: WaitKey,
    alarm: Arc<Alarm>,
    nap: Duration,
    has_taken: bool,
}

impl BlockWait<'_> {
    /// Sleeps until the block may be had, or may never be. The caller has looked at the block since
    /// the wait began.
    pub(crate) fn sleep(&self, at_most: Option<Duration>) {
        self.alarm.sleep(at_most.map_or(self.nap, |most| most.min(self.nap)));
    }

    /// Ends the wait with the block taken. Giving it back wakes the next waiter.
    pub(crate) fn end_with_it(mut self) {
        self.has_taken = true;
    }
}

impl Drop for BlockWait<'_> {
    fn drop(&mut self) {
        if is_end_of_exploration() {
            return;
        }
        self.waiting.leave_block(self.key);
        if !self.has_taken {
            self.waiting.wake_for_block(self.key.0);
        }
    }
}

/// A thread's wait for room, until it ends.
#[derive(Debug)]
pub(crate) struct RoomWait<'w> {
    waiting: &'w Waiting,
    age: Age,
    alarm: Arc<Alarm>,
    nap: Duration,
}

impl RoomWait<'_> {
    /// Whether no older transaction waits.
    pub(crate) fn is_first(&self) -> bool {
        !self.waiting.has_older_for_room(self.age)
    }

    /// Sleeps until there may be room. The caller has looked for room since the wait began, or is
    /// not the first to wait.
    pub(crate) fn sleep(&self, at_most: Option<Duration>) {
        self.alarm.sleep(at_most.map_or(self.nap, |most| most.min(self.nap)));
    }

    /// Sleeps for at most `nap`. Returns whether nothing was given back meanwhile.
    pub(crate) fn sleeps_in_quiet(&self, nap: Duration) -> bool {
        let before = self.waiting.room().changes;
        self.alarm.sleep(nap);
        self.waiting.room().changes == before
    }

    /// Like [`sleep`](Self::sleep), for at most `nap`.
    pub(crate) fn sleep_for(&self, nap: Duration) {
        self.alarm.sleep(nap.min(self.nap));
    }
}

impl Drop for RoomWait<'_> {
    fn drop(&mut self) {
        if is_end_of_exploration() {
            return;
        }
        self.waiting.leave_room(self.age);
        self.waiting.wake_for_room();
    }
}

#[cfg(all(test, loom))]
mod explored;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
