//! A full fence that one thread makes for all.
//!
//! Two threads may each say something and then look at what the other one says. Then each needs a
//! full fence between the two steps, or both may look too early. One of them may do so a million
//! times for each time that the other one does. Then the fence need not be in both. The rare one
//! asks the system to make it for every thread of the process ([`reach`]). The other one only keeps
//! its program's order ([`near`]), which costs nothing.
//!
//! Guarantees: one thread stores `a`, calls [`near`] and loads `b`, and another one stores `b`,
//! calls [`reach`] and loads `a`. Then at least one of them loads what the other stored. That is
//! what `membarrier(2)` says of its expedited commands. To an explorer of schedules it is what two
//! fences of [`Ordering::SeqCst`] are. A crash does not come into it.
//!
//! [`Ordering::SeqCst`]: core::sync::atomic::Ordering::SeqCst

/// The half that costs nothing. Neither the compiler nor, beside a [`reach`], the processor lets a
/// load that comes behind it go before a store that comes first.
#[inline]
pub(crate) fn near() {
    #[cfg(not(any(loom, shuttle)))]
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    #[cfg(loom)]
    loom::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

/// The half that takes microseconds: a full fence of this thread, and of every other one of the
/// process at some moment between the call and its return. There is a [`FarFence`]. Returns whether
/// the fence was made: a process may have forbidden itself the call since.
#[must_use]
pub(crate) fn reach() -> bool {
    // To explorers `near` and `reach` are full fences.
    #[cfg(any(loom, shuttle))]
    {
        near();
        true
    }
    #[cfg(not(any(loom, shuttle)))]
    {
        use rustix::thread::{MembarrierCommand, membarrier};
        #[cfg(test)]
        if IS_REFUSED.get() {
            return false;
        }
        membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
std::thread_local! {
    /// Whether this thread is not given the call any more.
    pub(crate) static IS_REFUSED: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

/// Leave to use such fences, which this process has asked the system for.
#[derive(Clone, Copy, Debug)]
pub struct FarFence(());

impl FarFence {
    /// Asks for this leave. `None` where the system has no such fences, or does not give them.
    #[must_use]
    pub fn register() -> Option<Self> {
        use rustix::thread::{MembarrierCommand, membarrier};
        let register = || membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
        // Miri has no such call, and explorers need none.
        let is_given = cfg!(any(loom, shuttle)) || (!cfg!(miri) && register());
        is_given.then_some(Self(()))
    }

    /// The half that costs nothing. A load of this thread behind it does not go before a store
    /// before it, as far as a [`reach`](Self::reach) of another thread can tell.
    #[inline]
    pub fn near() {
        near();
    }

    /// The half that takes microseconds: a full fence of every thread of the process. Returns
    /// whether the system has made it; a process may forbid itself the call later.
    ///
    /// ```
    /// use core::sync::atomic::{AtomicU32, Ordering};
    /// use pmem_sys::FarFence;
    ///
    /// static LEFT: AtomicU32 = AtomicU32::new(0);
    /// static WAITS: AtomicU32 = AtomicU32::new(0);
    ///
    /// // A thread that leaves a million times, and pays nothing for it.
    /// LEFT.store(1, Ordering::Relaxed);
    /// FarFence::near();
    /// let wakes = WAITS.load(Ordering::Relaxed) != 0;
    /// // A thread that waits once. At least one of the two sees the other.
    /// WAITS.store(1, Ordering::Relaxed);
    /// if FarFence::register().is_some_and(FarFence::reach) {
    ///     let may_sleep = LEFT.load(Ordering::Relaxed) == 0;
    ///     # assert!(wakes || !may_sleep);
    /// }
    /// ```
    #[must_use]
    pub fn reach(self) -> bool {
        reach()
    }
}
