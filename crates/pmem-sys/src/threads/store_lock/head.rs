//! The head of a lock's waiters: the only one that looks again and again. The others sleep.
//!
//! One word says all of it:
//!
//! D1. A waiter is the head while it has set [`HEAD`], which one thread at a time can.
//! D2. A thread that is going to sleep sets [`SLEEPS`] first. It sleeps only while the word is as
//!     it has left it or found it. So a head that ends before that sleep ends that sleep, too.
//! D3. A head that ends wakes one sleeper, where there may be one. The thread that is woken
//!     becomes the head with [`SLEEPS`] set, since it does not know whether it was the last one.
//! D4. A head that has waited long says so by [`OVERDUE`]. That ends with it.
//!
//! Locks have no room for a mutex of std: they would take another cache line.

use super::sync::{AtomicU32, Ordering};

/// A waiter is the head.
const HEAD: u32 = 1;
/// Threads sleep that want to be the head.
const SLEEPS: u32 = 2;
/// The head has waited long, and no other thread may get ahead of it.
const OVERDUE: u32 = 4;

/// Which waiter is the head, if any is.
#[derive(Debug)]
pub(super) struct Head(AtomicU32);

impl Head {
    #[cfg(not(any(loom, shuttle)))]
    pub(super) const fn nobody() -> Self {
        Self(AtomicU32::new(0))
    }

    #[cfg(any(loom, shuttle))]
    pub(super) fn nobody() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Whether the lock is owed to the head. Nothing is published by this word; it steers.
    #[inline(always)]
    pub(super) fn is_overdue(&self) -> bool {
        self.0.load(Ordering::Relaxed) & OVERDUE != 0
    }

    /// Sleeps until this thread is the head, for as long as the result lives.
    pub(super) fn become_it(&self) -> BeingHead<'_> {
        let mut mark = HEAD;
        loop {
            let found = self.0.load(Ordering::Relaxed);
            if found & HEAD == 0 {
                if self.changes(found, mark) {
                    return BeingHead(self);
                }
            } else if found & SLEEPS != 0 || self.changes(found, found | SLEEPS) {
                self.sleep(found | SLEEPS);
                mark = HEAD | SLEEPS;
            }
        }
    }

    fn changes(&self, from: u32, to: u32) -> bool {
        self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Sleeps, if the word is still this one, until it is woken. It may also return for no reason.
    #[cfg(not(any(loom, shuttle)))]
    fn sleep(&self, word: u32) {
        use core::time::Duration;
        use rustix::io::Errno;
        use rustix::thread::futex::{Flags, Timespec, wait};

        /// A sleeper looks again after this time, all the same.
        const NAP_MAX: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
        /// The nap where the process may not sleep in another way.
        const NAP: Duration = Duration::from_micros(200);

        // Miri has no such call.
        if cfg!(miri) {
            return std::thread::yield_now();
        }
        match wait(&self.0, Flags::PRIVATE, word, Some(&NAP_MAX)) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
            Err(_) => std::thread::sleep(NAP),
        }
    }

    #[cfg(not(any(loom, shuttle)))]
    fn wake_one(&self) {
        use rustix::thread::futex::{Flags, wake};
        if !cfg!(miri) {
            // A thread that cannot be woken looks by itself.
            let _ = wake(&self.0, Flags::PRIVATE, 1);
        }
    }

    /// An explorer has no time: waiting is letting others run.
    #[cfg(any(loom, shuttle))]
    fn sleep(&self, _word: u32) {
        crate::explored::thread::yield_now();
    }

    #[cfg(any(loom, shuttle))]
    fn wake_one(&self) {}
}

/// This thread is the head of a lock's waiters.
#[derive(Debug)]
pub(super) struct BeingHead<'h>(&'h Head);

impl BeingHead<'_> {
    /// Says that this thread has waited long, which it has not said before.
    pub(super) fn set_overdue(&self) {
        self.0.0.fetch_add(OVERDUE, Ordering::Relaxed);
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.0.is_overdue()
    }
}

impl Drop for BeingHead<'_> {
    fn drop(&mut self) {
        if self.0.0.swap(0, Ordering::Relaxed) & SLEEPS != 0 {
            self.0.wake_one();
        }
    }
}
