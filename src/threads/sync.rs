//! Atomics and locks for threads. They come from core and std, or from the explorer in a build
//! whose schedules are explored.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(any(loom, shuttle))]
pub(crate) use pmem_sys::explored::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering,
};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

/// Waits until the condvar is notified, or for `nap`. It may also return early for no reason.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn wait_timeout<'g, T>(
    condvar: &Condvar,
    guard: MutexGuard<'g, T>,
    nap: core::time::Duration,
) -> MutexGuard<'g, T> {
    let waited = condvar.wait_timeout(guard, nap);
    waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
}

/// Waits until the condvar is notified: an explorer wakes no thread by time alone, so it finds any
/// thread that is forgotten.
#[cfg(any(loom, shuttle))]
pub(crate) fn wait_timeout<'g, T>(
    condvar: &Condvar,
    guard: MutexGuard<'g, T>,
    _nap: core::time::Duration,
) -> MutexGuard<'g, T> {
    condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Threads, and how they wait.
pub(crate) mod thread {
    use core::time::Duration;

    #[cfg(any(loom, shuttle))]
    pub(crate) use pmem_sys::explored::thread::{Builder, JoinHandle, Thread};
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) use std::thread::{Builder, JoinHandle, Thread, park_timeout};

    /// Rounds in which a waiter looks again at once; together they last about as long as a commit.
    const SPINS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 64 };
    /// Rounds after those, in which a waiter lets other threads run.
    const YIELDS: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 64 };

    /// How many of these rounds make up one round of a waiter that is to look seldom.
    const SELDOM: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 8 };
    /// Pauses of such a round: some microseconds, in which several commits are done.
    const LONG: u32 = 128;

    /// Waiting for something that takes no longer than a commit, most of the time.
    #[derive(Debug, Default)]
    pub(crate) struct Patience {
        rounds: u32,
        is_seldom: bool,
    }

    impl Patience {
        /// For a lock that its holder releases and retakes at once. Each look takes a cache line
        /// away from the holder. To get the line back, with all that goes with it, costs the holder
        /// time after each of its commits. So a waiter looks seldom.
        pub(crate) const fn of_the_next() -> Self {
            Self { rounds: 0, is_seldom: true }
        }

        /// Whether the quick rounds are over.
        pub(crate) const fn is_long(&self) -> bool {
            self.rounds >= SPINS + YIELDS
        }

        /// How often it has waited, more or less.
        pub(crate) const fn rounds(&self) -> u32 {
            self.rounds
        }

        /// Waits a little, and longer the more often it was called.
        pub(crate) fn pause(&mut self) {
            let looks_seldom = self.is_seldom && !self.is_long();
            let (rounds, pauses) = if looks_seldom { (SELDOM, LONG) } else { (1, 1) };
            wait(self.rounds, pauses);
            self.rounds = self.rounds.saturating_add(rounds);
        }
    }

    #[cfg(not(any(loom, shuttle)))]
    fn wait(rounds: u32, pauses: u32) {
        match rounds {
            // On some processors a pause is as long as a cache line takes to come over.
            rounds if rounds < SPINS => (0..pauses).for_each(|_| core::hint::spin_loop()),
            rounds if rounds < SPINS + YIELDS => {
                (1..pauses).for_each(|_| core::hint::spin_loop());
                std::thread::yield_now();
            }
            _ => std::thread::sleep(Duration::from_micros(20)),
        }
    }

    /// An explorer has no time: waiting is letting others run.
    #[cfg(any(loom, shuttle))]
    fn wait(_rounds: u32, _pauses: u32) {
        pmem_sys::explored::thread::yield_now();
    }

    /// Has a thread that waits for nothing in particular let others go on.
    pub(crate) fn let_others_run() {
        #[cfg(any(loom, shuttle))]
        pmem_sys::explored::thread::yield_now();
        #[cfg(not(any(loom, shuttle)))]
        std::thread::yield_now();
    }

    /// Parks until the thread is unparked: an explorer wakes no thread by time alone, so it finds
    /// any thread that is forgotten.
    #[cfg(any(loom, shuttle))]
    pub(crate) fn park_timeout(_nap: Duration) {
        pmem_sys::explored::thread::park();
    }
}

/// A value for each thread. When a thread ends, a later thread takes over its value.
#[derive(Debug, Default)]
pub(crate) struct OfEachThread<T: Send>(of_each_thread::Values<T>);

impl<T: Send + Default> OfEachThread<T> {
    /// Calls with this thread's value.
    #[inline(always)]
    pub(crate) fn with<R>(&self, call: impl FnOnce(&T) -> R) -> R {
        self.0.with(call)
    }
}

#[cfg(not(any(loom, shuttle)))]
mod of_each_thread {
    use thread_local::ThreadLocal;

    #[derive(Debug, Default)]
    pub(super) struct Values<T: Send>(ThreadLocal<T>);

    impl<T: Send + Default> Values<T> {
        #[inline(always)]
        pub(super) fn with<R>(&self, call: impl FnOnce(&T) -> R) -> R {
            call(self.0.get_or_default())
        }
    }
}

/// An explorer's threads are all one thread of the system. No thread waits for another here, so the
/// explorer need not know of any of this.
#[cfg(any(loom, shuttle))]
mod of_each_thread {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};

    #[derive(Debug, Default)]
    pub(super) struct Values<T: Send>(Mutex<BTreeMap<usize, T>>);

    impl<T: Send + Default> Values<T> {
        pub(super) fn with<R>(&self, call: impl FnOnce(&T) -> R) -> R {
            let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            call(values.entry(pmem_sys::explored::this_thread()).or_default())
        }
    }
}
