//! The upkeep: it makes room beside threads that commit.

mod appends;
pub(crate) mod checkpoint;
mod evict;
mod in_steps;
pub(crate) mod move_to_log;
mod notes;
mod relog;
mod tick;
pub(crate) mod trim;
mod whole;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
