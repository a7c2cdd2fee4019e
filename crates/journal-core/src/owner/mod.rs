//! The journal of one owner.

pub(crate) mod audit;
#[cfg(feature = "alloc")]
pub(crate) mod buffers;
pub(crate) mod commit;
pub(crate) mod journal;
pub(crate) mod lanes;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod move_to_log;
pub(crate) mod open;
pub(crate) mod reclaim;
pub(crate) mod stream;
