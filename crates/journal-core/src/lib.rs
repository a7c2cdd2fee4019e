//! The core of nvm-journal: the journal itself, with one owner; the ports a medium, a device and a
//! policy plug into; and the types that make the order of persistence part of the type system.
//!
//! [`format()`] makes an empty journal, [`Journal::open`] takes one in whatever state a crash left
//! it. It works in the caller's memory, a [`JournalMemory`]; [`Needs::of`] says how much that is,
//! at compile time if the geometry is known then.
//!
//! With the feature `alloc` there is an owner of that memory as well, `Buffers`.
//!
//! The crate is `no_std`, allocates nothing (but in `Buffers`), contains no `unsafe`, spawns
//! nothing and reads no clock. Everything it needs from outside comes through three traits, and
//! each trait method says what a crash may do to it:
//!
//! | port | in | implemented by |
//! |---|---|---|
//! | [`Pmem`] | [`pmem`] | `pmem-sys` on real memory, `sim-disk` in a simulator, you on your chip |
//! | [`BlockDevice`] | [`block_device`] | the front door's file disk, `sim-disk`, you |
//! | [`Policy`] | [`policy`] | the crates under `policies/`, you |
//!
//! [`order`] holds the `Dirty -> InFlight -> Durable` states: only a [`Durable`] can be
//! acknowledged, and only a flush followed by a fence makes one.

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

mod active;
mod append;
mod audit;
pub mod block_device;
#[cfg(feature = "alloc")]
mod buffers;
mod change;
pub mod check;
mod checkpoint;
mod common;
mod covers;
mod decide;
pub mod error;
mod errors;
mod evict;
mod examine;
mod examine_slots;
mod fold;
mod front;
mod gathered;
pub mod geometry;
mod holders;
mod home;
pub mod hook;
mod identity;
mod index;
mod journal;
mod lane;
mod memory;
mod operation;
pub mod order;
pub mod parts;
mod pieces;
mod place;
pub mod pmem;
pub mod policy;
pub mod record;
mod recover;
mod relog;
mod resolve;
mod ring;
mod scan;
mod segment;
mod shield;
pub mod slot;
mod sole;
mod stream;
pub mod superblock;
mod tail;
pub mod units;
mod unreadable;
mod unscanned;
mod verdict;

pub use active::Active;
pub use audit::{AuditError, SlotFault};
pub use block_device::{BlockDevice, DeviceFacts, Overwrite};
#[cfg(feature = "alloc")]
pub use buffers::Buffers;
pub use check::{Kernels, PortableKernels};
pub use checkpoint::{CheckpointReport, Scope};
pub use decide::Row;
pub use error::{DeviceError, DeviceErrorKind, DeviceOperation, MediumError, MediumErrorKind};
pub use errors::{CommitError, JournalError, OpenError};
pub use examine::{
    CopyState, EXAMINE_BYTES_MAX, Examination, IntentExamination, LaneExamination, examine,
};
pub use examine_slots::{SlotSight, SlotSights, examine_slots};
pub use fold::FoldReport;
pub use gathered::{Gathered, Piece, Seeds};
pub use geometry::{Geometry, GeometryError, Protocol};
pub use hook::{Hook, NoHook, Rule, Site, SiteKind};
pub use index::{Entry, Node};
pub use journal::{Committed, Durability, Journal};
pub use memory::{Batched, JournalMemory, LaneSlot, Needs};
pub use operation::Operation;
pub use order::{Dirty, Durable, InFlight, Ordered, OrderedDevice, Unsynced};
pub use pmem::{Granularity, Pmem, PmemFacts, PmemRead, PmemShare, PmemSplit};
pub use policy::{Policy, PolicyId};
pub use recover::{Recovery, format};
pub use relog::RelogReport;
pub use slot::SlotState;
pub use stream::Streamed;
pub use units::{BlockNumber, BlockSize, LINE_BYTES, Offset, WORD_BYTES};

/// Every place of this crate that takes part in the order of persistence, for tests that want to
/// see all of them reached.
pub const SITES: &[&[Site]] = &[
    append::site::ALL,
    checkpoint::site::ALL,
    lane::site::ALL,
    recover::site::ALL,
    relog::site::ALL,
    shield::site::ALL,
    slot::site::ALL,
    superblock::site::ALL,
    tail::site::ALL,
];
