//! Why options are refused.

use core::fmt;

use journal_core::GeometryError;

/// Settings that are not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    /// The layout.
    Geometry(GeometryError),
    /// A batch of no blocks writes nothing home.
    NoBatch,
    /// An index of no frames holds nothing.
    NoFrames,
    /// The disk-side log leaves the store no block of the disk.
    LogTooLarge {
        /// Blocks of the log.
        log_blocks: u64,
        /// Blocks of the disk.
        device_blocks: u64,
    },
    /// Logged blocks are to stay in a cache that there is not.
    NoCache,
    /// The device may tear a block, the policy logs less than whole blocks, and there is no shield:
    /// what changes of a block could then never go home.
    NoShield,
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Geometry(error) => error.fmt(f),
            Self::NoBatch => f.write_str("batch_blocks is zero: a checkpoint would write nothing"),
            Self::NoFrames => f.write_str("index_frames is zero: no block could be in the lanes"),
            Self::LogTooLarge { log_blocks, device_blocks } => {
                write!(
                    f,
                    "the disk-side log of {log_blocks} blocks does not fit on a disk of \
                     {device_blocks}"
                )
            }
            Self::NoCache => f.write_str("cache_bytes is zero: no logged block could stay there"),
            Self::NoShield => f.write_str(
                "shield_blocks is zero: the disk may tear a block, and not all are logged whole",
            ),
        }
    }
}

impl core::error::Error for OptionsError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Geometry(error) => Some(error),
            _ => None,
        }
    }
}
