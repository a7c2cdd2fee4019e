//! What threads meet through in a build whose schedules are explored: `--cfg loom`, which knows
//! every order that memory may show and tries all schedules of a few threads, or `--cfg shuttle`,
//! which runs many threads in the order of time and tries schedules by chance.
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

/// A number that no other living thread has. All of them are one thread of the system's, so that
/// an address of its own tells them apart no longer; and what is done with it is the same in every
/// execution, so that a schedule can be run again.
#[must_use]
pub fn this_thread() -> usize {
    use core::hash::{Hash as _, Hasher as _};
    let mut hasher = std::hash::DefaultHasher::new();
    // As it is shown, since beside that it may say which execution this is.
    format!("{:?}", thread::current().id()).hash(&mut hasher);
    hasher.finish() as usize
}
