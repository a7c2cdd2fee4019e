//! Why a read, a sync or a checkpoint fails.

use core::fmt;

use crate::format::geometry::GeometryError;
use crate::ports::error::{DeviceError, MediumError};
use crate::ports::policy::ApplyError;
use crate::units::{BlockNumber, LaneNumber};

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
        /// The block.
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
    /// no shield. The block stays in the lanes until a whole image of it is committed.
    NoShield {
        /// Which block.
        block: BlockNumber,
    },
    /// A block's content in the disk-side log is not what was written there.
    RottenLog {
        /// The block.
        block: BlockNumber,
        /// Where it lies on the device.
        lies_at: BlockNumber,
    },
    /// The media units are too short for what the superblock would have to say.
    Geometry(GeometryError),
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
            Self::RottenLog { block, lies_at } => {
                write!(f, "{block} has rotted in the disk-side log, at the device's {lies_at}")
            }
            Self::Geometry(error) => error.fmt(f),
            Self::Medium(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for JournalError {}
