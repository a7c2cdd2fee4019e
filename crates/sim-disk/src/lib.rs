//! A crash simulator for stores on persistent memory, disks and files, and a virtual clock.
//!
//! It gives a store simulated media, and takes down every store, flush, fence, write and sync on
//! one tape. Then it shows the store every state in which a power loss could have left those media.
//! It does so at every instant that matters, with all states where they are few, and a declared
//! sample where not. It also kills the process and cuts the power later. It crashes recovery, and
//! the recovery from that. It makes calls fail, lie and go astray. And it plants bugs in the
//! store's own order of persistence, to see whether the store's tests notice.
//!
//! ```
//! use journal_core::{Offset, Pmem, PmemRead};
//! use sim_disk::{Explorer, Image, Mark, Model, Scenario, World};
//!
//! /// Two words, written one after the other: the second must not be there without the first.
//! struct Pair { fence_between: bool }
//!
//! impl Scenario for Pair {
//!     fn start(&self) -> Image {
//!         Image::blank(128)
//!     }
//!
//!     fn program(&self, world: &World) -> Result<(), String> {
//!         let mut pmem = world.pmem();
//!         for at in [Offset(0), Offset(64)] {
//!             pmem.store_u64(at, 1);
//!             pmem.flush(at, 8);
//!             if self.fence_between || at == Offset(64) {
//!                 pmem.fence().map_err(|error| error.to_string())?;
//!             }
//!         }
//!         world.returned(1);
//!         Ok(())
//!     }
//!
//!     fn recover(&self, world: &World) -> Result<(), String> {
//!         let pmem = world.pmem();
//!         let byte = |at| pmem.bytes(at, 1).map(|bytes| bytes[0]).map_err(|e| e.to_string());
//!         let (first, second) = (byte(Offset(0))?, byte(Offset(64))?);
//!         let returned = world.history().contains(&Mark::Returned(1));
//!         match (first, second) {
//!             (1, 1) => Ok(()),
//!             (_, 0) if !returned => Ok(()),
//!             found => Err(format!("found {found:?}")),
//!         }
//!     }
//! }
//!
//! let explorer = Explorer::new(Model::Torn8);
//! assert!(explorer.explore(&Pair { fence_between: true }).is_ok());
//! let failure = explorer.explore(&Pair { fence_between: false }).unwrap_err();
//! assert_eq!(failure.message, "found (0, 1)");
//! println!("{failure}"); // the trace, and what the crash kept and lost
//! ```
//!
//! | to | use |
//! |---|---|
//! | run a store on simulated media | [`World`], [`SimPmem`], [`SimDisk`], [`SimFile`] |
//! | try every crash | [`Scenario`], [`Explorer`] |
//! | know what a crash may do | [`Model`]; [`CrashPoints`] for one tape by hand |
//! | make calls fail or lie | [`Fault`]; rot and poison through [`Image`] |
//! | test the tests | [`Mutator`], [`hunt`] |
//! | generate programs and shrink them | [`generate`] |
//! | have a store tried as a whole | [`suite::check_store`] |
//! | have a policy of the journal tried | [`suite::check_policy`] |
//! | run programs on a journal of a policy | [`suite`] |
//! | know how long media would take, by a virtual clock | [`time`] |
//!
//! `tools/lab/src/toy_log` in the repository is a whole store with its oracle, its exploration and
//! its mutants, by hand.
//! [`suite::check_store`] explores any store that says what it is asked, what can be read of it,
//! and what should be.
//!
//! # What is exact and what is not
//!
//! For a given tape, the images are exactly those of the model. This is checked against an
//! operational machine with store buffers, caches and write-combining buffers. The check runs
//! hundreds of thousands of random programs (under `arm` for one thread only). A tape is one
//! schedule: a program with several threads has to be run under several of them. No crash is timed.
//! The words of one store call persist in any order, because a compiler may emit them in any order.
//!
//! Where in doubt the simulator allows more than hardware does. It allows less in two things. A
//! strong flush is ordered by itself, as on Intel (elsewhere it needs a fence). And a disk leaves
//! garbage only in the blocks that were written. Files have their limits at [`SimFile`].
//!
//! # Files
//!
//! An engine that keeps its data in files needs neither memory nor a disk of a world. Here one
//! appends a record, and then notes its length in a second file. The first file has to be synced
//! before that:
//!
//! ```
//! use sim_disk::{Explorer, FileError, FileFacts, Image, Model, Scenario, World};
//!
//! struct Append { syncs_data: bool }
//!
//! fn append(world: &World, syncs_data: bool) -> Result<(), FileError> {
//!     let (data, length) = (world.file(0), world.file(1));
//!     data.write_all_at(0, b"record")?;
//!     if syncs_data {
//!         data.sync()?;
//!     }
//!     length.write_all_at(0, &[6])?;
//!     length.sync()
//! }
//!
//! impl Scenario for Append {
//!     fn start(&self) -> Image {
//!         Image::of_files(2, FileFacts::default())
//!     }
//!
//!     fn program(&self, world: &World) -> Result<(), String> {
//!         append(world, self.syncs_data).map_err(|error| error.to_string())
//!     }
//!
//!     fn recover(&self, world: &World) -> Result<(), String> {
//!         let mut length = [0];
//!         world.file(1).read_at(0, &mut length).map_err(|error| error.to_string())?;
//!         let mut record = vec![0; length[0].into()];
//!         world.file(0).read_exact_at(0, &mut record).map_err(|error| error.to_string())?;
//!         if record.is_empty() || record == b"record" { Ok(()) } else { Err("torn".into()) }
//!     }
//! }
//!
//! let explorer = Explorer::new(Model::Torn8).with_shrinking();
//! assert!(explorer.explore(&Append { syncs_data: true }).is_ok());
//! let failure = explorer.explore(&Append { syncs_data: false }).unwrap_err();
//! println!("{failure}"); // what was kept, and what was lost
//! ```
//!
//! [`suite::check_store`] tries much more with as many lines.

#![forbid(unsafe_code)]

mod media;
mod power;
pub mod suite;

pub use media::{disk, fault, file, image, model, pmem, rng, tape, time, world};
pub use power::{crash, explore, generate, mutants, report};

pub use crash::{Cell, Choices, CrashPoint, CrashPoints};
pub use disk::SimDisk;
pub use explore::{Damage, Explorer, Scenario};
pub use fault::{Fault, FaultKind, Operation, OperationCounts};
pub use file::{FileError, FileErrorKind, FileFacts, FileImage, SimFile, TornBy, Unwritten};
pub use image::{DiskImage, Image, Medium};
pub use model::{Defect, Model, Rules};
pub use mutants::{Mutant, Mutation, Mutator, hunt};
pub use pmem::{SimPmem, SimReader};
pub use report::{Failure, Report};
pub use rng::Rng;
pub use tape::{Counts, Entry, Event, FlushKind, Mark, Tape, Thread};
pub use world::World;
