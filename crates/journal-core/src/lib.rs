//! The core of nvm-journal. It holds:
//!
//! - the journal itself, with one owner;
//! - the ports that a medium, a device and a policy plug into;
//! - the types that make the order of persistence part of the type system.
//!
//! [`format()`] makes an empty journal, [`Journal::open`] takes one in whatever state a crash left
//! it. It works in the caller's memory, a [`JournalMemory`]; [`Needs::of`] says how much that is,
//! at compile time if the geometry is known then.
//!
//! With the feature `alloc` there is an owner of that memory as well, `Buffers`. With the feature
//! `serde`, reports, the geometry and what recovery found can be serialized.
//!
//! The crate is `no_std`, allocates nothing (except in `Buffers`), contains no `unsafe`, spawns
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
//!
//! Comments cite the rules C1 to C10 of what a commit costs. They are defined in the front door's
//! `src/engine/mod.rs`.

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

mod commit;
mod common;
mod format;
mod home;
mod index;
mod open;
pub mod order;
mod owner;
pub mod parts;
mod ports;
mod reclaim;
mod scan;
mod space;
pub mod units;

/// Test hooks: the sites of persistence, and the rules of the protocol.
pub mod hook {
    pub use crate::order::ordered::{Hook, NoHook};
    pub use crate::order::rule::Rule;
    pub use crate::order::site::{Site, SiteKind};
}

/// What lies beside slots, and what names them.
pub mod slot {
    pub use crate::format::slot_entry::{NamedSlot, SlotEntry};
}

/// What recovery believes before it has read a single record.
pub mod superblock {
    pub use crate::format::superblock::{
        DISK_LOG, FORMAT_VERSION, KeptNote, LaneMark, MAGIC, NOTES, SLOTS, SuperblockHeader,
        TAIL_POINTER, VOID_MAGIC, superblock_bytes,
    };
    pub use crate::space::superblocks::{Superblock, SuperblockError};
}

pub use commit::batched::Batched;
pub use commit::error::CommitError;
pub use commit::operation::{Active, Operation};
pub use format::geometry::{self, Geometry, GeometryError, Protocol};
pub use format::record;
pub use home::error::JournalError;
pub use home::report::{CheckpointReport, FoldReport, Scope};
pub use index::{Entry, Node};
pub use open::format::format;
pub use order::ordered::{Hook, NoHook};
pub use order::rule::Rule;
pub use order::site::{Site, SiteKind};
pub use order::{Dirty, Durable, InFlight, Ordered, OrderedDevice, Unsynced};
pub use owner::audit::{AuditError, SlotFault};
#[cfg(feature = "alloc")]
pub use owner::buffers::Buffers;
pub use owner::journal::{Committed, Durability, Journal};
pub use owner::machine::{Machine, On};
pub use owner::memory::{JournalMemory, Needs};
pub use owner::stream::Streamed;
pub use ports::block_device::{self, BlockDevice, DeviceFacts, Overwrite};
pub use ports::error::{
    self, DeviceError, DeviceErrorKind, DeviceOperation, MediumError, MediumErrorKind,
};
pub use ports::kernels::{self as check, Kernels, PortableKernels};
pub use ports::pmem::{self, Granularity, Pmem, PmemFacts, PmemRead, PmemShare, PmemSplit};
pub use ports::policy::{self, Policy, PolicyId};
pub use ports::stitched::{Piece, Seeds, Stitched};
pub use reclaim::relog::RelogReport;
pub use scan::decide::Row;
pub use scan::error::OpenError;
pub use scan::examine::{
    CopyState, EXAMINE_BYTES_MAX, Examination, IntentExamination, LaneExamination, examine,
    examine_frames,
};
pub use scan::examine_slots::{SlotSight, SlotSights, examine_slots};
pub use scan::verdict::Recovery;
pub use space::lane::LaneMemory;
pub use space::slot_state::SlotState;
pub use units::{BlockNumber, BlockSize, LINE_BYTES, Offset, WORD_BYTES};

/// Every site of this crate, for tests that want to see all of them reached.
pub const SITES: &[&[Site]] = &[
    home::write_ahead::site::ALL,
    home::checkpoint::site::ALL,
    space::part::site::ALL,
    space::lane::site::ALL,
    open::found::site::ALL,
    reclaim::relog::site::ALL,
    home::shield::site::ALL,
    space::slots::site::ALL,
    space::superblocks::site::ALL,
    space::tail_word::site::ALL,
];
