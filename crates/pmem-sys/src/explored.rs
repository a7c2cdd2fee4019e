//! Atomics and threads for a build whose schedules are explored.
//!
//! - `--cfg loom` knows every order that memory may show, and tries all schedules of a few threads.
//! - `--cfg shuttle` runs many threads in the order of time, and tries schedules by chance.
//!
//! Nothing of this is there in an ordinary build, and nothing of it is for users: the journal and
//! its tests are built with it.

#[cfg(loom)]
pub mod models;
#[cfg(loom)]
pub mod orders;

pub use core::sync::atomic::Ordering;

#[cfg(loom)]
pub use loom::{sync::Condvar, sync::Mutex, sync::MutexGuard, thread};
#[cfg(shuttle)]
pub use shuttle::{sync::Condvar, sync::Mutex, sync::MutexGuard, thread};

#[cfg(loom)]
pub use orders::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
#[cfg(shuttle)]
pub use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

/// A number that no other living thread has. All threads of a model are one thread of the system,
/// so an address of its own no longer tells a thread apart. What is done with the number is the
/// same in every execution, so that a schedule can be run again.
#[must_use]
pub fn this_thread() -> usize {
    use core::hash::{Hash as _, Hasher as _};
    let mut hasher = std::hash::DefaultHasher::new();
    // As it is shown, since the rest may say which execution this is.
    format!("{:?}", thread::current().id()).hash(&mut hasher);
    hasher.finish() as usize
}
