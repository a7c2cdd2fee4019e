//! One mounted database: the file in its journal, and what its connections share.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use core::{fmt, ptr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use block_files::{OneFile, Write};
use libsqlite3_sys::sqlite3_file;
use nvm_journal::Durability;

use super::codes::{Code, code_of};
use super::counts::Counting;
use super::locks::Locks;
use crate::error::Error;
use crate::files::Files;

/// SQLite's code where the length of a file could not be had.
const SHORT_OF_LENGTH: Code = libsqlite3_sys::SQLITE_IOERR_FSTAT;

/// How the disk's file is cut to the database's length, durably.
pub(crate) type Cut = Box<dyn Fn(u64) -> Result<(), block_files::Error> + Send + Sync>;

/// Something that keeps other programs away while it lives.
pub(crate) type Guard = Box<dyn Send>;

/// How a journal is made anew for the file as it is now.
pub(crate) type Anew = Box<dyn Fn() -> Result<OneFile, Error> + Send + Sync>;

/// The length of a file as it is now, or SQLite's code.
pub(crate) type Length = Box<dyn Fn() -> Result<u64, Code> + Send + Sync>;

/// Keeps other programs away from a shared file, or lets them have it again.
pub(crate) type Keep = Box<dyn Fn(bool) + Send + Sync>;

/// What a database has whose file other programs use in turn.
pub(crate) struct Shared {
    pub(crate) len: Length,
    /// Which file it is: another one may get its name.
    pub(crate) identity: (u64, u64),
    pub(crate) anew: Anew,
    /// For a file that lacks something when its last connection closes.
    pub(crate) keep: Keep,
    pub(crate) ahead: Mutex<Ahead>,
}

/// What the journal has, and the shared file lacks.
#[derive(Default)]
pub(crate) struct Ahead {
    is_ahead: bool,
    /// What a refused batch found. Some of its pages may be home. Until these are home instead,
    /// nothing else changes, and the journal has these alone.
    undo: Option<Undo>,
    /// Whether other programs are kept away, because no connection has the file's lock.
    keeps: bool,
}

impl Shared {
    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pages that a batch writes, as they were before.
struct Undo {
    pages: Vec<(u64, Vec<u8>)>,
    len: u64,
}

impl Undo {
    fn of(file: &OneFile, writes: &[Write<'_>]) -> Result<Self, block_files::Error> {
        let mut pages = Vec::with_capacity(writes.len());
        for write in writes {
            let mut page = vec![0; write.bytes.len()];
            let there = file.read_at(write.at, &mut page)?;
            page.truncate(there);
            pages.push((write.at, page));
        }
        Ok(Self { pages, len: file.len() })
    }

    fn give_back(&self, file: &OneFile) -> Result<(), block_files::Error> {
        for (at, page) in &self.pages {
            file.write_at(*at, page)?;
        }
        file.set_len(self.len)
    }
}

/// Whether the journal may have failed with this error, so that it takes nothing any more.
const fn is_failure(error: &block_files::Error) -> bool {
    use nvm_journal::Error as Journal;
    matches!(
        error,
        block_files::Error::Unreadable { .. }
            | block_files::Error::Journal(
                Journal::Device(_) | Journal::Medium(_) | Journal::Failed
            )
    )
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
    /// Where the rollback journal and the WAL lie, if not on the host.
    pub(crate) files: Option<Arc<dyn Files>>,
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
            files: None,
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

    pub(crate) fn with_files(self, files: Option<Arc<dyn Files>>) -> Self {
        Self { files, ..self }
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
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&OneFile) -> Result<(), block_files::Error>,
    ) -> Result<(), block_files::Error> {
        let Some(shared) = &self.shared else { return self.with(change) };
        let mut ahead = shared.ahead();
        if ahead.undo.is_some() {
            self.send_home(shared, &mut ahead)?;
        }
        ahead.is_ahead = true;
        let changed = self.with(change);
        if changed.as_ref().is_err_and(is_failure) {
            ahead.is_ahead = self.begin_anew(shared, None).is_err();
        }
        changed
    }

    /// Commits a batch. If the file is shared, the batch is home then, or has changed nothing.
    pub(crate) fn commit(
        &self,
        writes: &[Write<'_>],
        len: Option<u64>,
    ) -> Result<(), block_files::Error> {
        let commit = |file: &OneFile| file.commit(writes, len, Durability::Durable);
        let Some(shared) = &self.shared else { return self.with(commit) };
        let mut ahead = shared.ahead();
        if ahead.is_ahead {
            self.send_home(shared, &mut ahead)?;
        }
        let undo = self.with(|file| Undo::of(file, writes))?;
        ahead.is_ahead = true;
        let committed = self.with(commit).and_then(|()| self.write_home());
        match &committed {
            Ok(()) => *ahead = Ahead::default(),
            Err(error) if is_failure(error) => {
                // Nobody else has the old pages: SQLite writes no rollback journal if the disk is
                // full, or can write none.
                ahead.undo = Some(undo);
                // If this fails as well, it is tried again with the next call.
                let _later = self.send_home(shared, &mut ahead);
            }
            Err(_) => {}
        }
        committed
    }

    /// Writes everything home, if the file is shared and lacks something.
    ///
    /// Where that fails, some pages may be home. What was written outside of batches is forgotten
    /// then: SQLite has a rollback journal or a WAL.
    pub(crate) fn go_home(&self, otherwise: Code) -> Result<(), Code> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let mut ahead = shared.ahead();
        let home = if ahead.is_ahead { self.send_home(shared, &mut ahead) } else { Ok(()) };
        home.map_err(|error| code_of(&error, otherwise))
    }

    fn send_home(&self, shared: &Shared, ahead: &mut Ahead) -> Result<(), block_files::Error> {
        if ahead.undo.is_some() {
            self.begin_anew(shared, ahead.undo.as_ref())?;
        }
        let home = self.write_home();
        match &home {
            Ok(()) => {
                if ahead.keeps {
                    (shared.keep)(false);
                }
                *ahead = Ahead::default();
            }
            Err(_) => {
                let anew = self.begin_anew(shared, ahead.undo.as_ref());
                ahead.is_ahead = ahead.undo.is_some() || anew.is_err();
            }
        }
        home
    }

    fn write_home(&self) -> Result<(), block_files::Error> {
        self.with(|file| {
            file.sync()?;
            let unreadable = file.checkpoint()?.unreadable;
            if unreadable > 0 {
                return Err(block_files::Error::Unreadable { blocks: unreadable });
            }
            (self.cut)(file.len())
        })
    }

    /// Makes a journal for the file as it is now, and for the old pages of a refused batch.
    fn begin_anew(&self, shared: &Shared, undo: Option<&Undo>) -> Result<(), block_files::Error> {
        let file = (shared.anew)().map_err(|error| match error {
            Error::File(error) => error,
            _ => nvm_journal::Error::Failed.into(),
        })?;
        undo.map_or(Ok(()), |undo| undo.give_back(&file))?;
        *self.file_anew.write().unwrap_or_else(PoisonError::into_inner) = Some(file);
        self.is_anew.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether a refused batch may be home in part, so that no other program may have the file.
    pub(crate) fn is_in_pieces(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.ahead().undo.is_some())
    }

    /// Keeps other programs away until the file is whole again; returns whether it is in pieces.
    pub(crate) fn keep_if_in_pieces(&self) -> bool {
        let Some(shared) = &self.shared else { return false };
        let mut ahead = shared.ahead();
        if ahead.undo.is_some() && !ahead.keeps {
            (shared.keep)(true);
            ahead.keeps = true;
        }
        ahead.undo.is_some()
    }

    /// Looks what another program has made of a shared file.
    pub(crate) fn look_again(&self) -> Result<(), Code> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let ahead = shared.ahead();
        if ahead.is_ahead {
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
        self.shared.as_ref().is_some_and(|shared| !shared.ahead().is_ahead)
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
