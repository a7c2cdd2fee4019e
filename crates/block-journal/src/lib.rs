//! A block journal.

#![no_std]
#![forbid(unsafe_code)]
// Numbers and lengths may come from a medium: nothing in the library may panic on them.
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

extern crate alloc;

mod checkpoint;
mod commit;
mod config;
mod error;
mod format;
mod hook;
mod journal;
mod layout;
mod partition;
mod pmem_disk;
mod recovery;
mod stats;
mod superblock;
mod transaction;

pub use config::{Config, Mode, Placement};
pub use error::{Damage, Error, FormatError, OpenError};
pub use hook::{ProtocolHook, Rule, site};
pub use journal::BlockJournal;
pub use partition::Partition;
pub use pmem_disk::PmemDisk;
pub use stats::{Recovered, Stats};
pub use superblock::RING_BLOCKS_MIN;
pub use transaction::Transaction;
