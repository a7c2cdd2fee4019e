//! What a journal can answer instead of doing what it was asked.

use core::fmt;

use crate::decide::Row;
use crate::error::{DeviceError, MediumError};
use crate::geometry::GeometryError;
use crate::policy::{ApplyError, Placement, PolicyId, Span};
use crate::superblock::SuperblockError;
use crate::units::{BlockNumber, BlockSize, Epoch, Generation, LaneNumber, Sequence, SlotNumber};

/// A commit was refused (nothing has changed), or its outcome is unknown (`Medium`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitError {
    /// An earlier failure left the journal in an unknown state: open it again.
    Failed,
    /// The journal has fewer lanes.
    NoSuchLane {
        /// Which was asked for.
        lane: LaneNumber,
    },
    /// There is no operation.
    Empty,
    /// The policy found that no operation changes anything: there is nothing to commit.
    Unchanged,
    /// The device has no such block.
    OutOfDevice {
        /// Which.
        block: BlockNumber,
    },
    /// Operations have to ascend by block, each block once.
    NotAscending {
        /// Where they do not.
        block: BlockNumber,
    },
    /// An image is not one block long.
    WrongLength {
        /// Which block's.
        block: BlockNumber,
        /// How long it is.
        bytes: usize,
    },
    /// Ranges and patches have to ascend inside the block, none of them empty, none overlapping
    /// another.
    BadRange {
        /// Which block's.
        block: BlockNumber,
        /// The first one that does not.
        range: Span,
    },
    /// The policy placed the update where this journal cannot put it.
    CannotPlace {
        /// Which block's.
        block: BlockNumber,
        /// Where.
        placement: Placement,
    },
    /// More frames than a record can count.
    TooManyFrames,
    /// The transaction is larger than a lane, and will never fit.
    TooLarge {
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that a lane has.
        capacity: u64,
    },
    /// The lane is too full; a checkpoint makes room.
    NoSpace {
        /// Bytes that the transaction takes.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The index is too full; a checkpoint makes room.
    IndexFull {
        /// Frames that the transaction has.
        needed: usize,
        /// Frames that are free.
        free: usize,
    },
    /// There is too little space, and a checkpoint makes none: the lane, or the index, is full of
    /// what lies behind a block that cannot be read. A read of that block says why; a whole new
    /// image of it, or a discard, through whatever lane has room, is the end of it.
    Unreadable {
        /// Which block it is.
        block: BlockNumber,
    },
    /// The fence failed. Whether the transaction is durable is unknown until the next open.
    Medium(MediumError),
    /// Writing an append home failed. The transaction is not in the journal; what the block holds
    /// is unknown, as it was before.
    Device(DeviceError),
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed => f.write_str("refused after an earlier failure"),
            Self::NoSuchLane { lane } => write!(f, "there is no {lane}"),
            Self::Empty => f.write_str("the transaction has no operation"),
            Self::Unchanged => f.write_str("the transaction changes nothing"),
            Self::OutOfDevice { block } => write!(f, "the device has no {block}"),
            Self::NotAscending { block } => write!(f, "{block} is out of order, or there twice"),
            Self::WrongLength { block, bytes } => {
                write!(f, "the image of {block} has {bytes} bytes")
            }
            Self::BadRange { block, range: Span { at, len } } => {
                write!(f, "{len} bytes at {at} are out of order, or not in {block}")
            }
            Self::CannotPlace { block, placement } => {
                write!(f, "the policy placed {block} as {placement:?}, which cannot be done here")
            }
            Self::TooManyFrames => f.write_str("the transaction has too many frames"),
            Self::TooLarge { needed, capacity } => {
                write!(f, "the transaction takes {needed} bytes, a lane has {capacity}")
            }
            Self::NoSpace { needed, free } => {
                write!(f, "the transaction takes {needed} bytes, {free} are free")
            }
            Self::IndexFull { needed, free } => {
                write!(f, "the transaction has {needed} frames, the index has room for {free}")
            }
            Self::Unreadable { block } => {
                write!(
                    f,
                    "no space comes free before {block}, which cannot be read, is written anew"
                )
            }
            Self::Medium(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for CommitError {}

/// A read, sync or checkpoint failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalError {
    /// An earlier failure left the journal in an unknown state: open it again.
    Failed,
    /// The device has no such block, or the buffer is not one block long.
    BadRequest {
        /// Which block.
        block: BlockNumber,
        /// How long the buffer is.
        bytes: usize,
    },
    /// A payload does not apply to the image before it.
    Apply {
        /// Whose.
        block: BlockNumber,
        /// Why.
        error: ApplyError,
    },
    /// The journal has no such lane.
    NoSuchLane {
        /// Which.
        lane: LaneNumber,
    },
    /// A torn overwrite of the block's home would leave no whole copy of it, and the geometry has
    /// no shield: it stays in the lanes until a whole image of it is committed.
    NoShield {
        /// Which block.
        block: BlockNumber,
    },
    /// A block's content in the disk-side log is not what was written there.
    RottenLog {
        /// Whose.
        block: BlockNumber,
        /// Where it lies on the device.
        place: BlockNumber,
    },
    /// The persistent memory.
    Medium(MediumError),
    /// The block device.
    Device(DeviceError),
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed => f.write_str("refused after an earlier failure"),
            Self::BadRequest { block, bytes } => {
                write!(f, "cannot read {block} into {bytes} bytes")
            }
            Self::Apply { block, error } => write!(f, "{block}: {error}"),
            Self::NoSuchLane { lane } => write!(f, "there is no {lane}"),
            Self::NoShield { block } => {
                write!(f, "{block} cannot go home: a tear would lose it, and there is no shield")
            }
            Self::RottenLog { block, place } => {
                write!(f, "{block} has rotted in the disk-side log, at the device's {place}")
            }
            Self::Medium(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for JournalError {}

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
        /// Which.
        slice: &'static str,
    },
    /// The lanes hold more frames than the memory given has room for, and the owner of it has no
    /// more.
    IndexFull {
        /// Frames of which there are no more in the lanes and slots: room for as many will do.
        frames_needed: usize,
    },
    /// A record that was durable is not there any more: bit rot. Its transaction, and what
    /// depends on it, is lost.
    Rot {
        /// The lane.
        lane: LaneNumber,
        /// The record's sequence.
        sequence: Sequence,
        /// Its log offset.
        position: u64,
        /// How it is known.
        row: Row,
    },
    /// A slot that held a block's durable content, once its frame was folded, holds something else:
    /// bit rot.
    RottenSlot {
        /// The slot.
        slot: SlotNumber,
        /// Whose content it was.
        block: BlockNumber,
    },
    /// Slots are torn in so many ways that chance has not done it: what counts is not to be told.
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
            Self::MemoryTooShort { slice } => write!(f, "the memory's {slice} are too few"),
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
