//! Why a span could not be had: typed, with the path and the system's own words.
//!
//! Nothing here happens after a span was handed out; from then on errors are
//! [`journal_core::MediumError`]. What a crash leaves of a file that was being created is told
//! apart by kind: `Empty` or `TooShort`.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

use journal_core::Granularity;

use crate::map::facts::Reason;

/// A span could not be created or opened.
#[derive(Debug)]
#[non_exhaustive]
pub struct MapError {
    /// What went wrong.
    pub kind: MapErrorKind,
    /// Which file, where one was named.
    pub path: Option<PathBuf>,
}

/// What went wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum MapErrorKind {
    /// The operating system refused a call.
    System {
        /// What was being done.
        step: Step,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is open already.
    Busy {
        /// Which process has it open.
        holder: Holder,
    },
    /// It is neither a regular file nor persistent memory without a file system (`/dev/dax0.0`).
    NotAFile,
    /// It is persistent memory without a file system, and the kernel did not map it directly. No
    /// other way leads to it.
    NoDirectAccess {
        /// Why not.
        reason: Reason,
    },
    /// The handle that was given cannot write.
    NotWritable,
    /// The length is zero.
    Empty,
    /// It is shorter than was demanded.
    TooShort {
        /// Its length in bytes.
        len: u64,
        /// The length that was demanded.
        demanded: u64,
    },
    /// It is longer than this machine can address.
    TooLong {
        /// Its length in bytes.
        len: u64,
    },
    /// The length is not a multiple of what it has to be.
    Misaligned {
        /// The length in bytes.
        len: u64,
        /// What it has to be a multiple of.
        unit: usize,
    },
    /// The medium is weaker than was demanded. It was not used.
    Granularity {
        /// The weakest that was allowed.
        demanded: Granularity,
        /// What could be had.
        offered: Granularity,
        /// Why no better.
        reason: Reason,
    },
}

/// What was being done when the system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Opening the file.
    Open,
    /// Creating the file; it must not exist.
    Create,
    /// Asking for its length and identity.
    Inspect,
    /// Locking it.
    Lock,
    /// Giving it its length and all its space.
    Allocate,
    /// Making it and its directory entry durable.
    Sync,
    /// Mapping it.
    Map,
    /// Reading it past the page cache.
    Load,
}

/// Which process has a file open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Holder {
    /// This process, under this or another name.
    ThisProcess,
    /// Another process (or a child that inherited the handle).
    AnotherProcess,
}

impl MapError {
    pub(crate) fn on(self, path: &Path) -> Self {
        Self { path: Some(path.to_path_buf()), ..self }
    }

    pub(crate) fn system(step: Step, source: impl Into<io::Error>) -> Self {
        MapErrorKind::System { step, source: source.into() }.into()
    }
}

impl From<MapErrorKind> for MapError {
    fn from(kind: MapErrorKind) -> Self {
        Self { kind, path: None }
    }
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.kind),
            None => self.kind.fmt(f),
        }
    }
}

impl core::error::Error for MapError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.kind {
            MapErrorKind::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl fmt::Display for MapErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { step, .. } => write!(f, "the system refused to {step}"),
            Self::Busy { holder: Holder::ThisProcess } => f.write_str("already open here"),
            Self::Busy { holder: Holder::AnotherProcess } => {
                f.write_str("already open in another process")
            }
            Self::NotAFile => f.write_str("not a regular file, and no DAX device"),
            Self::NoDirectAccess { reason } => {
                write!(f, "a DAX device is mapped directly or not at all: {reason}")
            }
            Self::NotWritable => f.write_str("the handle cannot write"),
            Self::Empty => f.write_str("no bytes"),
            Self::TooShort { len, demanded } => {
                write!(f, "{len} bytes where {demanded} are needed")
            }
            Self::TooLong { len } => write!(f, "{len} bytes are more than can be addressed"),
            Self::Misaligned { len, unit } => write!(f, "{len} bytes are no multiple of {unit}"),
            Self::Granularity { demanded, offered, reason } => {
                write!(f, "{demanded:?} granularity demanded, {offered:?} offered: {reason}")
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open it",
            Self::Create => "create it",
            Self::Inspect => "inspect it",
            Self::Lock => "lock it",
            Self::Allocate => "allocate its space",
            Self::Sync => "sync it",
            Self::Map => "map it",
            Self::Load => "read it past the page cache",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::error::Error;

    #[test]
    fn an_error_says_what_and_where_and_keeps_its_source() {
        let error = MapError::system(Step::Map, rustix::io::Errno::NOMEM).on(Path::new("a/b"));
        assert_eq!(error.to_string(), "a/b: the system refused to map it");
        let source = error.source().expect("a system call failed");
        let system = source.downcast_ref::<io::Error>().expect("it is the system's");
        assert_eq!(system.raw_os_error(), Some(rustix::io::Errno::NOMEM.raw_os_error()));
        let short = MapError::from(MapErrorKind::TooShort { len: 1, demanded: 2 });
        assert_eq!(short.to_string(), "1 bytes where 2 are needed");
        assert!(short.source().is_none());
    }
}
