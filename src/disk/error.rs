//! Why a file could not be had as a disk, with types, the path and the system's own words.
//!
//! Nothing here happens after a [`FileDisk`](crate::FileDisk) was handed out; from then on errors
//! are [`DeviceError`](crate::ports::DeviceError)s, which carry the system's error number.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

use journal_core::BlockSize;
use pmem_sys::Step;

/// A file could not be created or opened as a disk.
#[derive(Debug)]
#[non_exhaustive]
pub struct FileDiskError {
    /// What went wrong.
    pub kind: FileDiskErrorKind,
    /// Which file, where one was named.
    pub path: Option<PathBuf>,
}

/// What went wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileDiskErrorKind {
    /// The operating system refused a call.
    System {
        /// What was being done.
        step: Step,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is open already, in this process or another one.
    Busy,
    /// The path leads neither to a regular file nor to a block device.
    NotADisk,
    /// The handle that was given cannot write.
    NotWritable,
    /// The file has not one whole block.
    TooShort {
        /// Its length in bytes.
        bytes: u64,
        /// The length of a block.
        block_size: BlockSize,
    },
    /// No file can be that long.
    TooLong {
        /// How many blocks it was to have.
        blocks: u64,
    },
    /// A disk that [grows](crate::FileDiskOptions::growing) is a regular file, through the system's
    /// cache. This one is not, or the disk is not one that grows.
    CannotGrow,
    /// The file system does not read or write such blocks past its cache. The file was not used.
    DirectRefused {
        /// The system's answer.
        source: io::Error,
    },
}

impl FileDiskError {
    pub(super) fn on(self, path: &Path) -> Self {
        Self { path: Some(path.to_path_buf()), ..self }
    }

    /// For `map_err`: a call failed while `step` was being done.
    pub(super) fn at<E: Into<io::Error>>(step: Step) -> impl FnOnce(E) -> Self {
        move |source| FileDiskErrorKind::System { step, source: source.into() }.into()
    }
}

impl From<FileDiskErrorKind> for FileDiskError {
    fn from(kind: FileDiskErrorKind) -> Self {
        Self { kind, path: None }
    }
}

impl From<FileDiskError> for io::Error {
    fn from(error: FileDiskError) -> Self {
        let kind = match &error.kind {
            FileDiskErrorKind::System { source, .. } => source.kind(),
            FileDiskErrorKind::Busy => io::ErrorKind::ResourceBusy,
            FileDiskErrorKind::DirectRefused { .. } => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl fmt::Display for FileDiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.kind),
            None => self.kind.fmt(f),
        }
    }
}

impl core::error::Error for FileDiskError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.kind {
            FileDiskErrorKind::System { source, .. }
            | FileDiskErrorKind::DirectRefused { source } => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for FileDiskErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { step, source } => write!(f, "the system refused to {step}: {source}"),
            Self::Busy => f.write_str("already open, here or in another process"),
            Self::NotADisk => f.write_str("neither a regular file nor a block device"),
            Self::NotWritable => f.write_str("the handle cannot write"),
            Self::TooShort { bytes, block_size } => {
                write!(f, "{bytes} bytes are not one block of {block_size}")
            }
            Self::TooLong { blocks } => write!(f, "no file has {blocks} blocks"),
            Self::CannotGrow => f.write_str(
                "only a regular file through the system's cache can grow, and this disk was not \
                 opened as one",
            ),
            Self::DirectRefused { source } => {
                write!(f, "the file system refuses such blocks past its cache: {source}")
            }
        }
    }
}
