//! One mounted database: the file in its journal, and what its connections share.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use core::{fmt, ptr};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

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

/// How a journal is made anew for the file as it is now.
pub(crate) type Anew = Box<dyn Fn() -> Result<OneFile, Error> + Send + Sync>;

/// What a database has whose file other programs use in turn.
pub(crate) struct Shared {
    /// The length of the file as it is now, or SQLite's code.
    pub(crate) len: Box<dyn Fn() -> Result<u64, Code> + Send + Sync>,
    /// Which file it is: another one may get its name.
    pub(crate) identity: (u64, u64),
    /// Whether the journal has something that the file lacks.
    pub(crate) is_ahead: Mutex<bool>,
    pub(crate) anew: Anew,
}

/// A mounted database.
pub(crate) struct MountedFile {
    file: OneFile,
    /// The file in the last journal that was made anew, if one was.
    file_anew: RwLock<Option<OneFile>>,
    is_anew: AtomicBool,
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
            file_anew: RwLock::new(None),
            is_anew: AtomicBool::new(false),
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

    /// Calls with the file in its journal.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&OneFile) -> T) -> T {
        if !self.is_anew.load(Ordering::Acquire) {
            return call(&self.file);
        }
        let anew = self.file_anew.read().unwrap_or_else(PoisonError::into_inner);
        call(anew.as_ref().unwrap_or(&self.file))
    }

    /// Makes a change. If the file is shared, the journal is ahead of it from now on.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&OneFile) -> T) -> T {
        let Some(shared) = &self.shared else { return self.with(change) };
        let mut is_ahead = shared.is_ahead.lock().unwrap_or_else(PoisonError::into_inner);
        *is_ahead = true;
        self.with(change)
    }

    /// Writes everything home, if the file is shared and lacks something.
    ///
    /// Where that fails, some pages may be home. The journal is made anew for the file as it is
    /// then: SQLite has the old pages, and writes them back, or all of the new ones.
    pub(crate) fn go_home(&self, otherwise: Code) -> Result<(), Code> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let mut is_ahead = shared.is_ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_ahead {
            return Ok(());
        }
        let home = self.with(|file| {
            file.sync()?;
            let unreadable = file.checkpoint()?.unreadable;
            if unreadable > 0 {
                return Err(block_files::Error::Unreadable { blocks: unreadable });
            }
            (self.cut)(file.len())
        });
        *is_ahead = home.is_err() && !self.begin_anew(shared);
        home.map_err(|error| code_of(&error, otherwise))
    }

    /// Makes a journal for the file as it is now; returns whether there is one.
    fn begin_anew(&self, shared: &Shared) -> bool {
        let Ok(file) = (shared.anew)() else { return false };
        *self.file_anew.write().unwrap_or_else(PoisonError::into_inner) = Some(file);
        self.is_anew.store(true, Ordering::Release);
        true
    }

    /// Looks what another program has made of a shared file.
    pub(crate) fn look_again(&self) -> Result<(), Code> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let is_ahead = shared.is_ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_ahead {
            return Ok(());
        }
        let len = (shared.len)()?;
        self.with(|file| {
            if len == file.len() {
                return Ok(());
            }
            file.take_as_it_is(len).map_err(|error| code_of(&error, SHORT_OF_LENGTH))
        })
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
        let cut = |len| if is_level { Ok(()) } else { (self.cut)(len) };
        let closed = self.with(|file| file.close(cut));
        drop(self.guard.lock().unwrap_or_else(PoisonError::into_inner).take());
        closed.map_err(Error::from)
    }
}

impl fmt::Debug for MountedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|file| f.debug_struct("MountedFile").field("file", file).finish_non_exhaustive())
    }
}
