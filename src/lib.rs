//! An embeddable journal engine for block stores on byte-addressable non-volatile memory.
//!
//! [`Journal`] is the front door; the README has a program. [`core`] is the journal itself, with
//! one owner and memory of the caller's, for where there is no operating system; [`pmem`] is
//! persistent memory on real machines.

#![forbid(unsafe_code)]

mod any_policy;
mod disk;
mod engine;
mod error;
mod hint;
mod journal;
mod machine;
mod options;
mod shared;
mod staging;
mod stats;
mod threads;
mod transaction;

/// The policy that chooses a form for each update, and its settings.
pub use adaptive::{self, Adaptive};
pub use any_policy::{AnyPolicy, UnknownPolicy};
/// The policy that rewrites older versions of blocks, and its settings.
pub use byte_delta::{self, ByteDelta};
/// The policy that logs compressed differences, and its settings.
pub use compressed_delta::{self, CompressedDelta};
pub use disk::error::{FileDiskError, FileDiskErrorKind};
pub use disk::file::FileDisk;
pub use disk::joined::{DifferentBlocks, Joined};
pub use disk::options::FileDiskOptions;
pub use error::Error;
/// The full-block policy, the default.
pub use full_block::FullBlock;
pub use hint::Hint;
pub use journal::{AnyJournal, Journal};
/// The journal itself, with one owner.
pub use journal_core as core;
pub use journal_core::{
    BlockDevice, BlockNumber, BlockSize, Buffers, CheckpointReport, Committed, Durability,
    Geometry, Operation, Protocol, Recovery,
};
/// The policy that keeps blocks in persistent memory, and its settings.
pub use lcow::{self, Lcow};
pub use machine::{Machine, Native, On};
/// The policy that logs objects, and its settings.
pub use object_log::{self, ObjectLog};
pub use options::{Options, OptionsError, Plan};
/// Persistent memory on real machines.
pub use pmem_sys as pmem;
pub use pmem_sys::{MapError, MapErrorKind, MapOptions, NativeKernels, Region};
pub use stats::{CacheStats, GatherStats, LaneStats, Stats};
pub use transaction::Transaction;
/// The policy of two levels, and its settings.
pub use two_level::{self, TwoLevel};

/// Runs the program in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
