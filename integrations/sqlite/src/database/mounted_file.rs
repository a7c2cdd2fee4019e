//! One mounted database: the file in its journal, and what its connections share.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use core::{fmt, ptr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use block_files::OneFile;
use libsqlite3_sys::sqlite3_file;

use super::codes::{Code, code_of};
use super::counts::Counting;
use super::locks::Locks;
use crate::error::Error;

/// SQLite's code where the length of a file could not be had.
const SHORT_OF_LENGTH: Code = libsqlite3_sys::SQLITE_IOERR_FSTAT;

/// How the disk's file is cut to the database's length, durably.
pub(crate) type Cut = Box<dyn Fn(u64) -> Result<(), block_files::Error> + Send + Sync>;

/// Something that keeps other programs away while it lives.
pub(crate) type Guard = Box<dyn Send>;

/// What a database has whose file other programs use in turn.
pub(crate) struct Shared {
    /// The length of the file as it is now, or SQLite's code.
    pub(crate) len: Box<dyn Fn() -> Result<u64, Code> + Send + Sync>,
    /// Which file it is: another one may get its name.
    pub(crate) identity: (u64, u64),
    /// Whether the journal has something that the file lacks.
    pub(crate) is_ahead: Mutex<bool>,
}

/// A mounted database.
pub(crate) struct MountedFile {
    pub(crate) file: OneFile,
    pub(crate) counts: Counting,
    cut: Cut,
    guard: Mutex<Option<Guard>>,
    shared: Option<Shared>,
    locks: Mutex<Locks>,
    connections: AtomicUsize,
    /// The rollback journal that was created last; null: none since a batch was given up.
    pub(crate) journal: AtomicPtr<sqlite3_file>,
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
            shared: None,
            locks: Mutex::default(),
            connections: AtomicUsize::new(0),
            journal: AtomicPtr::new(ptr::null_mut()),
            is_ended_by_last: ended_by_last,
            has_no_journal: AtomicBool::new(false),
            has_no_wal: AtomicBool::new(false),
        }
    }

    pub(crate) fn shared_with_others(self, shared: Shared) -> Self {
        Self { shared: Some(shared), ..self }
    }

    pub(crate) fn shared(&self) -> Option<&Shared> {
        self.shared.as_ref()
    }

    /// Makes a change. If the file is shared, the journal is ahead of it from now on.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&OneFile) -> T) -> T {
        let Some(shared) = &self.shared else { return change(&self.file) };
        let mut is_ahead = shared.is_ahead.lock().unwrap_or_else(PoisonError::into_inner);
        *is_ahead = true;
        change(&self.file)
    }

    /// Writes everything home, if the file is shared and lacks something.
    pub(crate) fn go_home(&self, otherwise: Code) -> Result<(), Code> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let mut is_ahead = shared.is_ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_ahead {
            return Ok(());
        }
        let home = || {
            self.file.sync()?;
            let unreadable = self.file.checkpoint()?.unreadable;
            if unreadable > 0 {
                return Err(block_files::Error::Unreadable { blocks: unreadable });
            }
            (self.cut)(self.file.len())
        };
        home().map_err(|error| code_of(&error, otherwise))?;
        *is_ahead = false;
        Ok(())
    }

    /// Looks what another program has made of a shared file.
    pub(crate) fn look_again(&self) -> Result<(), Code> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let is_ahead = shared.is_ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_ahead {
            return Ok(());
        }
        let len = (shared.len)()?;
        if len == self.file.len() {
            return Ok(());
        }
        self.file.take_as_it_is(len).map_err(|error| code_of(&error, SHORT_OF_LENGTH))
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

    /// Whether the file has all that the journal has, because other programs use it in turn.
    fn is_level(&self) -> bool {
        let is_ahead = self.shared.as_ref().map(|shared| shared.is_ahead.lock());
        is_ahead.is_some_and(|ahead| !*ahead.unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the journal, cuts the disk's file, and lets other programs have it.
    pub(crate) fn close(&self) -> Result<(), Error> {
        // What is known of the length of a shared file is as old as the last lock. Another program
        // may have made it longer since.
        let is_level = self.is_level();
        let closed = self.file.close(|len| if is_level { Ok(()) } else { (self.cut)(len) });
        drop(self.guard.lock().unwrap_or_else(PoisonError::into_inner).take());
        closed.map_err(Error::from)
    }
}

impl fmt::Debug for MountedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountedFile").field("file", &self.file).finish_non_exhaustive()
    }
}
