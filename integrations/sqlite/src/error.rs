//! Why a database could not be mounted, or a mount not be ended.

use core::fmt;
use std::path::PathBuf;

use nvm_journal::{FileDiskError, MapError};

/// Why a VFS was not registered, or a database not mounted, checkpointed or closed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// This build of SQLite cannot commit through a VFS.
    ///
    /// Without that, each commit would write a rollback journal to the host's disk, and would be
    /// slower than the host's own WAL. A build with `-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE` can. With
    /// the feature `bundled`, put this into `.cargo/config.toml` of the program:
    ///
    /// ```toml
    /// [env]
    /// LIBSQLITE3_FLAGS = "-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE"
    /// ```
    NoBatchAtomic,
    /// SQLite has no VFS of the host, or refused to register one.
    NoVfs {
        /// SQLite's code.
        code: i32,
    },
    /// A name or a path has a byte that is zero.
    ZeroInName,
    /// SQLite cannot make a full path of this one.
    Path {
        /// The path as it was given.
        path: PathBuf,
    },
    /// The mount does not say which persistent memory to use.
    NoNvm,
    /// The file that is given as persistent memory holds something else than a journal. It was not
    /// touched.
    NotAJournal {
        /// Which file.
        path: PathBuf,
    },
    /// The persistent memory is too small for a journal.
    TooSmall {
        /// How many bytes it has.
        bytes: u64,
    },
    /// The database is mounted already in this process.
    Mounted,
    /// Another program, or another connection without this VFS, has the database open.
    Busy,
    /// Connections have the database open: close them first.
    InUse {
        /// How many.
        connections: usize,
    },
    /// The journal was not closed, and belongs to another database: neither the path nor the file
    /// is the one that it knows. Nothing was touched. See [`Mount::moved`](crate::Mount::moved).
    OtherDatabase {
        /// The database that was to be mounted.
        path: PathBuf,
        /// The persistent memory.
        nvm: PathBuf,
    },
    /// The journal was not closed, and its database's file is longer than the journal has made it:
    /// another program has changed it. Nothing was touched. One of the two is to be given up: the
    /// file, or the persistent memory with all that is only there.
    ChangedOutside {
        /// The database.
        path: PathBuf,
        /// How many bytes it has.
        found: u64,
        /// How many it has at most as the journal knows it.
        known: u64,
    },
    /// The rollback journal or the WAL has changes that the database lacks. A connection to the
    /// database makes them, and then the mount can be closed.
    HotJournal {
        /// Its name in the files of the mount.
        name: &'static str,
    },
    /// The files of the mount could not be asked.
    Files(std::io::Error),
    /// No policy has this name.
    NoSuchPolicy,
    /// A setting of the URI is no number, or one that cannot be.
    Setting {
        /// The parameter.
        name: &'static str,
    },
    /// The database's file could not be had as a disk.
    Disk(FileDiskError),
    /// The persistent memory could not be mapped.
    Map(MapError),
    /// The file's part of the journal refused.
    File(block_files::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBatchAtomic => f.write_str(
                "this SQLite was built without -DSQLITE_ENABLE_BATCH_ATOMIC_WRITE: set \
                 LIBSQLITE3_FLAGS to it, in [env] of .cargo/config.toml, and build it anew",
            ),
            Self::NoVfs { code } => write!(f, "SQLite took no VFS: code {code}"),
            Self::ZeroInName => f.write_str("a name with a zero byte"),
            Self::Path { path } => write!(f, "no full path: {}", path.display()),
            Self::NoNvm => f.write_str("no persistent memory was named: Mount::nvm, or nvm=..."),
            Self::NotAJournal { path } => {
                write!(f, "{} holds something else than a journal", path.display())
            }
            Self::TooSmall { bytes } => write!(f, "{bytes} bytes are too few for a journal"),
            Self::Mounted => f.write_str("the database is mounted already"),
            Self::Busy => f.write_str("another program has the database open"),
            Self::InUse { connections } => {
                write!(f, "{connections} connections have the database open")
            }
            Self::OtherDatabase { path, nvm } => {
                let (path, nvm) = (path.display(), nvm.display());
                write!(f, "{nvm} has the journal of another database than {path}")
            }
            Self::ChangedOutside { path, found, known } => write!(
                f,
                "{} has {found} bytes, and its journal knows of {known}: another program has \
                 changed it while the journal was not closed",
                path.display()
            ),
            Self::HotJournal { name } => {
                write!(f, "the file {name} has changes that the database lacks: open it first")
            }
            Self::Files(error) => error.fmt(f),
            Self::NoSuchPolicy => nvm_journal::Error::NoSuchPolicy.fmt(f),
            Self::Setting { name } => write!(f, "the parameter {name} has no valid value"),
            Self::Disk(error) => error.fmt(f),
            Self::Map(error) => error.fmt(f),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Disk(error) => Some(error),
            Self::Map(error) => Some(error),
            Self::File(error) => Some(error),
            Self::Files(error) => Some(error),
            _ => None,
        }
    }
}

impl From<block_files::Error> for Error {
    fn from(error: block_files::Error) -> Self {
        Self::File(error)
    }
}

impl From<nvm_journal::Error> for Error {
    fn from(error: nvm_journal::Error) -> Self {
        Self::File(error.into())
    }
}

impl From<FileDiskError> for Error {
    fn from(error: FileDiskError) -> Self {
        Self::Disk(error)
    }
}

impl From<MapError> for Error {
    fn from(error: MapError) -> Self {
        Self::Map(error)
    }
}
