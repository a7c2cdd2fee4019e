//! A block journal on a disk: the way in which file systems have journaled for decades.
//!
//! It logs whole blocks, in a ring on a block device, as the journaling layer of the ext file
//! systems does (JBD2, in its published description). It is a baseline. A comparison runs the work
//! of a store on it and on `nvm-journal`, and counts what each writes and syncs. Tests use it as a
//! store that is not the project's own engine. A store that has persistent memory is better served
//! by `nvm-journal`, and one that has none may use this.
//!
//! ```
//! use block_journal::{BlockJournal, Config, Mode};
//! use journal_core::{BlockNumber, BlockSize, DeviceFacts};
//! use sim_disk::{DiskImage, Image, Model, World};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let disk = |blocks| DiskImage::blank(BlockSize::DEFAULT, blocks, DeviceFacts::cautious());
//! let world = World::boot(Image::blank(64).with_disk(disk(66)).with_disk(disk(1000)), Model::Arm);
//! let (mut journal, homes) = (world.disk(0), world.disk(1));
//!
//! let config = Config::new(Mode::Ordered);
//! BlockJournal::format(&mut journal, &homes, config)?;
//! let (mut journal, _) = BlockJournal::open(journal, homes, config)?;
//! let mut transaction = journal.begin();
//! transaction.data(BlockNumber(700), &[7; 4096])?; // goes home, before the commit
//! transaction.metadata(BlockNumber(1), &[1; 4096])?; // goes into the ring
//! journal.commit(transaction)?; // Now no crash takes them back.
//! drop(journal); // To the devices, this is a crash.
//!
//! let (mut journal, recovered) = BlockJournal::open(world.disk(0), world.disk(1), config)?;
//! assert_eq!((recovered.transactions, recovered.replayed), (1, 1));
//! let mut block = [0; 4096];
//! journal.read(BlockNumber(1), &mut block)?;
//! assert_eq!(block, [1; 4096]);
//! journal.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # What a mode promises
//!
//! | mode | when a commit has returned | a crash inside a commit |
//! |---|---|---|
//! | [`Mode::Data`] | all of it is durable | all of it or nothing |
//! | [`Mode::Ordered`] | all of it is durable | metadata: all or nothing; data: anything |
//! | [`Mode::Writeback`] | metadata is durable; data after a [`sync`] | as above |
//! | [`Mode::None`] | all of it is durable | anything of the blocks that it writes |
//!
//! A mode is chosen at each open. In the middle two, a block that is discarded may hold data after
//! the commit of the discard, and no replay overwrites that. Data that comes earlier, while the
//! ring holds an image of the block, goes into the ring.
//!
//! [`sync`]: BlockJournal::sync
//! [wrote back]: BlockJournal::write_back
//!
//! # The steps
//!
//! 1. *Room*. Where less than a quarter of the ring is free, the caller stands still. Those blocks
//!    of the oldest transaction that no newer one has go home, 64 at a time. A sync follows, and
//!    then the tail moves. What a host [wrote back] before is home already.
//! 2. *Commit*. Data goes home where the mode says so. Revoke blocks, descriptors and images go
//!    into the ring. A sync makes them durable. Then comes the commit block, and another sync.
//! 3. *Recovery*. A scan finds the transactions with a commit block, and their revokes. A replay
//!    writes their images home, older ones first, but for those that a later transaction revoked.
//!    A sync follows, and then the ring is empty.
//!
//! The check in the commit block covers the whole transaction, and the sync before it makes the
//! check a proof: a commit block that does not fit its transaction is damage, and no torn write. An
//! open then fails ([`OpenError::Damaged`]). It also fails where a later block proves that a
//! transaction was committed which cannot be read.
//!
//! # The journal's device, byte by byte
//!
//! All numbers are little-endian. A check is CRC-64/NVME. Block 0 and block 1 hold the two copies
//! of the superblock, the ring comes behind them. Each block of the journal's own begins with this
//! header:
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 4 | the magic, `BJL1` |
//! | 4 | 4 | kind: 1 descriptor, 2 commit, 3 superblock, 4 revoke |
//! | 8 | 8 | sequence of the transaction |
//! | 16 | 8 | check of the block with zeroes here; its seed is the journal's id |
//!
//! **Superblock**. The check covers 64 bytes, with seed 0. Copies are written in turn, and the
//! whole one with the higher generation counts. The sequence is that of the oldest transaction that
//! is not home.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 24 | 8 | id of the journal |
//! | 32 | 8 | generation; the copy is in block `generation % 2` |
//! | 40 | 8 | blocks of the store |
//! | 48 | 4 | blocks of the ring, at least 4 |
//! | 52 | 4 | tail: the block of the ring at which that transaction begins |
//! | 56 | 2 | version: 1 |
//! | 58 | 1 | binary logarithm of the block size |
//! | 59 | 1 | 1 where the journal was closed and the ring is empty, or 0 |
//! | 60 | 4 | zero |
//!
//! **Descriptor**. Tags of 12 bytes follow the header, and the images follow the descriptor, in the
//! order of the tags.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 8 | home of the image |
//! | 8 | 4 | flags: 1 the image began with the magic, and has zeroes there; 2 the last tag |
//!
//! **Revoke**. Images of these homes in this transaction and in older ones are not replayed.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 24 | 4 | how many |
//! | 28 | 4 | zero |
//! | 32 | 8 each | homes |
//!
//! **Commit**. It ends a transaction.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 24 | 4 | blocks of the transaction in the ring, without this one |
//! | 28 | 4 | zero |
//! | 32 | 8 | check of all these blocks, as they lie in the ring; its seed is the journal's id |
//!
//! A transaction is any number of revoke blocks, then descriptors with their images, then the
//! commit block. The next one begins behind it, with the next sequence. Behind its last block the
//! ring goes on with its first. A sequence that was torn is left out: no open uses it again.
//!
//! It differs from JBD2 in the numbers and sizes of these tables. It also differs in the second
//! superblock, since a device may tear a block, in the look behind the end of the log, and in that
//! data never overtakes an image which the ring holds.

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

mod config;
mod devices;
mod engine;
mod error;
mod hook;
mod medium;
mod stats;
mod transaction;

pub use config::{Config, JournalDevice, Mode};
pub use devices::partition::Partition;
pub use devices::pmem_disk::PmemDisk;
pub use engine::journal::BlockJournal;
pub use error::{Damage, Error, FormatError, OpenError};
pub use hook::{ProtocolHook, Rule, site};
pub use medium::superblock::RING_BLOCKS_MIN;
pub use stats::{Recovered, Stats};
pub use transaction::Transaction;
