//! What stops the journal.

use core::fmt;

use journal_core::{BlockNumber, DeviceError};

/// A call on an open journal failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A device failed. After a failed write or sync, the journal refuses to go on.
    Device(DeviceError),
    /// A write or sync failed earlier: nobody knows what is durable. Only an open helps.
    Failed,
    /// The transaction does not fit into the ring.
    TooLarge {
        /// Blocks of the ring that it needs.
        needed: u64,
        /// Blocks that the ring has.
        ring: u64,
    },
    /// The store has no such block.
    OutOfRange(BlockNumber),
    /// The content is not one block long.
    WrongLength(usize),
    /// The transaction was begun by another journal.
    Foreign,
    /// The sequence numbers are used up.
    Exhausted,
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => write!(f, "{error}"),
            Self::Failed => f.write_str("refused after an earlier failed write or sync"),
            Self::TooLarge { needed, ring } => {
                write!(f, "the transaction needs {needed} blocks of a ring of {ring}")
            }
            Self::OutOfRange(block) => write!(f, "{block} is outside the store"),
            Self::WrongLength(bytes) => write!(f, "content of {bytes} bytes is not one block"),
            Self::Foreign => f.write_str("the transaction belongs to another journal"),
            Self::Exhausted => f.write_str("no sequence number is left"),
        }
    }
}

impl core::error::Error for Error {}

/// What is wrong with a block of the ring whose check is right, or with one that was proven whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// The commit block is whole, so its transaction was synced; but the check over all is wrong.
    Content,
    /// A later block of the ring proves that the transaction was committed; it cannot be read.
    Hidden,
    /// A descriptor has no last tag, or unknown flags.
    Descriptor,
    /// A revoke block claims more than it has.
    Revoke,
    /// A home block that the store does not have.
    Home(BlockNumber),
    /// The superblock states what cannot be.
    Superblock,
}

/// A journal cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// A device failed.
    Device(DeviceError),
    /// Neither copy of the superblock is whole.
    NotAJournal,
    /// The superblock is of a version that this crate does not read.
    Version(u16),
    /// The devices are not those of the format: another block size, or fewer or more blocks.
    WrongDevices,
    /// The journal is damaged at or behind this transaction, and not by a crash.
    Damaged {
        /// The transaction.
        sequence: u64,
        /// What is wrong.
        damage: Damage,
    },
    /// The sequence numbers are used up.
    Exhausted,
}

impl From<DeviceError> for OpenError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => write!(f, "{error}"),
            Self::NotAJournal => f.write_str("no copy of the superblock is whole"),
            Self::Version(version) => write!(f, "unknown version {version}"),
            Self::WrongDevices => f.write_str("the devices are not those of the format"),
            Self::Damaged { sequence, damage } => {
                write!(f, "damaged at transaction {sequence}: {damage:?}")
            }
            Self::Exhausted => f.write_str("no sequence number is left"),
        }
    }
}

impl core::error::Error for OpenError {}

/// A journal cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// A device failed.
    Device(DeviceError),
    /// The two devices have blocks of different sizes.
    BlockSizesDiffer,
    /// The ring would have fewer than [`RING_BLOCKS_MIN`](crate::RING_BLOCKS_MIN) blocks.
    RingTooSmall,
    /// The ring does not fit onto the device.
    DeviceTooSmall,
}

impl From<DeviceError> for FormatError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => write!(f, "{error}"),
            Self::BlockSizesDiffer => f.write_str("the devices have blocks of different sizes"),
            Self::RingTooSmall => f.write_str("the ring is too small for a transaction"),
            Self::DeviceTooSmall => f.write_str("the ring does not fit onto the device"),
        }
    }
}

impl core::error::Error for FormatError {}
