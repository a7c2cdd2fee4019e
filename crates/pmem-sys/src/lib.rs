//! Persistent memory on real machines: the [`journal_core::Pmem`] port over mapped files, plain
//! memory, and emulated slow memory.
//!
//! All the `unsafe` of the workspace is in this crate, calls of libraries in C apart.
//!
//! | a [`Region`] from | is durable by | survives |
//! |---|---|---|
//! | [`MapOptions::open`], kernel grants `MAP_SYNC` | line flush and fence | power loss |
//! | [`MapOptions::open`], a file in tmpfs | line flush and fence, for their cost | its process |
//! | [`MapOptions::open`], any other file | `msync` of the flushed pages | power loss |
//! | the same, with [`MapOptions::direct_io`] | writes past the page cache | power loss |
//! | [`MapOptions::anonymous`] | line flush and fence, for their cost | nothing |
//! | [`MapOptions::emulated`] | the same, slower ([`EmulatorModel`]) | nothing |
//!
//! [`Region::map_facts`] says which of the first three it is, and why. A user that needs the first
//! demands it ([`MapOptions::at_least`]), and gets it or a typed refusal.
//!
//! ```
//! use journal_core::{Offset, Pmem, PmemRead, PmemShare, PmemSplit};
//! use pmem_sys::Region;
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let (mut log, _rest) = Region::anonymous(1 << 20)?.split_at(Offset(4096))?;
//! let reader = log.reader();
//! log.store(Offset(10), b"record");
//! log.flush(Offset(10), 6);
//! log.fence()?;
//! let mut copy = [0; 6];
//! reader.read_into(Offset(10), &mut copy)?;
//! assert_eq!(&copy, log.bytes(Offset(10), 6)?);
//! # Ok(())
//! # }
//! ```
//!
//! # What a crash may do
//!
//! It is said at each method of the port. A killed process loses nothing it stored and frees its
//! lock. With direct I/O it loses what it has not fenced. At a power loss, bytes that were not
//! flushed and fenced are lost, word by word. This is so at every medium alike: a program is right
//! on all of them or on none.
//!
//! # Trust
//!
//! - A mapped file belongs to its owner while it is open. The lock keeps other users of this crate
//!   out. A program that writes to the file around the lock changes memory under its owner's
//!   references. No library can prevent that, just as nothing prevents writes through
//!   `/proc/self/mem`. Keep the file's permissions tight.
//! - A file that is cut short while it is mapped ends the process at the next access to the lost
//!   part (`SIGBUS`); so does an uncorrectable memory error. No signal handler is installed: the
//!   process dies, the lock is free, recovery is the next open's.
//! - A store for which the file system finds no space ends the process in the same way. That may be
//!   a store into a hole of a sparse file. On file systems that write elsewhere what is overwritten
//!   (copy on write, snapshots, clones), it may be a store into any part of any file.
//!   [`MapOptions::create`] allocates all the space of a new file, which rules out the first and
//!   not the second. [`MapOptions::open`] takes a file as it is. A journal wants a file made by
//!   `create`, on a file system that overwrites in place.
//! - After a failed `msync`, do not trust a page-cache file before its file system was mounted
//!   anew. The kernel may show pages that it calls clean and that never reached the disk. A process
//!   that opens the file again cannot tell.
//! - A child process made by `fork` shares the mapping and the lock. It may drop the regions it
//!   inherited (the parent keeps the lock) and must not use them.
//!
//! # Instructions
//!
//! The crate chooses them at run time ([`Method::best`]). [`FlushMethod::supported`] and
//! [`StreamMethod::supported`] list what there is, and [`MapOptions::method`] overrides the choice.
//!
//! From which length on streaming beats storing and flushing is a default from a few measured
//! machines, unless [`Region::calibrate`] is asked to measure it. AMD processors, and those that
//! put lines together in wide registers, stream from one line on. Other x86 processors stream from
//! more than four lines on.

#![warn(clippy::unwrap_used)]

#[cfg(not(any(target_os = "linux", target_os = "android")))]
compile_error!("this crate maps and locks files by Linux system calls");

#[cfg(not(target_has_atomic = "64"))]
compile_error!("this crate needs stores of eight bytes that are never torn");

#[cfg(any(loom, shuttle))]
pub mod explored;
pub mod lines;
mod map;
mod processor;
mod region;
mod threads;

pub use map::error::{Holder, MapError, MapErrorKind, Step};
pub use map::facts::{MapFacts, Reason};
pub use map::zeroes::{Taken, Zeroes};
pub use processor::choices::{FlushMethod, StreamMethod};
pub use processor::copies::{append_block, copy_block};
pub use processor::kernels::NativeKernels;
pub use processor::method::{Method, UnsupportedMethod};
pub use region::calibrate::{Calibration, CalibrationPoint};
pub use region::emulator::EmulatorModel;
pub use region::options::MapOptions;
pub use region::{Reader, Region};
pub use threads::far_fence::FarFence;
pub use threads::store_lock::{
    OVERDUE_AFTER_NAPS, Poisoned, StoreLock, StoreLockGuard, WAKE_DELAY_MAX,
};
