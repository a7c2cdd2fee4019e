//! Errors of file calls.

use core::fmt;
use std::io;

/// Which call of a file failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileOperation {
    /// Reading bytes.
    Read,
    /// Writing bytes.
    Write,
    /// Changing the length.
    SetLen,
    /// Asking for the length.
    Len,
    /// Making earlier writes and lengths durable.
    Sync,
}

/// What went wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// The world has no file of this number.
    NoSuchFile,
    /// The range or the length passes [`FILE_LEN_MAX`](crate::file::FILE_LEN_MAX). Nothing
    /// happened.
    TooLarge,
    /// The file ends before the buffer is full.
    UnexpectedEnd,
    /// The file took no byte of a write.
    NothingWritten,
    /// The device failed the call (`EIO`). A failed write has reached the file in part. After a
    /// failed sync, what it was for may be lost, and a later sync says nothing about it.
    Io,
    /// There is no space left (`ENOSPC`).
    NoSpace,
}

/// A call of a file failed: which, why, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileError {
    /// The call.
    pub operation: FileOperation,
    /// What went wrong.
    pub kind: FileErrorKind,
    /// The file's number.
    pub file: u16,
    /// The first byte of the call, or the length that was asked for. Zero for a sync.
    pub at: u64,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, at, .. } = self;
        match self.operation {
            FileOperation::Read => write!(f, "read of file {file} at {at}")?,
            FileOperation::Write => write!(f, "write of file {file} at {at}")?,
            FileOperation::SetLen => write!(f, "set_len of file {file} to {at}")?,
            FileOperation::Len => write!(f, "length of file {file}")?,
            FileOperation::Sync => write!(f, "sync of file {file}")?,
        }
        f.write_str(match self.kind {
            FileErrorKind::NoSuchFile => ": no such file",
            FileErrorKind::TooLarge => ": past the largest length of a file",
            FileErrorKind::UnexpectedEnd => ": the file ends before the buffer is full",
            FileErrorKind::NothingWritten => ": no byte was written",
            FileErrorKind::Io => ": device error",
            FileErrorKind::NoSpace => ": no space left",
        })
    }
}

impl core::error::Error for FileError {}

/// The error that a store gets from an operating system, with this one inside.
impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        let kind = match error.kind {
            FileErrorKind::NoSuchFile => io::ErrorKind::NotFound,
            FileErrorKind::TooLarge => io::ErrorKind::InvalidInput,
            FileErrorKind::UnexpectedEnd => io::ErrorKind::UnexpectedEof,
            FileErrorKind::NothingWritten => io::ErrorKind::WriteZero,
            FileErrorKind::Io => io::ErrorKind::Other,
            FileErrorKind::NoSpace => io::ErrorKind::StorageFull,
        };
        Self::new(kind, error)
    }
}
