//! Virtual time: a store runs as it is, and a clock that nobody waits for says how long its media
//! would have taken.
//!
//! A [`Clock`] has one time for each [`Actor`]. [`TimedPmem`] wraps any memory, and [`TimedDisk`]
//! is a disk with a [`Drive`]. Each passes its calls on, or does what they say, and adds to the
//! time of the current actor what the medium would have taken.
//!
//! ```
//! use journal_core::{BlockDevice, BlockNumber, BlockSize};
//! use sim_disk::time::{Clock, Hdd, HddModel, TimedDisk};
//!
//! let clock = Clock::new();
//! let hdd = Hdd::new(HddModel::rpm_7200());
//! let mut disk = TimedDisk::new(&clock, hdd, BlockSize::DEFAULT, 1 << 21);
//! for block in 0..100 {
//!     disk.write(BlockNumber(block), &[7; 4096])?;
//!     disk.sync()?; // The next block has passed the head by then.
//! }
//! let turns = clock.now() / 8_333_333;
//! assert_eq!(turns, 99); // One for each block behind the first.
//! # Ok::<(), journal_core::DeviceError>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | run several threads of a workload as one | [`Clock::next_host`] |
//! | charge for what the host computes | [`Clock::charge_cpu`] |
//! | choose a medium | [`MemoryModel::named`], [`named_drives`] |
//! | model another one | the fields of [`MemoryModel`]; [`Drive`] |
//! | run a checkpoint beside commits | [`Clock::in_background`], [`TimedDisk::ticket`] |
//! | keep from using too early what that freed | [`Embargo`] |
//! | keep gigabytes in megabytes | [`Generator`] |
//! | look at each service | [`TimedDisk::take_log`] |
//!
//! Nothing here reads a real clock or draws random numbers. All runs in one thread of the operating
//! system. So a program that is deterministic itself gets the same times in each run, on each
//! machine. The crate's example `two_media` times a small store.
//!
//! # What the times are worth
//!
//! A drive is a queue and a few parameters, each with its source. Where figures of real drives
//! exist, the crate's tests hold the models against them. Times of media that nobody has are worth
//! what their parameters are.
//!
//! Actors take turns, by whole steps. A step that waits long makes its drive serve what comes
//! before the end of that wait. An actor that is behind in time then finds the drive as it is at
//! that later time.

mod background;
mod cache;
mod clock;
mod content;
mod disk;
mod drive;
mod drives;
mod embargo;
mod memory;
mod pmem;
mod queue;

pub use background::Ticket;
pub use cache::MERGED_BYTES_MAX;
pub use clock::{Actor, Clock};
pub use content::Generator;
pub use disk::TimedDisk;
pub use drive::{Drive, Extent, QueueFacts, Service};
pub use drives::card::{Card, CardModel};
pub use drives::hdd::{Hdd, HddModel};
pub use drives::named_drives;
pub use drives::ssd::{Ssd, SsdModel};
pub use embargo::Embargo;
pub use memory::MemoryModel;
pub use pmem::{MemoryMeter, MemoryUse, TimedPmem, TimedReader};
pub use queue::{DriveUse, Served, ServedKind, WRITES_AT_A_TIME, WRITES_WAIT_NS};
