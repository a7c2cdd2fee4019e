//! Why a commit is refused.

use core::fmt;

use crate::ports::error::{DeviceError, MediumError};
use crate::ports::policy::{Placement, Span};
use crate::units::{BlockNumber, LaneNumber};

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
    /// Records may have no notes yet: [`begin_notes`](crate::Journal::begin_notes).
    NoNotes,
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
    /// There is too little space, and a checkpoint makes none. The lane, or the index, is full of
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
            Self::NoNotes => f.write_str("records may have no notes yet"),
            Self::CannotPlace { block, placement } => {
                write!(f, "the policy placed {block} as {placement:?}, which cannot be done here")
            }
            Self::TooManyFrames => {
                f.write_str("the transaction has more frames than one record can count")
            }
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
