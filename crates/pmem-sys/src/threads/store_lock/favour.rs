//! Favour: a thread that takes a lock again and again, while no other thread does, takes it without
//! a locked instruction.
//!
//! The usual way to take a lock is an exchange. On x86 that waits for all that its thread stored
//! and streamed, the last commit's fence with it. The favoured thread merely stores that it has the
//! lock and looks whether it is still favoured. Another thread that wants the lock makes the full
//! fence between these two steps ([`crate::threads::far_fence`]), for both of them. That takes
//! microseconds, so it pays where it is seldom.
//!
//! Guarantees, by these rules:
//!
//! F1. `held` is stored by one thread alone, whatever happens: the one that the lock has once
//!     favoured. It may be favoured again, and no other one ever is. (A thread that was stopped
//!     between looking and storing may store long after. A thread that comes behind one that has
//!     ended, and has its number, goes on where that one stopped.)
//! F2. A thread makes itself favoured while it has the lock by an exchange.
//! F3. Any thread may withdraw favour, in three steps. It says so, so that the favoured thread sees
//!     it when it looks next. It makes a far fence. Once `held` is seen free behind that, no thread
//!     is favoured. Each step has in it how often there was favour, so that no thread ends another
//!     withdrawal than the one that it has seen.
//! F4. A thread that has made the exchange looks once more, and gives the lock back where a thread
//!     is favoured meanwhile. By F2 it sees that: it has acquired what that thread released.
//!
//! So while a thread is favoured, no thread uses what it had by an exchange. And a thread that
//! finds none favoured has acquired all that the last favoured one did.

use super::sync::{AtomicU32, FREE, HELD, Ordering};
#[cfg(any(loom, shuttle))]
use crate::explored::this_thread;
use crate::threads::far_fence::{FarFence, near, reach};
#[cfg(not(any(loom, shuttle)))]
use crate::threads::thread_mark::this_thread;

/// No thread is favoured.
const NOBODY: u32 = 0;
/// The lock's thread is favoured.
const FAVOURED: u32 = 1;
/// Its favour is withdrawn, and the far fence not made yet.
const WITHDRAWING: u32 = 2;
/// The far fence is made.
const WITHDRAWN: u32 = 3;
/// The bits of these; the others count how often the thread was favoured.
const STEP: u32 = 3;
/// The unit in which the other bits count.
const TIME: u32 = STEP + 1;

/// No thread is ever favoured, since there is no far fence.
const NEVER: u32 = u32::MAX;

/// How many times in a row a thread takes a lock before it is favoured. At first it is `FIRST`
/// times. Behind each withdrawal that grows by `STEP_BITS` bits, up to `MORE_BITS_MAX` bits.
#[cfg(not(any(loom, shuttle)))]
mod takes {
    pub(super) const FIRST: u32 = 16;
    pub(super) const STEP_BITS: u32 = 2;
    pub(super) const MORE_BITS_MAX: u32 = 8;
}
#[cfg(any(loom, shuttle))]
mod takes {
    pub(super) const FIRST: u32 = 1;
    pub(super) const STEP_BITS: u32 = 0;
    pub(super) const MORE_BITS_MAX: u32 = 0;
}

/// Which thread a lock favours.
#[derive(Debug)]
pub(super) struct Favour {
    /// How far favour is, and how often there was favour.
    step: AtomicU32,
    /// How often its thread has taken the lock in a row by an exchange, or [`NEVER`].
    takes: AtomicU32,
    /// The only thread that is ever favoured. Before it was, the last thread that took the lock.
    thread: FavouredThread,
    /// Whether that thread has the lock by favour.
    held: AtomicU32,
}

impl Favour {
    /// A lock's favour, with no thread favoured yet.
    #[cfg(not(any(loom, shuttle)))]
    pub(super) const fn new(far: Option<FarFence>) -> Self {
        Self {
            step: AtomicU32::new(NOBODY),
            takes: AtomicU32::new(if far.is_some() { 0 } else { NEVER }),
            thread: FavouredThread::none(),
            held: AtomicU32::new(FREE),
        }
    }

    #[cfg(any(loom, shuttle))]
    pub(super) fn new(far: Option<FarFence>) -> Self {
        Self {
            step: AtomicU32::new(NOBODY),
            takes: AtomicU32::new(if far.is_some() { 0 } else { NEVER }),
            thread: FavouredThread::none(),
            held: AtomicU32::new(FREE),
        }
    }

    /// How far favour is.
    #[inline]
    pub(super) fn step(&self) -> FavourStep {
        FavourStep(self.step.load(Ordering::Acquire))
    }

    /// Takes the lock by favour at a step at which a thread is favoured. Returns whether this
    /// thread has it then.
    #[inline(always)]
    pub(super) fn take(&self, step: FavourStep) -> bool {
        // Which thread that is has been known since it was favoured first.
        if !self.thread.is(this_thread()) || self.held.load(Ordering::Relaxed) != FREE {
            return false;
        }
        self.held.store(HELD, Ordering::Relaxed);
        near();
        if self.step.load(Ordering::Relaxed) == step.0 {
            return true;
        }
        self.give_back();
        false
    }

    /// Gives back what was taken by favour, or was not.
    #[inline(always)]
    pub(super) fn give_back(&self) {
        self.held.store(FREE, Ordering::Release);
    }

    /// Withdraws favour as far as that goes at once. Returns whether no thread is favoured any
    /// more.
    ///
    /// # Errors
    /// There is no far fence any more, and so no way to withdraw favour, ever.
    #[cold]
    pub(super) fn withdraw(&self, step: FavourStep) -> Result<bool, OutOfReach> {
        let time = step.0 & !STEP;
        match step.0 & STEP {
            NOBODY => return Ok(true),
            WITHDRAWING => return Ok(false),
            FAVOURED => {
                // A thread does not withdraw from itself what it holds itself.
                if self.thread.is(this_thread())
                    || !self.goes_on(step.0, time | WITHDRAWING, Ordering::Relaxed)
                {
                    return Ok(false);
                }
                if !reach() {
                    return Err(OutOfReach);
                }
                self.step.store(time | WITHDRAWN, Ordering::Release);
            }
            _ => {}
        }
        let is_over = self.held.load(Ordering::Acquire) == FREE
            && self.goes_on(time | WITHDRAWN, time | NOBODY, Ordering::Release);
        Ok(is_over)
    }

    fn goes_on(&self, from: u32, to: u32, order: Ordering) -> bool {
        self.step.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }

    /// Whether the thread that has made the exchange has the lock by that. Notes which thread it
    /// is.
    #[inline]
    pub(super) fn confirm(&self) -> bool {
        let step = self.step();
        if step.is_nobody() {
            self.note(step);
        }
        step.is_nobody()
    }

    /// Notes that this thread has the lock by an exchange.
    #[inline]
    fn note(&self, step: FavourStep) {
        let takes = self.takes.load(Ordering::Relaxed);
        if takes == NEVER {
            return;
        }
        let me = this_thread();
        if !self.thread.is(me) {
            self.takes.store(0, Ordering::Relaxed);
            if step.0 == NOBODY {
                self.thread.set(me);
            }
            return;
        }
        let takes = takes + 1;
        self.takes.store(takes, Ordering::Relaxed);
        if takes >= takes::FIRST {
            self.consider(step, takes);
        }
    }

    /// Favours this thread, if it has taken the lock often enough.
    #[cold]
    fn consider(&self, step: FavourStep, takes: u32) {
        let more = (step.0 / TIME).saturating_mul(takes::STEP_BITS).min(takes::MORE_BITS_MAX);
        if takes >= takes::FIRST << more {
            self.takes.store(0, Ordering::Relaxed);
            // A thread that sees that one is favoured also sees which one. So it does not take
            // itself for the favoured one because it once had the lock. When the times wrap around,
            // the number of the last withdrawal that a thread may still have in hand is long gone.
            let time = step.0.checked_add(TIME).unwrap_or(TIME);
            self.step.store(time | FAVOURED, Ordering::Release);
        }
    }

    /// Whether a thread has the lock by favour.
    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) == HELD
    }
}

/// The system makes no far fence any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutOfReach;

/// How far the favour of a lock is.
#[derive(Clone, Copy, Debug)]
pub(super) struct FavourStep(u32);

impl FavourStep {
    /// Whether no thread is favoured.
    #[inline]
    pub(super) const fn is_nobody(self) -> bool {
        self.0 & STEP == NOBODY
    }

    /// Whether a thread is favoured, and may go on so.
    #[inline]
    pub(super) const fn is_favoured(self) -> bool {
        self.0 & STEP == FAVOURED
    }
}

/// The number of the favoured thread. Only the thread that has the lock, and changes the number,
/// reads it while it may change.
///
/// It is in halves, since whole it would make a lock longer by padding. For an explorer it is
/// whole: its locks may be of any length, and so it has less to try.
#[derive(Debug)]
struct FavouredThread(
    #[cfg(not(any(loom, shuttle)))] [AtomicU32; 2],
    #[cfg(any(loom, shuttle))] crate::explored::AtomicUsize,
);

#[cfg(not(any(loom, shuttle)))]
impl FavouredThread {
    const fn none() -> Self {
        Self([AtomicU32::new(0), AtomicU32::new(0)])
    }

    const fn halves(number: usize) -> [u32; 2] {
        [number as u32, ((number as u64) >> u32::BITS) as u32]
    }

    #[inline]
    fn is(&self, number: usize) -> bool {
        let [low, high] = Self::halves(number);
        self.0[0].load(Ordering::Relaxed) == low && self.0[1].load(Ordering::Relaxed) == high
    }

    fn set(&self, number: usize) {
        for (half, value) in self.0.iter().zip(Self::halves(number)) {
            half.store(value, Ordering::Relaxed);
        }
    }
}

#[cfg(any(loom, shuttle))]
impl FavouredThread {
    fn none() -> Self {
        Self(crate::explored::AtomicUsize::new(0))
    }

    fn is(&self, number: usize) -> bool {
        self.0.load(Ordering::Relaxed) == number
    }

    fn set(&self, number: usize) {
        self.0.store(number, Ordering::Relaxed);
    }
}
