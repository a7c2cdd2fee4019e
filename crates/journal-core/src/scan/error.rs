//! Errors of an open and of an examination.

use core::fmt;

use crate::format::geometry::GeometryError;
use crate::ports::error::{DeviceError, MediumError};
use crate::ports::policy::PolicyId;
use crate::scan::decide::Row;
use crate::space::superblocks::SuperblockError;
use crate::units::{BlockNumber, BlockSize, Epoch, Generation, LaneNumber, Sequence, SlotNumber};

/// A journal could not be formatted or opened. The medium is as it was, or as a crash in the
/// middle would have left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no usable superblock.
    Superblock(SuperblockError),
    /// The geometry cannot be, or does not fit the span.
    Geometry(GeometryError),
    /// Another policy wrote the journal.
    WrongPolicy {
        /// The journal's.
        found: PolicyId,
        /// The one given.
        given: PolicyId,
    },
    /// The journal belongs to a device of another shape.
    WrongDevice {
        /// The journal's blocks.
        found: (BlockSize, u64),
        /// The device's.
        given: (BlockSize, u64),
    },
    /// A slice of the memory given is too short.
    MemoryTooShort {
        /// The name of the slice.
        slice: &'static str,
        /// How long it is.
        given: usize,
        /// How long it has to be.
        needed: usize,
    },
    /// The lanes hold more frames than the memory given has room for, and the owner of it has no
    /// more.
    IndexFull {
        /// No more frames than this are in the lanes and slots: room for this number will do.
        frames_needed: usize,
    },
    /// A record that was durable is not there any more: bit rot. Its transaction, and what
    /// depends on it, is lost.
    Rot {
        /// The lane.
        lane: LaneNumber,
        /// The record's sequence.
        sequence: Sequence,
        /// Its lane offset.
        position: u64,
        /// How it is known.
        row: Row,
    },
    /// A slot that held a block's durable content, once its frame was folded, holds something else:
    /// bit rot.
    RottenSlot {
        /// The slot.
        slot: SlotNumber,
        /// The block that had this content.
        block: BlockNumber,
    },
    /// Slots are torn in more ways than chance can do: what counts is not to be told.
    Unresolved,
    /// A slot's entry is neither whole nor void, and no frame says what it was: bit rot.
    RottenEntry {
        /// The slot.
        slot: SlotNumber,
    },
    /// Some record names a superblock that no copy is: bit rot in the newest copy.
    SuperblockLost {
        /// The generation named.
        generation: Generation,
        /// The epoch named.
        epoch: Epoch,
    },
    /// A counter is where no journal comes by its own work: what would be stored next might not
    /// count when it is read.
    Exhausted,
    /// The persistent memory, at an offset of the span.
    Medium(MediumError),
    /// The block device.
    Device(DeviceError),
}

impl From<SuperblockError> for OpenError {
    fn from(error: SuperblockError) -> Self {
        Self::Superblock(error)
    }
}

impl From<MediumError> for OpenError {
    fn from(error: MediumError) -> Self {
        Self::Medium(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superblock(error) => error.fmt(f),
            Self::Geometry(error) => error.fmt(f),
            Self::WrongPolicy { found, given } => {
                write!(f, "the journal was written by {found}, not by {given}")
            }
            Self::WrongDevice { found, given } => write!(
                f,
                "the journal belongs to a device of {} blocks of {}, not {} of {}",
                found.1, found.0, given.1, given.0
            ),
            Self::MemoryTooShort { slice, given, needed } => {
                write!(f, "the memory has {given} {slice}, the journal needs {needed}")
            }
            Self::IndexFull { frames_needed } => write!(
                f,
                "the memory given holds fewer frames than the journal; {frames_needed} will do"
            ),
            Self::Rot { lane, sequence, position, row } => write!(
                f,
                "{lane}: the record of {sequence} at offset {position} was durable and is not \
                 whole ({row:?})"
            ),
            Self::RottenSlot { slot, block } => {
                write!(f, "{slot} held {block}, durably, and holds something else")
            }
            Self::Unresolved => {
                f.write_str("more slots are torn in turns than a crash leaves by chance")
            }
            Self::RottenEntry { slot } => write!(f, "the entry of {slot} has rotted"),
            Self::SuperblockLost { generation, epoch } => {
                write!(f, "a record names {generation} of {epoch}, which no superblock has")
            }
            Self::Exhausted => {
                f.write_str("the journal's counters are near the end of what can be")
            }
            Self::Medium(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for OpenError {}
