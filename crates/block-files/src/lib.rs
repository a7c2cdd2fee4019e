//! Files in one journal: bytes at any offset, over the blocks of [nvm-journal](nvm_journal).
//!
//! A store that thinks in files, and not in blocks, gets the journal's promise from here: changes
//! of several files become durable together, in one commit, or not at all.
//!
//! ```
//! use std::sync::Arc;
//!
//! use block_files::BlockFiles;
//! use nvm_journal::{BlockSize, FileDisk, Journal, MapOptions, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir().join(format!("block-files-doc-{}", std::process::id()));
//! # std::fs::create_dir(&folder)?;
//! let nvm = MapOptions::new().create(folder.join("nvm"), 1 << 20)?;
//! let disk = FileDisk::create(folder.join("disk"), BlockSize::DEFAULT, 256)?;
//! let journal = Journal::format(nvm, disk, &Options::new())?;
//!
//! let files = BlockFiles::format(Arc::new(journal))?;
//! let (log, index) = (files.create("log")?, files.create("index")?);
//! files.batch().write_at(&log, 0, b"a record").write_at(&index, 4096, b"its key").commit()?;
//!
//! let mut key = [0; 7];
//! assert_eq!(index.read_at(4096, &mut key)?, 7);
//! assert_eq!(&key, b"its key");
//! files.close()?;
//! # std::fs::remove_dir_all(folder)?;
//! # Ok(())
//! # }
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`Store`] | a journal without type parameters: `Arc<dyn Store>` |
//! | [`BlockFiles`], [`BlockFile`], [`Batch`] | named files in one journal |
//! | [`OneFile`] | one file, each block of which has its own place on the disk |
//! | [`Part`] | some blocks of a store, as a store: several of the above share one journal |
//! | [`SpanDisk`] | a small disk in persistent memory, for what `OneFile` keeps beside its file |
//!
//! # What is durable when
//!
//! | after | survives every crash |
//! |---|---|
//! | [`BlockFile::write_at`], [`BlockFile::set_len`] | nothing yet; readers see it at once |
//! | [`BlockFile::sync`], [`BlockFiles::sync`] | every change of every file before the call |
//! | [`BlockFiles::create`], [`remove`](BlockFiles::remove), [`rename`](BlockFiles::rename) | it |
//! | [`Batch::commit`] | all of the batch |
//! | [`Batch::commit_deferred`] | nothing yet; a crash leaves all of the batch, or nothing |
//!
//! Each call is one transaction: a crash leaves all of it or nothing.

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

mod error;
mod files;
mod layout;
mod one_file;
mod part;
mod span_disk;
mod store;

pub use error::{Damage, DamageKind, Error};
pub use files::block_files::{Batch, BlockFile, BlockFiles};
pub use one_file::{OneFile, OneFileState, Write};
pub use part::Part;
pub use span_disk::SpanDisk;
pub use store::Store;
