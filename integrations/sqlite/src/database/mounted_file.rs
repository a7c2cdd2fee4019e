//! One mounted database: the file in its journal, and what its connections share.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use core::{fmt, ptr};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use block_files::{OneFile, Write};
use libsqlite3_sys::sqlite3_file;
use nvm_journal::Durability;

use super::codes::{Code, code_of};
use super::counts::Counting;
use super::locks::Locks;
use super::old_pages::{OldPages, RoomForOld};
use crate::error::Error;
use crate::files::{Files, JOURNAL, WAL};

/// SQLite's code where the length of a file could not be had.
const SHORT_OF_LENGTH: Code = libsqlite3_sys::SQLITE_IOERR_FSTAT;

/// How the disk's file is cut to the database's length, durably.
pub(crate) type Cut = Box<dyn Fn(u64) -> Result<(), block_files::Error> + Send + Sync>;

/// How long a file that was at its path is taken to be there. To ask the host takes a tenth of a
/// commit.
const SEEN_EACH: Duration = Duration::from_millis(1);

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
    /// For the old pages of a transaction.
    pub(crate) room: RoomForOld,
    pub(crate) ahead: Mutex<Ahead>,
}

/// What the journal has, and the shared file lacks.
#[derive(Default)]
pub(crate) struct Ahead {
    is_ahead: bool,
    /// What the file had when it last lacked nothing, as far as the writer has locked it since.
    old: OldPages,
    /// Whether the old pages have to go home, because not all of the new ones could. Until then the
    /// journal has the old ones, and nothing changes.
    is_refused: bool,
    /// Whether other programs are kept away, because no connection has the file's lock.
    keeps: bool,
}

/// A change of the file.
pub(crate) struct Change<'b> {
    pub(crate) writes: &'b [Write<'b>],
    pub(crate) len: Option<u64>,
    pub(crate) durability: Durability,
    /// Whether the connection has the file for itself. Where it has not, SQLite has a WAL, or a
    /// shim has the lock of another file.
    pub(crate) is_alone: bool,
}

impl Change<'_> {
    fn make(&self, file: &OneFile) -> Result<(), block_files::Error> {
        file.commit(self.writes, self.len, self.durability)
    }
}

impl Ahead {
    /// The file has everything.
    fn is_home(&mut self, shared: &Shared) {
        if self.keeps {
            (shared.keep)(false);
        }
        *self = Self::default();
    }
}

impl Shared {
    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file of the host, which SQLite asks for again and again.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) identity: (u64, u64),
}

/// Which file is at a path: its device, and its number there.
pub(crate) fn identity_of(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = path.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
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
    /// Where the file is, if it is the host's and this mount's alone.
    place: Option<Place>,
    /// Where the rollback journal and the WAL lie, if not on the host.
    pub(crate) files: Option<Arc<dyn Files>>,
    locks: Mutex<Locks>,
    connections: AtomicUsize,
    /// How often changes of a shared file were taken back.
    taken_back: AtomicU64,
    /// The rollback journal that was created last; null: none since a batch was given up.
    pub(crate) journal: AtomicPtr<sqlite3_file>,
    /// Whether the next rollback journal that is created is that of a batch that was given up.
    pub(crate) falls_back: AtomicBool,
    /// Whether the last connection that closes ends the mount.
    pub(crate) is_ended_by_last: bool,
    /// Whether the host is known to have no rollback journal of the database, and no WAL. Until
    /// the host was asked, nothing is known: another process may have left one.
    pub(crate) has_no_journal: AtomicBool,
    pub(crate) has_no_wal: AtomicBool,
    /// Held while the host is asked and what it says is noted: another connection may make or
    /// delete the same file meanwhile.
    beside: Mutex<()>,
    /// Rollback journals that are open to be written.
    pub(crate) journals_open: AtomicUsize,
    /// Whether the mount was given up while connections were open: no new ones come.
    is_given_up: AtomicBool,
    /// When the mount began, and how many microseconds later the host said last that the file is at
    /// its path; zero for never.
    begun: Instant,
    seen_at: AtomicU64,
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
            place: None,
            files: None,
            locks: Mutex::default(),
            connections: AtomicUsize::new(0),
            taken_back: AtomicU64::new(0),
            journal: AtomicPtr::new(ptr::null_mut()),
            falls_back: AtomicBool::new(false),
            is_ended_by_last: ended_by_last,
            has_no_journal: AtomicBool::new(false),
            has_no_wal: AtomicBool::new(false),
            beside: Mutex::default(),
            journals_open: AtomicUsize::new(0),
            is_given_up: AtomicBool::new(false),
            begun: Instant::now(),
            seen_at: AtomicU64::new(0),
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
    pub(crate) fn change(&self, change: &Change<'_>) -> Result<(), block_files::Error> {
        let Some(shared) = &self.shared else { return self.with(|file| change.make(file)) };
        self.change_shared(shared, &mut shared.ahead(), change)
    }

    /// Commits a batch. If the file is shared, the batch is home then, or has changed nothing.
    pub(crate) fn commit(&self, batch: &Change<'_>) -> Result<(), block_files::Error> {
        let Some(shared) = &self.shared else { return self.with(|file| batch.make(file)) };
        let mut ahead = shared.ahead();
        if ahead.is_ahead {
            self.send_home(shared, &mut ahead)?;
        }
        self.change_shared(shared, &mut ahead, batch)?;
        self.send_home(shared, &mut ahead)
    }

    fn change_shared(
        &self,
        shared: &Shared,
        ahead: &mut Ahead,
        change: &Change<'_>,
    ) -> Result<(), block_files::Error> {
        if ahead.is_refused {
            self.send_home(shared, ahead)?;
        }
        if change.is_alone {
            let old = &mut ahead.old;
            let noted = self.with(|file| old.note(&shared.room, file, (change.writes, change.len)));
            if noted.is_err() && !ahead.is_ahead {
                // Nothing of it was changed, and another program may come next.
                ahead.old = OldPages::default();
            }
            noted?;
        }
        ahead.is_ahead = true;
        let changed = self.with(|file| change.make(file));
        if changed.as_ref().is_err_and(is_failure) {
            self.take_back(shared, ahead);
        }
        changed
    }

    /// Writes everything home, if the file is shared and lacks something.
    ///
    /// Where that fails, some pages may be home. The old pages go home instead then, at once or
    /// with a later call. What was changed without a lock is forgotten: SQLite has a rollback
    /// journal or a WAL.
    pub(crate) fn go_home(&self, otherwise: Code) -> Result<(), Code> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let mut ahead = shared.ahead();
        let home = if ahead.is_ahead { self.send_home(shared, &mut ahead) } else { Ok(()) };
        home.map_err(|error| code_of(&error, otherwise))
    }

    fn send_home(&self, shared: &Shared, ahead: &mut Ahead) -> Result<(), block_files::Error> {
        if ahead.is_refused {
            self.begin_anew(shared, &mut ahead.old)?;
        }
        let home = self.write_home();
        match &home {
            Ok(()) => ahead.is_home(shared),
            Err(_) => self.take_back(shared, ahead),
        }
        home
    }

    /// Takes back what is not home, behind a failure.
    fn take_back(&self, shared: &Shared, ahead: &mut Ahead) {
        self.taken_back.fetch_add(1, Ordering::AcqRel);
        let was_refused = ahead.is_refused;
        ahead.is_refused = !ahead.old.is_empty();
        let mut anew = self.begin_anew(shared, &mut ahead.old);
        if ahead.is_refused && !was_refused && anew.is_ok() {
            // A disk that is full takes what it had before, as a rule.
            match self.write_home() {
                Ok(()) => return ahead.is_home(shared),
                Err(_) => anew = self.begin_anew(shared, &mut ahead.old),
            }
        }
        ahead.is_ahead = ahead.is_refused || anew.is_err();
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

    /// Makes a journal for the file as it is now, which has these old pages.
    fn begin_anew(&self, shared: &Shared, old: &mut OldPages) -> Result<(), block_files::Error> {
        let file = (shared.anew)().map_err(|error| match error {
            Error::File(error) => error,
            _ => nvm_journal::Error::Failed.into(),
        })?;
        old.give_back(&file)?;
        *self.file_anew.write().unwrap_or_else(PoisonError::into_inner) = Some(file);
        self.is_anew.store(true, Ordering::Release);
        Ok(())
    }

    /// How often changes were taken back. The call that fails hears of it, and that may be one
    /// of another connection than the one that has made the changes.
    pub(crate) fn taken_back(&self) -> u64 {
        self.taken_back.load(Ordering::Acquire)
    }

    /// Whether the file has a part of what was refused, so that no other program may have it.
    pub(crate) fn is_in_pieces(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.ahead().is_refused)
    }

    /// Keeps other programs away until the file is whole again; returns whether it is in pieces.
    pub(crate) fn keep_if_in_pieces(&self) -> bool {
        let Some(shared) = &self.shared else { return false };
        let mut ahead = shared.ahead();
        if ahead.is_refused && !ahead.keeps {
            (shared.keep)(true);
            ahead.keeps = true;
        }
        ahead.is_refused
    }

    /// How many bytes of old pages are noted in memory, and in a file.
    #[cfg(test)]
    pub(crate) fn noted(&self) -> (usize, u64) {
        self.shared.as_ref().map_or((0, 0), |shared| shared.ahead().old.bytes())
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

    /// Notes where the host has the file.
    pub(crate) fn at(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Which file of the host it is, if it is one of its own.
    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        let shared = self.shared.as_ref().map(|shared| shared.identity);
        shared.or(self.place.as_ref().map(|place| place.identity))
    }

    /// Whether the file is not at its path any more.
    pub(crate) fn has_moved(&self) -> bool {
        let place = self.place.as_ref();
        place.is_some_and(|place| identity_of(&place.path).ok() != Some(place.identity))
    }

    /// Whether the file is not at its path any more, as far as the host was asked: at most once in
    /// [`SEEN_EACH`].
    pub(crate) fn has_moved_lately(&self) -> bool {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (now, seen) = (micros(self.begun.elapsed()), self.seen_at.load(Ordering::Relaxed));
        if seen > 0 && now.saturating_sub(seen) < micros(SEEN_EACH) {
            return false;
        }
        let has_moved = self.has_moved();
        if !has_moved {
            self.seen_at.store(now.max(1), Ordering::Relaxed);
        }
        has_moved
    }

    /// Keeps what is known of the files beside the database from changing.
    pub(crate) fn beside(&self) -> MutexGuard<'_, ()> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn is_beside_locked(&self) -> bool {
        self.beside.try_lock().is_err()
    }

    /// The file beside the database that has changes which the database lacks, if they are files of
    /// the caller's. A WAL begins as a rollback journal does: not with a zero.
    pub(crate) fn hot_beside(&self) -> Result<Option<&'static str>, Error> {
        let Some(files) = &self.files else { return Ok(None) };
        let _others_wait = self.beside();
        for name in [JOURNAL, WAL] {
            let first = files.open(name, false).and_then(|mut file| {
                let mut first = [0];
                file.read_at(0, &mut first)?;
                Ok(first)
            });
            match first {
                Ok([0]) => {}
                Ok(_) => return Ok(Some(name)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::Files(error)),
            }
        }
        Ok(None)
    }

    /// The mount is given up, and its connections go on.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
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
