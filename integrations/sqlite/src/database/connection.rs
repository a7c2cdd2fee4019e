//! One connection to a mounted database: what SQLite asks of an open file.
//!
//! Guarantees: a batch becomes one durable transaction, with the length of the file, or changes
//! nothing. What is written outside of batches is committed deferred, page by page, and durable
//! behind the next sync.

use core::ptr;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use block_files::{Error, OneFile, Write};
use libsqlite3_sys as sys;
use nvm_journal::Durability;

use super::codes::{Code, code_of, is_of_io, is_too_large};
use super::locks::{Busy, Level};
use super::mounted_file::{Change, MountedFile};

/// Pages that SQLite has written between the beginning and the end of a batch.
#[derive(Debug, Default)]
struct Batch {
    is_open: bool,
    /// Where each page goes, and how many bytes it has.
    places: Vec<(u64, usize)>,
    /// The pages, one behind the other: SQLite uses its own buffers again.
    bytes: Vec<u8>,
    len: Option<u64>,
}

impl Batch {
    fn clear(&mut self) {
        self.is_open = false;
        self.places.clear();
        self.bytes.clear();
        self.len = None;
    }

    fn pages(&self) -> impl Iterator<Item = Write<'_>> {
        let mut left = self.bytes.as_slice();
        self.places.iter().map(move |(at, bytes)| {
            let (page, rest) = left.split_at(*bytes);
            left = rest;
            Write { at: *at, bytes: page }
        })
    }
}

/// A connection to a mounted database.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) database: Arc<MountedFile>,
    level: Level,
    batch: Batch,
    /// Whether something was committed deferred since the last sync.
    is_loose: bool,
    /// How often the database had taken changes back when this connection made the first of those
    /// that may be taken back too.
    taken_back: Option<u64>,
    /// Whether SQLite writes a rollback journal if the open batch is given up now: it does so
    /// where it was told of a failed read or write.
    falls_back: bool,
    /// Whether a batch was given up so. SQLite does not sync that rollback journal before it writes
    /// pages.
    is_fallen_back: bool,
    /// Whether SQLite has made no rollback journal behind that: it has one in memory.
    lacks_journal: bool,
    /// Whether SQLite was asked to have its rollback journals in memory.
    asks_for_memory: bool,
    is_read_only: bool,
}

impl Connection {
    pub(crate) fn new(database: Arc<MountedFile>, is_read_only: bool) -> Self {
        database.joins();
        Self {
            database,
            level: Level::None,
            batch: Batch::default(),
            is_loose: false,
            taken_back: None,
            falls_back: false,
            is_fallen_back: false,
            lacks_journal: false,
            asks_for_memory: false,
            is_read_only,
        }
    }

    /// Looks what another program has made of a shared file, where no lock has told of it. A shim
    /// that keeps a database in several files has locks on the first of them alone.
    pub(crate) fn look_without_lock(&self) -> Result<(), Code> {
        if self.level == Level::None { self.database.look_again() } else { Ok(()) }
    }

    /// Writes home what was changed without a lock, because no unlock will do it.
    fn go_home_without_lock(&self, otherwise: Code) -> Result<(), Code> {
        if self.level == Level::None { self.database.go_home(otherwise) } else { Ok(()) }
    }

    /// Reads; what the file does not have is zero, and the code says so.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Code> {
        self.database.counts.reads.add(1);
        let read = self.database.with(|file| file.read_at(at, into));
        let mut read = read.map_err(|error| code_of(&error, sys::SQLITE_IOERR_READ))?;
        into[read..].fill(0);
        if self.batch.is_open {
            for page in self.batch.pages() {
                read = read.max(overlay(at, into, page));
            }
        }
        if read < into.len() { Err(sys::SQLITE_IOERR_SHORT_READ) } else { Ok(()) }
    }

    /// Whether the rollback journal has to be synced before the next page is written.
    pub(crate) fn wants_journal_sync(&self) -> bool {
        self.is_fallen_back && !self.batch.is_open
    }

    /// The rollback journal is durable.
    pub(crate) fn journal_is_synced(&mut self) {
        if core::mem::take(&mut self.is_fallen_back) {
            // In memory, it was never created.
            self.database.falls_back.store(false, Ordering::Relaxed);
        }
    }

    /// SQLite has written no rollback journal behind a batch that was refused. A crash among its
    /// pages would leave a part of the transaction, so none is taken.
    pub(crate) fn has_no_journal_to_sync(&mut self) {
        // What a crash leaves of a file that others use in turn is in pieces anyway.
        self.lacks_journal = self.is_fallen_back && self.database.shared().is_none();
        self.journal_is_synced();
    }

    /// Notes a mode of the rollback journal that SQLite is asked for.
    pub(crate) fn asks_for_journal(&mut self, mode: &[u8]) {
        self.asks_for_memory = mode.eq_ignore_ascii_case(b"memory");
    }

    /// Whether a page that changes could not be taken back behind a crash. SQLite spills pages with
    /// its rollback journal in memory, too. A WAL has pages until they are home.
    fn is_without_journal(&self) -> bool {
        let database = &self.database;
        let spills = self.asks_for_memory
            && database.shared().is_none()
            && database.journals_open.load(Ordering::Relaxed) == 0
            && database.has_no_wal.load(Ordering::Relaxed);
        self.lacks_journal || spills
    }

    /// Whether the file has these bytes already, as where SQLite takes back what was refused.
    fn has(&self, at: u64, bytes: &[u8]) -> bool {
        let mut there = vec![0; bytes.len()];
        let read = self.database.with(|file| file.read_at(at, &mut there));
        read.is_ok_and(|read| read == bytes.len()) && there == bytes
    }

    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Code> {
        if self.is_read_only {
            return Err(sys::SQLITE_READONLY);
        }
        if self.batch.is_open {
            self.batch.places.push((at, bytes.len()));
            self.batch.bytes.extend_from_slice(bytes);
            return Ok(());
        }
        self.look_without_lock()?;
        if self.is_without_journal() {
            return if self.has(at, bytes) { Ok(()) } else { Err(sys::SQLITE_FULL) };
        }
        self.database.counts.loose_pages.add(1);
        self.change(&[Write { at, bytes }], None, sys::SQLITE_IOERR_WRITE)
    }

    /// Changes the file, not durably yet.
    fn change(
        &mut self,
        writes: &[Write<'_>],
        len: Option<u64>,
        otherwise: Code,
    ) -> Result<(), Code> {
        self.is_told(otherwise)?;
        self.is_loose = true;
        let is_alone = self.level == Level::Exclusive;
        let before = self.database.taken_back();
        let change = Change { writes, len, durability: Durability::Deferred, is_alone };
        let changed = self.database.change(&change).map_err(|error| code_of(&error, otherwise));
        self.taken_back = changed.is_ok().then_some(self.taken_back.unwrap_or(before));
        changed?;
        self.go_home_without_lock(otherwise)
    }

    /// An error if changes of this connection were taken back, and the failure was told to another
    /// one: with an unlock, as it was opened or closed. SQLite then rolls the transaction back.
    fn is_told(&mut self, otherwise: Code) -> Result<(), Code> {
        let was_taken_back = |before: &u64| *before != self.database.taken_back();
        match self.taken_back.take_if(|before| was_taken_back(before)) {
            Some(_) => Err(otherwise),
            None => Ok(()),
        }
    }

    /// Writes everything home that this connection has changed, or says that it could not be.
    pub(crate) fn go_home(&mut self, otherwise: Code) -> Result<(), Code> {
        let home = self.database.go_home(otherwise);
        let told = self.is_told(otherwise);
        self.taken_back = None;
        home.and(told)
    }

    pub(crate) fn set_len(&mut self, len: u64) -> Result<(), Code> {
        if self.is_read_only {
            return Err(sys::SQLITE_READONLY);
        }
        if self.batch.is_open {
            self.batch.len = Some(len);
            return Ok(());
        }
        self.look_without_lock()?;
        if len == self.database.with(OneFile::len) {
            return Ok(());
        }
        self.change(&[], Some(len), sys::SQLITE_IOERR_TRUNCATE)
    }

    pub(crate) fn sync(&mut self) -> Result<(), Code> {
        if !self.is_loose {
            return Ok(());
        }
        self.database.counts.syncs.add(1);
        let synced = self.database.with(OneFile::sync);
        synced.map_err(|error| code_of(&error, sys::SQLITE_IOERR_FSYNC))?;
        self.is_loose = false;
        self.go_home(sys::SQLITE_IOERR_FSYNC)
    }

    pub(crate) fn len(&self) -> u64 {
        let len = self.database.with(OneFile::len);
        if !self.batch.is_open {
            return len;
        }
        let ends = self.batch.places.iter().map(|(at, bytes)| at.saturating_add(*bytes as u64));
        self.batch.len.unwrap_or_else(|| ends.fold(len, u64::max))
    }

    pub(crate) fn begin_batch(&mut self) -> Result<(), Code> {
        if self.is_read_only {
            return Err(sys::SQLITE_READONLY);
        }
        self.batch.clear();
        self.batch.is_open = true;
        self.falls_back = false;
        self.lacks_journal = false;
        Ok(())
    }

    /// One transaction, durable on return.
    pub(crate) fn commit_batch(&mut self) -> Result<(), Code> {
        let committed = self.commit_pages();
        self.falls_back = committed.is_err_and(is_of_io);
        committed
    }

    /// The length that the batch gives the file, if its pages alone do not. The first page says how
    /// many there are. Older versions of SQLite make the file as long only behind the batch.
    fn len_of_batch(&self) -> Option<u64> {
        let first = self.batch.pages().filter(|page| page.at == 0).last();
        let least = first.and_then(|page| len_in_header(page.bytes)).unwrap_or(0);
        let is_longer = self.len() < least;
        if is_longer { Some(least) } else { self.batch.len }
    }

    fn commit_pages(&mut self) -> Result<(), Code> {
        let counts = &self.database.counts;
        let writes: Vec<Write<'_>> = self.batch.pages().collect();
        let committed = self.database.commit(&Change {
            writes: &writes,
            len: self.len_of_batch(),
            durability: Durability::Durable,
            is_alone: true,
        });
        let pages = writes.len() as u64;
        drop(writes);
        match committed {
            Ok(()) => {
                counts.commits.add(1);
                counts.pages.add(pages);
                self.batch.clear();
                Ok(())
            }
            Err(error) if is_too_large(&error) => {
                counts.fallbacks.add(1);
                Err(sys::SQLITE_IOERR_COMMIT_ATOMIC)
            }
            Err(error) => Err(code_of(&error, sys::SQLITE_IOERR_COMMIT_ATOMIC)),
        }
    }

    pub(crate) fn roll_batch_back(&mut self) {
        self.batch.clear();
        self.database.journal.store(ptr::null_mut(), Ordering::Relaxed);
        self.is_fallen_back = core::mem::take(&mut self.falls_back);
        self.database.falls_back.store(self.is_fallen_back, Ordering::Relaxed);
    }

    pub(crate) fn lock(&mut self, to: Level) -> Result<(), Busy> {
        self.database.locks().raise(&mut self.level, to)
    }

    pub(crate) fn unlock(&mut self, to: Level) {
        self.lacks_journal = false;
        // The transaction has ended, and its rollback journal with it.
        if core::mem::take(&mut self.is_fallen_back) {
            self.database.falls_back.store(false, Ordering::Relaxed);
        }
        if self.database.shared().is_some() {
            self.taken_back = None;
            self.level = self.level.min(to);
        } else {
            self.database.locks().lower(&mut self.level, to);
        }
    }

    /// Notes a level that the host has given, where the file is shared.
    pub(crate) fn is_now(&mut self, level: Level) {
        self.level = level;
    }

    pub(crate) const fn level(&self) -> Level {
        self.level
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.database.locks().is_reserved()
    }

    /// What the journal and this VFS have done, for `PRAGMA nvj_stats`.
    pub(crate) fn told(&self) -> String {
        let counts = self.database.counts.now();
        match self.database.with(OneFile::stats) {
            Ok(stats) => format!("{counts}\n{stats}"),
            Err(error) => format!("{counts}\n{error}"),
        }
    }

    pub(crate) fn checkpoint(&self) -> Result<u64, Error> {
        self.database.with(OneFile::checkpoint).map(|report| report.blocks)
    }
}

/// The length of a database by the head of its first page, if that is of a version of SQLite that
/// writes it.
fn len_in_header(page: &[u8]) -> Option<u64> {
    let word = |at: usize| {
        let bytes = page.get(at..).and_then(|rest| rest.first_chunk::<4>());
        bytes.map(|bytes| u32::from_be_bytes(*bytes))
    };
    if !page.starts_with(b"SQLite format 3\0") || word(24) != word(92) {
        return None;
    }
    // A page of 65,536 bytes is said by a one.
    let page_bytes = match word(16)? >> 16 {
        1 => 1 << 16,
        bytes => u64::from(bytes),
    };
    Some(page_bytes * u64::from(word(28)?))
}

/// Puts the bytes of a page over what was read; returns how far these bytes reach.
fn overlay(at: u64, into: &mut [u8], page: Write<'_>) -> usize {
    let end = at.saturating_add(into.len() as u64);
    let page_end = page.at.saturating_add(page.bytes.len() as u64);
    let (first, last) = (at.max(page.at), end.min(page_end));
    if first >= last {
        return 0;
    }
    let bytes = &page.bytes[(first - page.at) as usize..(last - page.at) as usize];
    into[(first - at) as usize..(last - at) as usize].copy_from_slice(bytes);
    (last - at) as usize
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.unlock(Level::None);
    }
}

#[cfg(test)]
mod tests;
