//! The atomics of a lock, and the states of its word. Explorers of schedules have atomics of their
//! own, which they can look into.

#[cfg(any(loom, shuttle))]
pub(super) use crate::explored::{AtomicU32, Ordering};
#[cfg(not(any(loom, shuttle)))]
pub(super) use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(loom)]
pub(super) use loom::cell::UnsafeCell;

/// The cell of core, with the calls of loom's.
#[cfg(not(loom))]
#[derive(Debug)]
pub(super) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(super) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    #[inline]
    pub(super) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }

    pub(super) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

/// No thread holds the lock.
pub(super) const FREE: u32 = 0;
/// A thread holds it.
pub(super) const HELD: u32 = 1;
/// Its last holder panicked; no thread will hold it again.
pub(super) const POISONED: u32 = 2;
