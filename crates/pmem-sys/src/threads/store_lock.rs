//! A lock that is given back by one plain store.
//!
//! Between the fence of a commit and its return no locked instruction may run (C3). On x86 it would
//! wait until everything this processor has stored since is where it belongs.
//!
//! The locks of std end in such an instruction, or in a system call that wakes a thread. This one
//! ends in a release store (on x86 a `mov`) and wakes no thread: a waiter looks again by itself.
//!
//! Where no other thread takes it, it is taken by plain stores, too ([`StoreLock::favouring`]).
//!
//! Guarantees: there is one holder at a time. What one holder stored in ordinary memory, the next
//! one sees. A panic of the holder is told to every thread that comes later. A crash does not come
//! into it: the lock lives in the memory of one process and dies with it.
//!
//! # What it costs
//!
//! - *Waiting.* A waiter spins for some microseconds, then yields. Of the waiters that have done
//!   so, one is the *head*. It spins and yields again, and then takes naps of 20 to 200
//!   microseconds. So a lock that becomes free may stay so for [`WAKE_DELAY_MAX`], although a
//!   thread waits. The system adds to a nap its timer slack (50 microseconds on Linux unless told
//!   otherwise), and the turn of others on a busy processor. No thread can sleep through it.
//! - *Many waiters.* All others sleep until the head has the lock. Then one of them is the next
//!   head. So a thousand waiters cost the holder no more processor time than a few. If all of them
//!   took naps, their looks alone could keep the processors busy, and the holder from running.
//! - *Fairness.* A thread that looks while the lock is free has it, and the last holder is often
//!   the first to look. A head that has slept through [`OVERDUE_AFTER_NAPS`] naps is *overdue*:
//!   from then on it alone may take the lock. In between, each other thread may get ahead of it
//!   once by having looked before. There is no order in which waiters become the head.
//!
//! - *Favour.* The favoured thread takes and gives back a lock by a few loads and two stores, none
//!   of which waits for anything. Any other thread that comes then has every processor of the
//!   process make a fence. That takes microseconds, once until the lock is favoured again. The more
//!   often favour was withdrawn, the longer it takes until the lock is favoured again.
//!
//! # What it does not order
//!
//! Streaming stores. A plain store does not wait for what its thread streamed. So a holder that
//! streamed must fence before it gives the lock back. Otherwise the next holder may see, and even
//! be overwritten by, what was streamed before. A commit fences anyway; an abort must as well.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;
use core::time::Duration;

use crate::threads::far_fence::FarFence;
use favour::{Favour, FavourStep, OutOfReach};
use head::Head;
use sync::{AtomicU32, FREE, HELD, Ordering, POISONED, UnsafeCell};

mod favour;
mod head;
mod sync;

/// The longest nap of a waiter: about this long a lock may be free before a waiter notices.
pub const WAKE_DELAY_MAX: Duration = Duration::from_micros(200);

/// The nap that a head begins with, and the only one of an overdue head. The lock is idle
/// meanwhile.
#[cfg(not(any(loom, shuttle)))]
const NAP_MIN: Duration = Duration::from_micros(20);

/// After this many naps the head of the waiters is overdue, and newcomers stand back.
pub const OVERDUE_AFTER_NAPS: u32 = 8;

/// A mutual exclusion lock whose release is one plain store.
///
/// It is not reentrant: a thread that locks it twice waits for itself, forever. If a guard is
/// forgotten ([`core::mem::forget`]), every thread that locks it waits forever.
///
/// ```
/// use pmem_sys::StoreLock;
///
/// static TOTAL: StoreLock<u64> = StoreLock::new(0);
///
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| *TOTAL.lock().expect("nobody panics") += 1);
///     }
/// });
/// assert_eq!(*TOTAL.lock()?, 2);
/// # Ok::<(), pmem_sys::Poisoned>(())
/// ```
///
/// A value that must not leave its thread cannot be locked by other threads:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<pmem_sys::StoreLock<std::rc::Rc<u8>>>();
/// ```
pub struct StoreLock<T> {
    state: AtomicU32,
    /// Threads inside [`lock_contended`](Self::lock_contended).
    waiting: AtomicU32,
    /// Which of them is the head, and whether it is overdue: then no other thread may get ahead.
    head: Head,
    favour: Favour,
    value: UnsafeCell<T>,
}

// SAFETY: a shared lock gives out references to the value to one thread at a time. Each of these
// may be a `&mut T` in another thread than the one before: that is sending the value.
unsafe impl<T: Send> Sync for StoreLock<T> {}

/// After a panic inside, only an owner that has the lock alone and asks for the value sees it
/// again.
impl<T> UnwindSafe for StoreLock<T> {}
impl<T> RefUnwindSafe for StoreLock<T> {}

/// A holder of the lock panicked and may have left the value half changed. Or the process has given
/// up the system call that favour is withdrawn by ([`StoreLock::favouring`]), so that no thread can
/// tell any more that a lock is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Poisoned;

impl fmt::Display for Poisoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a thread panicked while it held the lock")
    }
}

impl core::error::Error for Poisoned {}

impl<T> StoreLock<T> {
    /// A free lock over `value`.
    #[cfg(not(any(loom, shuttle)))]
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self::favouring(value, None)
    }

    /// A free lock over `value` that favours a thread which takes it again and again while no other
    /// thread does. The favoured thread takes it by plain stores, which do not wait for the last
    /// fence. The next other thread that wants it has every processor of the process make a fence,
    /// which takes microseconds. A lock favours one thread in its life.
    ///
    /// ```
    /// use pmem_sys::{FarFence, StoreLock};
    ///
    /// let lock = StoreLock::favouring(0, FarFence::register());
    /// for _ in 0..1000 {
    ///     *lock.lock()? += 1;
    /// }
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| lock.lock().map(|mut value| *value += 1));
    /// });
    /// assert_eq!(*lock.lock()?, 1001);
    /// # Ok::<(), pmem_sys::Poisoned>(())
    /// ```
    #[cfg(not(any(loom, shuttle)))]
    #[must_use]
    pub const fn favouring(value: T, far: Option<FarFence>) -> Self {
        Self {
            state: AtomicU32::new(FREE),
            waiting: AtomicU32::new(0),
            head: Head::nobody(),
            favour: Favour::new(far),
            value: UnsafeCell::new(value),
        }
    }

    /// A free lock over `value`; an explorer's atomics cannot be made in a constant.
    #[cfg(any(loom, shuttle))]
    #[must_use]
    pub fn new(value: T) -> Self {
        Self::favouring(value, None)
    }

    /// A free lock over `value` that favours a thread.
    #[cfg(any(loom, shuttle))]
    #[must_use]
    pub fn favouring(value: T, far: Option<FarFence>) -> Self {
        Self {
            state: AtomicU32::new(FREE),
            waiting: AtomicU32::new(0),
            head: Head::nobody(),
            favour: Favour::new(far),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock, waiting for it.
    ///
    /// # Errors
    /// A holder panicked, before the call or during it. It stays so.
    #[inline(always)]
    pub fn lock(&self) -> Result<StoreLockGuard<'_, T>, Poisoned> {
        match self.try_lock()? {
            Some(guard) => Ok(guard),
            None => self.lock_contended(),
        }
    }

    /// Takes the lock if it is free and not owed to a thread that has waited long. While favour is
    /// being withdrawn, the lock may be held by no thread and yet not be free.
    ///
    /// # Errors
    /// A holder panicked. It stays so.
    #[inline(always)]
    pub fn try_lock(&self) -> Result<Option<StoreLockGuard<'_, T>>, Poisoned> {
        if !self.head.is_overdue() {
            return self.acquire();
        }
        if self.is_poisoned() { Err(Poisoned) } else { Ok(None) }
    }

    /// Takes the lock if it is free and this thread is favoured: without a locked instruction, and
    /// without withdrawing favour from any thread. A poisoned lock is not free.
    ///
    /// ```
    /// use pmem_sys::StoreLock;
    ///
    /// // A lock without a far fence favours no thread.
    /// assert!(StoreLock::new(1).try_lock_by_favour().is_none());
    /// ```
    #[inline]
    pub fn try_lock_by_favour(&self) -> Option<StoreLockGuard<'_, T>> {
        let step = self.favour.step();
        if self.head.is_overdue() || !step.is_favoured() || !self.favour.take(step) {
            return None;
        }
        // The thread may have the lock by an exchange, too.
        if self.state.load(Ordering::Relaxed) == FREE {
            return Some(self.held(How::FAVOUR));
        }
        self.favour.give_back();
        None
    }

    #[inline(always)]
    fn acquire(&self) -> Result<Option<StoreLockGuard<'_, T>>, Poisoned> {
        let step = self.favour.step();
        let is_favoured = step.is_favoured() && self.favour.take(step);
        // The thread may have the lock by an exchange, too.
        if is_favoured && self.state.load(Ordering::Relaxed) == FREE {
            return Ok(Some(self.held(How::FAVOUR)));
        }
        let is_had = self.exchange(step, is_favoured)?;
        Ok(if is_had { Some(self.held(How::EXCHANGE)) } else { None })
    }

    /// Takes the lock by an exchange, if it can be had. It is a function of its own, so that the
    /// result is in a register (C1).
    #[inline(never)]
    fn exchange(&self, step: FavourStep, is_favoured: bool) -> Result<bool, Poisoned> {
        if is_favoured {
            self.favour.give_back();
        }
        let is_open = match is_favoured {
            true => Ok(false),
            false if step.is_nobody() => Ok(true),
            false => self.favour.withdraw(step),
        };
        match is_open {
            Ok(true) => {}
            Ok(false) if self.is_poisoned() => return Err(Poisoned),
            Ok(false) => return Ok(false),
            // No thread can ever tell that the favoured one does not have it.
            Err(OutOfReach) => {
                self.state.store(POISONED, Ordering::Relaxed);
                return Err(Poisoned);
            }
        }
        // Acquire pairs with the release store of the guard: all that its holder did is seen.
        match self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) if self.favour.confirm() => Ok(true),
            Ok(_) => {
                // Unless the favoured thread panics just now: that stays.
                let back = (Ordering::Relaxed, Ordering::Relaxed);
                let _ = self.state.compare_exchange(HELD, FREE, back.0, back.1);
                Ok(false)
            }
            Err(POISONED) => Err(Poisoned),
            Err(_) => Ok(false),
        }
    }

    #[inline(always)]
    fn held(&self, how: How) -> StoreLockGuard<'_, T> {
        let how = if std::thread::panicking() { how.unwinding() } else { how };
        StoreLockGuard::of(self, how)
    }

    /// Gives the lock back so that no thread takes it any more.
    #[cold]
    fn poison(&self, how: How) {
        self.state.store(POISONED, Ordering::Relaxed);
        if how.is_by_favour() {
            self.favour.give_back();
        }
    }

    #[cold]
    fn lock_contended(&self) -> Result<StoreLockGuard<'_, T>, Poisoned> {
        let _waiting = Counted::new(&self.waiting);
        // 1. Every waiter looks some times, awake.
        let mut patience = Patience::new();
        while patience.is_awake() {
            patience.wait();
            if let Some(guard) = self.look(false)? {
                return Ok(guard);
            }
        }
        // 2. Then it sleeps until it is the head, and looks until it has the lock.
        let head = self.head.become_it();
        let mut patience = Patience::new();
        loop {
            if let Some(guard) = self.look(true)? {
                return Ok(guard);
            }
            patience.wait();
            if !head.is_overdue() && patience.is_over() {
                head.set_overdue();
            }
        }
    }

    /// Takes the lock if it is free, and not owed to the head of the waiters, unless that looks.
    fn look(&self, is_head: bool) -> Result<Option<StoreLockGuard<'_, T>>, Poisoned> {
        let may_take = is_head || !self.head.is_overdue();
        // Looking first costs the holder nothing; a failed exchange would take its line away.
        let state = self.state.load(Ordering::Relaxed);
        if state == POISONED || (state == FREE && may_take) { self.acquire() } else { Ok(None) }
    }

    /// How many threads are waiting in [`lock`](Self::lock) at this moment, more or less. One that
    /// has just come may be missed, and one that has just got the lock may be counted. A holder is
    /// never counted.
    #[inline]
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.waiting.load(Ordering::Relaxed) as usize
    }

    /// Whether a holder panicked.
    #[inline]
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.state.load(Ordering::Relaxed) == POISONED
    }

    /// The value, as the last holder left it; see [`is_poisoned`](Self::is_poisoned).
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// The value, which no thread can have locked, as the last holder left it; see
    /// [`is_poisoned`](Self::is_poisoned).
    #[must_use]
    pub fn inner_mut(&mut self) -> &mut T {
        // SAFETY: the lock is borrowed exclusively for as long as the reference lives, so there is
        // no guard and there will be none.
        self.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> fmt::Debug for StoreLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the value: looking at it would mean waiting.
        f.debug_struct("StoreLock")
            .field("held", &(self.state.load(Ordering::Relaxed) == HELD || self.favour.is_held()))
            .field("poisoned", &self.is_poisoned())
            .field("waiters", &self.waiters())
            .finish_non_exhaustive()
    }
}

/// Holds a [`StoreLock`]; dropping it gives the lock back by one plain store.
///
/// It stays in its thread, because so does what a holder has in flight, and because it is that
/// thread's panic that poisons the lock:
///
/// ```compile_fail,E0277
/// fn sent<T: Send>() {}
/// sent::<pmem_sys::StoreLockGuard<'static, u8>>();
/// ```
///
/// It is a reference, and may be shared as far as one to its value may:
///
/// ```
/// fn shared<T: Sync>() {}
/// shared::<pmem_sys::StoreLockGuard<'static, u8>>();
/// ```
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<pmem_sys::StoreLockGuard<'static, std::cell::Cell<u8>>>();
/// ```
#[must_use = "dropped at once, it protects nothing"]
pub struct StoreLockGuard<'a, T> {
    /// The lock. The bits that are zero in its address say [`How`] it was taken. So a guard is one
    /// register, and one store where there is none left.
    lock: NonNull<StoreLock<T>>,
    _lock: PhantomData<&'a StoreLock<T>>,
    _stays: PhantomData<*const ()>,
}

// SAFETY: through a shared guard only a `&T` can be had.
unsafe impl<T: Sync> Sync for StoreLockGuard<'_, T> {}

impl<T> Deref for StoreLockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, since the lock was free and only its drop frees it;
        // and while it is borrowed, it lends no `&mut T`.
        self.lock().value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for StoreLockGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one, as above, and it is borrowed exclusively.
        self.lock().value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<'a, T> StoreLockGuard<'a, T> {
    #[inline(always)]
    fn of(lock: &'a StoreLock<T>, how: How) -> Self {
        let lock = NonNull::from(lock).map_addr(|address| address | how.0);
        Self { lock, _lock: PhantomData, _stays: PhantomData }
    }

    /// Whether the lock was taken without a locked instruction, which it will be most likely again.
    #[inline]
    #[must_use]
    pub fn is_by_favour(&self) -> bool {
        self.how().is_by_favour()
    }

    /// Gives the lock back, like dropping the guard, as a part of its caller: a drop is a call
    /// where a compiler thinks so.
    #[inline(always)]
    pub fn give_back(self) {
        self.end();
        core::mem::forget(self);
    }

    #[inline(always)]
    fn how(&self) -> How {
        How(self.lock.addr().get() & How::BITS)
    }

    #[inline(always)]
    fn lock(&self) -> &'a StoreLock<T> {
        const { assert!(align_of::<StoreLock<T>>() > How::BITS) };
        let lock = self.lock.as_ptr().map_addr(|address| address & !How::BITS);
        // SAFETY: this is the reference that the guard was made of: no bit of `How` is in the
        // address of anything so aligned, and `map_addr` leaves the provenance. It outlives the
        // guard by its lifetime.
        unsafe { &*lock }
    }

    #[inline(always)]
    fn end(&self) {
        if std::thread::panicking() && !self.how().is_unwinding() {
            return self.lock().poison(self.how());
        }
        // C3: no other thread writes `state` while it is `HELD`, nor what a thread holds by favour.
        if self.how().is_by_favour() {
            self.lock().favour.give_back();
        } else {
            self.lock().state.store(FREE, Ordering::Release);
        }
    }
}

impl<T> Drop for StoreLockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

/// How a lock was taken, in two bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct How(usize);

impl How {
    const EXCHANGE: Self = Self(0);
    const FAVOUR: Self = Self(1);
    /// The thread was unwinding when it took the lock: that panic is not the lock's.
    const UNWINDING: usize = 2;

    const BITS: usize = 3;

    const fn unwinding(self) -> Self {
        Self(self.0 | Self::UNWINDING)
    }

    const fn is_unwinding(self) -> bool {
        self.0 & Self::UNWINDING != 0
    }

    const fn is_by_favour(self) -> bool {
        self.0 & Self::FAVOUR.0 != 0
    }
}

impl<T: fmt::Debug> fmt::Debug for StoreLockGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Counts one more, for as long as it lives.
struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicU32) -> Self {
        // Nothing is published by a count; it steers.
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a waiter spends its time between two looks.
struct Patience {
    looks: u32,
}

#[cfg(not(any(loom, shuttle)))]
impl Patience {
    /// Looks with 1, 2, 4 .. 64 pauses before them: up to some microseconds, a few short commits.
    const SPINS: u32 = 7;
    /// Looks after giving the processor away. These are enough for most locks that are had by
    /// memory alone; a thread that waits longer waits for a system call.
    const YIELDS: u32 = 8;
    const AWAKE: u32 = Self::SPINS + Self::YIELDS;

    const fn new() -> Self {
        Self { looks: 0 }
    }

    fn wait(&mut self) {
        if self.looks < Self::SPINS {
            for _ in 0..1_u32 << self.looks {
                core::hint::spin_loop();
            }
        } else if self.looks < Self::AWAKE {
            std::thread::yield_now();
        } else {
            std::thread::sleep(self.nap());
        }
        self.looks = self.looks.saturating_add(1);
    }

    fn nap(&self) -> Duration {
        if self.is_over() {
            return NAP_MIN;
        }
        let naps = self.looks.saturating_sub(Self::AWAKE);
        NAP_MIN.saturating_mul(1 << naps.min(8)).min(WAKE_DELAY_MAX)
    }

    /// Whether the next look comes before the first nap.
    const fn is_awake(&self) -> bool {
        self.looks < Self::AWAKE
    }

    fn is_over(&self) -> bool {
        self.looks >= Self::AWAKE + OVERDUE_AFTER_NAPS
    }
}

/// The explorer has no time: a look is a step, and patience ends soon enough to be explored.
#[cfg(any(loom, shuttle))]
impl Patience {
    const fn new() -> Self {
        Self { looks: 0 }
    }

    fn wait(&mut self) {
        crate::explored::thread::yield_now();
        self.looks = self.looks.saturating_add(1);
    }

    const fn is_awake(&self) -> bool {
        self.looks < 1
    }

    fn is_over(&self) -> bool {
        self.looks >= 1
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
