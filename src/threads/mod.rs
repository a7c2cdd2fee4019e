//! Locks on blocks, turns and flags, which threads share and wait for.

pub(crate) mod block_locks;
pub(crate) mod checkpoint_flag;
pub(crate) mod durable_to;
#[cfg(all(test, loom))]
pub(crate) mod explored;
pub(crate) mod free_space;
pub(crate) mod lane_turn;
pub(crate) mod seat_numbers;
pub(crate) mod sync;
pub(crate) mod waiting;
pub(crate) mod wake;
pub(crate) mod watchers;
