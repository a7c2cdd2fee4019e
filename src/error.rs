//! Errors of the front door.

use core::fmt;

use journal_core::policy::{ApplyError, Placement, Span};
use journal_core::{
    BlockNumber, CommitError, DeviceError, JournalError, MediumError, OpenError, PolicyId,
};

use crate::options::error::OptionsError;

/// Why a journal did not do what it was asked.
///
/// No error loses anything that was acknowledged.
///
/// After [`Medium`](Self::Medium) or [`Device`](Self::Device) in a commit, sync, checkpoint or
/// close, the journal has *failed*. What was under way may be durable or not. Every later commit,
/// read, sync, checkpoint and close answers [`Failed`](Self::Failed) until the journal is opened
/// again. In a read these two errors concern only that block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An earlier failure, or a panic inside, left the journal in an unknown state: open it again.
    /// [`Journal::failure`](crate::Journal::failure) says which it was.
    Failed,
    /// Another transaction is in the way. Nothing has changed. Try again from the beginning, as
    /// [`Journal::transact`](crate::Journal::transact) does by itself. A thread's only transaction
    /// never gets this from its first call.
    Conflict {
        /// On the way to this block.
        block: BlockNumber,
    },
    /// The device has no such block.
    OutOfDevice {
        /// Which.
        block: BlockNumber,
    },
    /// The bytes given for a block do not lie inside it. Or the call asks for a whole block, and
    /// they are not one.
    OutOfBlock {
        /// Which block.
        block: BlockNumber,
        /// Where in the block they would begin.
        at: usize,
        /// How many there are.
        bytes: usize,
    },
    /// Operations that are given together have to ascend by block, each block once.
    NotAscending {
        /// Where they do not.
        block: BlockNumber,
    },
    /// Ranges and patches that are given together have to ascend inside the block. None of them may
    /// be empty or overlap another.
    BadRange {
        /// Which block's.
        block: BlockNumber,
        /// The first one that does not.
        range: Span,
    },
    /// The transaction may take more bytes than a lane has: it will never fit.
    TooLarge {
        /// Bytes that it may take.
        needed: u64,
        /// Bytes that a lane has.
        capacity: u64,
    },
    /// The transaction has more blocks than the journal's memory has room for: for frames
    /// ([`Options::index_frames`](crate::Options::index_frames)), or, where logged blocks are
    /// pinned, in the cache ([`Options::cache_bytes`](crate::Options::cache_bytes)).
    TooManyBlocks {
        /// Blocks in it so far.
        blocks: usize,
    },
    /// The policy placed an update where this journal cannot put it.
    CannotPlace {
        /// Which block's.
        block: BlockNumber,
        /// Where.
        placement: Placement,
    },
    /// What the journal holds of a block does not apply to the block's home: the device has lost or
    /// changed the home.
    Apply {
        /// Which block.
        block: BlockNumber,
        /// Why.
        error: ApplyError,
    },
    /// A torn overwrite of the block's home would leave no whole copy of it, and the journal was
    /// formatted without a shield. The block stays in the lanes until a whole image of it is
    /// committed, for which there has to be room.
    NoShield {
        /// Which block.
        block: BlockNumber,
    },
    /// A block's content in the disk-side log is not what was written there: the disk has lost or
    /// changed it.
    RottenLog {
        /// The block.
        block: BlockNumber,
        /// Where it lies on the disk.
        lies_at: BlockNumber,
    },
    /// A block that cannot be read is in the way: a checkpoint has left it in the journal. One of
    /// two things follows:
    ///
    /// - The transaction finds no room, and a checkpoint makes none.
    /// - The journal is closed, and the disk does not hold everything.
    ///
    /// A read of the block says what is wrong with it. A whole new image of the block, or a
    /// discard, ends this. Where a lane had no room, the thread's next transaction goes through
    /// another lane, if there is one.
    Unreadable {
        /// Which block it is.
        block: BlockNumber,
    },
    /// The persistent memory failed.
    Medium(MediumError),
    /// The block device failed.
    Device(DeviceError),
    /// The journal could not be formatted or opened.
    Open(OpenError),
    /// The system has no thread to give for the work in the background.
    NoThread {
        /// The system's error number, where there is one.
        os: Option<i32>,
    },
    /// The journal was formatted with a policy that [`AnyPolicy`](crate::AnyPolicy) does not have.
    UnknownPolicy {
        /// Which.
        id: PolicyId,
    },
    /// No policy has the name that was given.
    NoSuchPolicy,
    /// The transaction would have to wait, for a block or for room, and may wait
    /// [no longer](crate::Journal::begin_within). It is as before the call.
    OutOfTime,
    /// A snapshot is kept until blocks have to go home, or a checkpoint is made. Make a new one.
    SnapshotTooOld,
    /// Settings that are not possible.
    Options(OptionsError),
}

/// The names of all policies of [`AnyPolicy`](crate::AnyPolicy).
const POLICIES: &[&str] = &[
    "full-block",
    #[cfg(feature = "byte-delta")]
    "byte-delta",
    #[cfg(feature = "object-log")]
    "object-log",
    #[cfg(feature = "lcow")]
    "lcow",
    #[cfg(feature = "compressed-delta")]
    "compressed-delta",
    #[cfg(feature = "two-level")]
    "two-level",
    #[cfg(feature = "adaptive")]
    "adaptive",
];

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed => f.write_str("refused after an earlier failure: open the journal again"),
            Self::Conflict { block } => {
                write!(f, "another transaction is in the way at {block}: try again")
            }
            Self::OutOfDevice { block } => write!(f, "the device has no {block}"),
            Self::OutOfBlock { block, at, bytes } => {
                write!(f, "{bytes} bytes at {at} are not what {block} can take")
            }
            Self::NotAscending { block } => write!(f, "{block} is out of order, or there twice"),
            Self::BadRange { block, range: Span { at, len } } => {
                write!(f, "{len} bytes at {at} are out of order, or not in {block}")
            }
            Self::TooLarge { needed, capacity } => {
                write!(f, "the transaction may take {needed} bytes, a lane has {capacity}")
            }
            Self::TooManyBlocks { blocks } => {
                write!(f, "the index has no room for a transaction of {blocks} blocks")
            }
            Self::CannotPlace { block, placement } => {
                write!(f, "the policy placed {block} as {placement:?}, which cannot be done here")
            }
            Self::Apply { block, error } => write!(f, "{block}: {error}"),
            Self::NoShield { block } => {
                write!(f, "{block} cannot go home: a tear would lose it, and there is no shield")
            }
            Self::RottenLog { block, lies_at } => {
                write!(f, "{block} has rotted in the disk-side log, at the disk's {lies_at}")
            }
            Self::Unreadable { block } => {
                write!(f, "{block}, which cannot be read, is in the way until it is written anew")
            }
            Self::Medium(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::NoThread { os: Some(os) } => {
                write!(f, "no thread for the work in the background: error {os} of the system")
            }
            Self::NoThread { os: None } => f.write_str("no thread for the work in the background"),
            Self::NoSuchPolicy => write!(f, "no such policy; there are {}", POLICIES.join(", ")),
            Self::OutOfTime => {
                f.write_str("the time is over that the transaction may wait for blocks and room")
            }
            Self::SnapshotTooOld => {
                f.write_str("the snapshot has ended, since room had to be made: make a new one")
            }
            Self::UnknownPolicy { id } => {
                write!(f, "the journal is of {id}, which is not known here")
            }
            Self::Options(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Apply { error, .. } => Some(error),
            Self::Medium(error) => Some(error),
            Self::Device(error) => Some(error),
            Self::Open(error) => Some(error),
            Self::Options(error) => Some(error),
            _ => None,
        }
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<DeviceError> for Error {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl From<OptionsError> for Error {
    fn from(error: OptionsError) -> Self {
        Self::Options(error)
    }
}

impl From<JournalError> for Error {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Medium(error) => Self::Medium(error),
            JournalError::Device(error) => Self::Device(error),
            JournalError::Apply { block, error } => Self::Apply { block, error },
            JournalError::NoShield { block } => Self::NoShield { block },
            JournalError::RottenLog { block, lies_at } => Self::RottenLog { block, lies_at },
            JournalError::Geometry(error) => Self::Options(OptionsError::Geometry(error)),
            JournalError::BadRequest { block, bytes } => Self::OutOfBlock { block, at: 0, bytes },
            _ => Self::Failed,
        }
    }
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::OutOfDevice { block } => Self::OutOfDevice { block },
            CommitError::WrongLength { block, bytes } => Self::OutOfBlock { block, at: 0, bytes },
            CommitError::CannotPlace { block, placement } => Self::CannotPlace { block, placement },
            CommitError::BadRange { block, range } => Self::BadRange { block, range },
            CommitError::NotAscending { block } => Self::NotAscending { block },
            CommitError::TooLarge { needed, capacity } => Self::TooLarge { needed, capacity },
            CommitError::Unreadable { block } => Self::Unreadable { block },
            CommitError::Medium(error) => Self::Medium(error),
            CommitError::Device(error) => Self::Device(error),
            _ => Self::Failed,
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

/// An open refused because of what is not there.
impl Error {
    /// Whether there is no journal at all, so that one may be formatted. Either there was never
    /// one, or a crash has cut a format short.
    #[must_use]
    pub fn is_no_journal(&self) -> bool {
        use journal_core::superblock::SuperblockError::{NotAJournal, Unfinished};
        matches!(self, Self::Open(OpenError::Superblock(NotAJournal | Unfinished)))
    }
}
