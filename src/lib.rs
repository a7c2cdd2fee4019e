//! An embeddable journal engine for block stores on byte-addressable non-volatile memory (NVM).
//!
//! You give it a block device and a span of such memory, or a plain file in its place. It gives you
//! transactions of several blocks that are durable at the speed of that memory. The blocks reach
//! the device later, fewer and sorted.
//!
//! ```
//! use nvm_journal::{BlockNumber, BlockSize, FileDisk, Journal, MapOptions, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir().join(format!("nvm-journal-doc-{}", std::process::id()));
//! # std::fs::create_dir(&folder)?;
//! // Persistent memory, or any file in its place, and a disk of 256 blocks of 4 KiB.
//! let nvm = MapOptions::new().create(folder.join("nvm"), 1 << 20)?;
//! let disk = FileDisk::create(folder.join("disk"), BlockSize::DEFAULT, 256)?;
//! let journal = Journal::format(nvm, disk, &Options::new())?;
//! journal.transact(|tx| {
//!     tx.write_at(BlockNumber(1), 0, b"both blocks")?;
//!     tx.write_at(BlockNumber(2), 0, b"or none")
//! })?; // Now no crash takes them back.
//! drop(journal); // To the files, this is a crash of the process.
//!
//! let nvm = MapOptions::new().open(folder.join("nvm"))?;
//! let disk = FileDisk::open(folder.join("disk"), BlockSize::DEFAULT)?;
//! let journal = Journal::open(nvm, disk, &Options::new())?;
//! let mut block = [0; 4096];
//! journal.read(BlockNumber(2), &mut block)?;
//! assert!(block.starts_with(b"or none"));
//! journal.close()?; // Now the disk alone holds everything.
//! # std::fs::remove_dir_all(folder)?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is durable when
//!
#![doc = include_str!("durability.md")]
//!
//! [`commit`]: Transaction::commit
//! [`transact`]: Journal::transact
//! [`commit_deferred`]: Transaction::commit_deferred
//! [`transact_deferred`]: Journal::transact_deferred
//! [`commit_gathered`]: Transaction::commit_gathered
//! [`transact_gathered`]: Journal::transact_gathered
//! [`sync`]: Journal::sync
//! [`checkpoint`]: Journal::checkpoint
//! [`close`]: Journal::close
//! [`keep_on_close`]: Options::keep_on_close
//! [unreadable ones]: Journal::unreadable
//!
//! # Where to look
//!
//! - An author of a store needs this page: [`Journal`], [`Transaction`], [`Options`] and the
//!   policies.
//! - [`policy`] has what an author of a policy needs.
//! - [`ports`] has what an author of a memory or of a disk needs.
//! - The crate `nvm-journal-core` has the journal of one owner, for where there is no operating
//!   system. It also has the building blocks, the names of the test hooks, and `examine`.
//!
//! # Features
//!
//! - `adaptive`, `byte-delta`, `compressed-delta`, `lcow`, `object-log`, `two-level`: the policy of
//!   that name. They are on by default.
//! - `serde`: `Serialize` for [`Stats`], [`Plan`], [`Recovery`] and the reports.
//! - `tracing`: events of an open, a checkpoint, a failure and a close. None is of a record.
//!
//! [`FullBlock`](struct@FullBlock) is always there. [`AnyPolicy`] has the policies whose features
//! are on.

#![forbid(unsafe_code)]

mod any_policy;
mod disk;
mod engine;
mod error;
mod journal;
mod machine;
mod one_call;
mod options;
mod shared;
mod staging;
mod stats;
mod threads;
mod trace;
mod transaction;

pub mod policy;
pub mod ports;

#[cfg(feature = "adaptive")]
#[doc(inline)]
pub use adaptive::{Adaptive, Wish};
pub use any_policy::AnyPolicy;
#[cfg(feature = "byte-delta")]
#[doc(inline)]
pub use byte_delta::ByteDelta;
#[cfg(feature = "compressed-delta")]
#[doc(inline)]
pub use compressed_delta::CompressedDelta;
pub use disk::error::{FileDiskError, FileDiskErrorKind};
pub use disk::file::FileDisk;
pub use disk::joined::{DifferentBlocks, Joined};
pub use disk::options::FileDiskOptions;
pub use engine::snapshot::Snapshot;
pub use error::Error;
#[doc(inline)]
pub use full_block::FullBlock;
pub use journal::{AnyJournal, Journal};
#[doc(inline)]
pub use journal_core::{
    BlockNumber, BlockSize, CheckpointReport, Committed, Durability, Geometry, Operation, Recovery,
};
#[cfg(feature = "lcow")]
#[doc(inline)]
pub use lcow::Lcow;
pub use machine::{Machine, Native, On};
#[cfg(feature = "object-log")]
#[doc(inline)]
pub use object_log::ObjectLog;
pub use options::error::OptionsError;
pub use options::{Options, Plan};
#[doc(inline)]
pub use pmem_sys::{MapError, MapErrorKind, MapOptions, Region};
pub use staging::hint::Hint;
pub use stats::{CacheStats, GatherStats, LaneStats, Stats, Totals};
pub use transaction::Transaction;
#[cfg(feature = "two-level")]
#[doc(inline)]
pub use two_level::TwoLevel;

/// Runs the program in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(debug_assertions, not(any(loom, shuttle, test))))]
mod instances {
    //! The engine for the usual machine, compiled with this crate, where code is hardly optimised.
    //!
    //! There, a crate uses the copies of generic functions that a crate below it has. So a program
    //! that changes, and is built anew, need not compile the engine each time. Where code is
    //! optimised, each crate compiles its own copy, and this module does not exist.

    use core::ops::ControlFlow;
    use core::time::Duration;

    use full_block::FullBlock;
    use journal_core::policy::Policy;
    use journal_core::{BlockNumber, Durability, PmemRead as _};
    use pmem_sys::Region;

    use crate::any_policy::AnyPolicy;
    use crate::disk::file::FileDisk;
    use crate::error::Error;
    use crate::journal::Journal;
    use crate::options::Options;
    use crate::transaction::Transaction;

    type Use<L> = fn(Region, FileDisk, &Options<L>) -> Result<(), Error>;

    #[used]
    static FULL_BLOCK: Use<FullBlock> = use_all;
    #[used]
    static ANY: Use<AnyPolicy> = use_all;

    /// Uses every function that does not have one of the caller's. Nobody calls this.
    fn use_all<L: Policy + Clone + Send + Sync + 'static>(
        nvm: Region,
        disk: FileDisk,
        options: &Options<L>,
    ) -> Result<(), Error> {
        let journal = match nvm.is_empty() {
            true => Journal::format(nvm, disk, options)?,
            false => Journal::open(nvm, disk, options)?,
        };
        let (block, mut image) = (BlockNumber(0), [0; 512]);
        // All that transactions do.
        let run = |tx: &mut Transaction<'_, L>| {
            tx.read(block, &mut [0])?;
            tx.read_at(block, 0, &mut [0])?;
            tx.write(block, &[0])?;
            tx.append(block, &[0])?;
            tx.write_metadata(block, &[0])?;
            tx.write_at(block, 0, &[0])?;
            tx.note([0; 2])?;
            tx.discard(block)
        };
        journal.transact(run)?;
        journal.transact_within(Duration::ZERO, run)?;
        journal.transact_deferred(run)?;
        journal.transact_gathered(run)?;
        journal.begin()?.commit()?;
        journal.begin()?.commit_deferred()?;
        journal.begin()?.commit_gathered()?;
        journal.begin()?.abort();
        // Calls without one.
        journal.commit(&[], Durability::Durable)?;
        journal.try_commit(&[], Durability::Durable)?;
        journal.write_zeroes(block, 1)?;
        journal.trim(block, 1)?;
        journal.read(block, &mut image)?;
        journal.read_run(block, &mut image)?;
        journal.read_at(block, 0, &mut image)?;
        journal.snapshot()?.read_at(block, 0, &mut image)?;
        // Upkeep, and what is told.
        journal.sync()?;
        journal.tick(Duration::ZERO)?;
        journal.tick_within(Duration::ZERO, Duration::ZERO)?;
        journal.checkpoint()?;
        journal.checkpoint_rings()?;
        journal.checkpoint_steps(|_, _| ControlFlow::Break(()))?;
        journal.stats()?;
        journal.totals()?;
        journal.unreadable()?;
        journal.close()
    }
}
