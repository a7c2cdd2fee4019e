//! Errors of files, and of what the medium says of them.

use core::fmt;

use nvm_journal::BlockNumber;

/// Why a call on files did not do what it was asked. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The journal refused. After some of its errors it refuses everything:
    /// [`nvm_journal::Error`] says which these are.
    Journal(nvm_journal::Error),
    /// The files were closed: nothing can be done with them any more.
    Closed,
    /// Blocks cannot be read, so the disk does not have everything: the file is not closed.
    Unreadable {
        /// How many.
        blocks: u64,
    },
    /// The store has no files: it was never formatted for them.
    NotFormatted,
    /// The store has another number of blocks than when it was formatted for files. Open it with
    /// the disk as it was: formatting it would lose every file.
    OtherSize {
        /// Blocks that it was formatted with.
        found: u64,
        /// Blocks that it has.
        given: u64,
    },
    /// What the medium says of files cannot be.
    Damaged(Damage),
    /// The blocks are too small, or too few.
    StoreTooSmall {
        /// Bytes of a block.
        block_bytes: usize,
        /// Blocks of the store.
        blocks: u64,
    },
    /// A name has no byte, or too many, or one that is zero.
    BadName {
        /// How many bytes it has.
        bytes: usize,
        /// The most that a name has in this store.
        most: usize,
    },
    /// A file of that name is there already.
    Exists,
    /// No file has that name, or the file was removed.
    NotFound,
    /// No file can reach that far.
    TooFar {
        /// Where it would end; `None` if that is no number of 64 bits.
        end: Option<u64>,
        /// The longest that a file can be.
        most: u64,
    },
    /// The store has too few free blocks.
    NoRoom {
        /// Blocks that were wanted at once.
        wanted: u64,
        /// Blocks that are free.
        free: u64,
    },
    /// The changes do not fit into one transaction. In several, they would.
    TooLarge(nvm_journal::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal(error) => error.fmt(f),
            Self::Closed => f.write_str("the files were closed"),
            Self::Unreadable { blocks } => {
                write!(f, "{blocks} blocks cannot be read: the file is not closed")
            }
            Self::NotFormatted => f.write_str("the store has no files: format it for them"),
            Self::OtherSize { found, given } => {
                write!(f, "the files are of a store of {found} blocks, and this one has {given}")
            }
            Self::Damaged(damage) => damage.fmt(f),
            Self::StoreTooSmall { block_bytes, blocks } => {
                write!(f, "{blocks} blocks of {block_bytes} bytes are too few or too small")
            }
            Self::BadName { bytes, most } => {
                write!(f, "a name of {bytes} bytes: it has 1 to {most}, and none is zero")
            }
            Self::Exists => f.write_str("a file of that name is there already"),
            Self::NotFound => f.write_str("there is no such file"),
            Self::TooFar { end: Some(end), most } => {
                write!(f, "a file of {end} bytes: it has {most} at most")
            }
            Self::TooFar { end: None, most } => {
                write!(f, "a file of more than 2^64 bytes: it has {most} at most")
            }
            Self::NoRoom { wanted, free } => {
                write!(f, "{wanted} blocks are wanted, and {free} are free")
            }
            Self::TooLarge(error) => write!(f, "too much for one transaction: {error}"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Journal(error) | Self::TooLarge(error) => Some(error),
            Self::Damaged(damage) => Some(damage),
            _ => None,
        }
    }
}

impl From<nvm_journal::Error> for Error {
    fn from(error: nvm_journal::Error) -> Self {
        use nvm_journal::Error as Journal;
        match error {
            Journal::TooLarge { .. } | Journal::TooManyBlocks { .. } => Self::TooLarge(error),
            _ => Self::Journal(error),
        }
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind;
        let kind = match error {
            Error::Damaged(_) | Error::NotFormatted | Error::Unreadable { .. } => {
                ErrorKind::InvalidData
            }
            Error::Exists => ErrorKind::AlreadyExists,
            Error::NotFound => ErrorKind::NotFound,
            Error::NoRoom { .. } => ErrorKind::StorageFull,
            Error::BadName { .. }
            | Error::TooFar { .. }
            | Error::StoreTooSmall { .. }
            | Error::OtherSize { .. } => ErrorKind::InvalidInput,
            Error::TooLarge(_) => ErrorKind::FileTooLarge,
            Error::Closed | Error::Journal(_) => ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// A block of the directory, and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The block that says it.
    pub block: BlockNumber,
    /// What it says.
    pub kind: DamageKind,
}

impl Damage {
    pub(crate) const fn new(block: u64, kind: DamageKind) -> Self {
        Self { block: BlockNumber(block), kind }
    }
}

/// What is wrong with a block of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// Its checksum does not fit its content.
    Check,
    /// It is of a version of the format that is not known here.
    Version(u32),
    /// It is of another store: its block size differs.
    OtherStore,
    /// It is a block of another kind than the one that names it says.
    Kind(u8),
    /// It counts more than it has room for.
    Count(u64),
    /// A name in it is empty, too long, or no UTF-8.
    Name,
    /// Another file has its name.
    SameName,
    /// It names a block that the store does not have.
    OutOfStore(BlockNumber),
    /// It names a block that something else has.
    Shared(BlockNumber),
    /// It says of a file that it is longer than a file can be.
    Length(u64),
    /// It says of two places of the store that they hold the same block of a file.
    Twice {
        /// The number of that block in its file.
        file_block: u64,
    },
    /// It places a block of a file behind the file's end.
    BehindEnd {
        /// The number of that block in its file.
        file_block: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the directory is damaged: ", self.block)?;
        match self.kind {
            DamageKind::Check => f.write_str("its checksum is wrong"),
            DamageKind::Version(version) => write!(f, "version {version} is not known"),
            DamageKind::OtherStore => f.write_str("it is of a store of other blocks"),
            DamageKind::Kind(kind) => write!(f, "a block of kind {kind} is not expected there"),
            DamageKind::Count(count) => write!(f, "it has no room for {count} entries"),
            DamageKind::Name => f.write_str("it has no valid name"),
            DamageKind::SameName => f.write_str("another file has its name"),
            DamageKind::OutOfStore(block) => write!(f, "the store has no {block}"),
            DamageKind::Shared(block) => write!(f, "{block} is in use elsewhere"),
            DamageKind::Length(bytes) => write!(f, "no file has {bytes} bytes"),
            DamageKind::Twice { file_block } => {
                write!(f, "block {file_block} of the file is in two places")
            }
            DamageKind::BehindEnd { file_block } => {
                write!(f, "block {file_block} of the file is behind its end")
            }
        }
    }
}

impl core::error::Error for Damage {}
