//! One mounted database: the file in its journal, and what its connections share.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use block_files::OneFile;

use super::counts::Counting;
use super::locks::Locks;
use crate::error::Error;

/// How the disk's file is cut to the database's length, durably.
pub(crate) type Cut = Box<dyn Fn(u64) -> Result<(), block_files::Error> + Send + Sync>;

/// Something that keeps other programs away while it lives.
pub(crate) type Guard = Box<dyn Send>;

/// A mounted database.
pub(crate) struct MountedFile {
    pub(crate) file: OneFile,
    pub(crate) counts: Counting,
    cut: Cut,
    guard: Mutex<Option<Guard>>,
    locks: Mutex<Locks>,
    connections: AtomicUsize,
    /// Whether the last connection that closes ends the mount.
    pub(crate) is_ended_by_last: bool,
    /// Whether the host is known to have no rollback journal of the database, and no WAL. Until
    /// the host was asked, nothing is known: another process may have left one.
    pub(crate) has_no_journal: AtomicBool,
    pub(crate) has_no_wal: AtomicBool,
}

impl MountedFile {
    pub(crate) fn new(file: OneFile, cut: Cut, guard: Option<Guard>, ended_by_last: bool) -> Self {
        Self {
            file,
            counts: Counting::default(),
            cut,
            guard: Mutex::new(guard),
            locks: Mutex::default(),
            connections: AtomicUsize::new(0),
            is_ended_by_last: ended_by_last,
            has_no_journal: AtomicBool::new(false),
            has_no_wal: AtomicBool::new(false),
        }
    }

    pub(crate) fn locks(&self) -> MutexGuard<'_, Locks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn joins(&self) {
        self.connections.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns how many are left.
    pub(crate) fn leaves(&self) -> usize {
        self.connections.fetch_sub(1, Ordering::AcqRel) - 1
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    /// Ends the journal, cuts the disk's file, and lets other programs have it.
    pub(crate) fn close(&self) -> Result<(), Error> {
        let closed = self.file.close(|len| (self.cut)(len));
        drop(self.guard.lock().unwrap_or_else(PoisonError::into_inner).take());
        closed.map_err(Error::from)
    }
}

impl fmt::Debug for MountedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountedFile").field("file", &self.file).finish_non_exhaustive()
    }
}
