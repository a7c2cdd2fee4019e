//! The calls: files by their names, bytes by their offsets, and batches of changes.

use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use nvm_journal::ports::BlockDevice;
use nvm_journal::{BlockNumber, CheckpointReport, Durability, Operation, Stats, Totals};

use super::edit::{Edit, read};
use super::load::load;
use super::state::{FileId, State};
use crate::error::Error;
use crate::layout::format::{FIRST_LIST, HEADER, Layout};
use crate::store::Store;

/// Blocks that one transaction of a trim discards.
const DISCARDED_AT_ONCE: usize = 32;

/// Named files in one journal.
///
/// Threads use it at once through `&BlockFiles`; clones are handles to the same files. Readers run
/// beside each other; a change has the files to itself until its commit returns.
///
/// The directory lies in blocks of the same journal. Which blocks are free is worked out when the
/// files are opened, so no crash can leave a block that nobody has. While the files are open, no
/// other code may write to the journal.
#[derive(Clone)]
pub struct BlockFiles {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    state: RwLock<State>,
    next_id: AtomicU64,
}

impl Shared {
    /// A panic between two steps of an edit would leave the directory in doubt, but no step panics:
    /// a poisoned lock is as good as any.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files, unless they were closed.
    fn open_to_read(&self) -> Result<RwLockReadGuard<'_, State>, Error> {
        let state = self.read();
        if state.is_closed { Err(Error::Closed) } else { Ok(state) }
    }

    /// The files, unless they were closed.
    fn open_to_write(&self) -> Result<RwLockWriteGuard<'_, State>, Error> {
        let state = self.write();
        if state.is_closed { Err(Error::Closed) } else { Ok(state) }
    }

    fn edit<'b>(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut Edit<'_, 'b>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut state = self.open_to_write()?;
        let mut edit = Edit::new(&mut state, &*self.store);
        match change(&mut edit) {
            Ok(()) => edit.commit(durability),
            Err(error) => {
                edit.refuse();
                Err(error)
            }
        }
    }

    fn sync(&self) -> Result<(), Error> {
        let mut state = self.open_to_write()?;
        self.store.sync()?;
        state.is_durable();
        Ok(())
    }

    fn new_id(&self) -> FileId {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

impl BlockFiles {
    /// Makes a store of no files. Whatever its blocks held is lost.
    ///
    /// # Errors
    /// `StoreTooSmall`, and the journal's.
    pub fn format(store: Arc<dyn Store>) -> Result<Self, Error> {
        let layout = Layout::new(store.block_size().bytes(), store.block_count())?;
        let header = layout.header();
        let list = layout.list(FIRST_LIST, None, &[]);
        let operations = [
            Operation::write(BlockNumber(HEADER), &header),
            Operation::write(BlockNumber(FIRST_LIST), &list),
        ];
        store.commit(&operations, Durability::Durable)?;
        Self::open(store)
    }

    /// Opens the files of a store. Reads every block of the directory, and no other.
    ///
    /// # Errors
    /// `NotFormatted`, `OtherSize`, `Damaged`, `StoreTooSmall`, and the journal's.
    pub fn open(store: Arc<dyn Store>) -> Result<Self, Error> {
        let state = load(&*store)?;
        let next_id = AtomicU64::new(state.files.len() as u64);
        Ok(Self { shared: Arc::new(Shared { store, state: RwLock::new(state), next_id }) })
    }

    /// Opens the files of a store, or makes it a store of no files if it was never formatted.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), except `NotFormatted`.
    pub fn open_or_format(store: Arc<dyn Store>) -> Result<Self, Error> {
        match Self::open(Arc::clone(&store)) {
            Err(Error::NotFormatted) => Self::format(store),
            opened => opened,
        }
    }

    /// Makes a new file of no bytes. It is durable on return.
    ///
    /// # Errors
    /// `Exists`, `BadName`, `NoRoom`, and the journal's.
    pub fn create(&self, name: &str) -> Result<BlockFile, Error> {
        let id = self.shared.new_id();
        self.shared.edit(Durability::Durable, |edit| edit.create(id, name))?;
        Ok(BlockFile { shared: Arc::clone(&self.shared), id })
    }

    /// Opens a file.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn open_file(&self, name: &str) -> Result<BlockFile, Error> {
        let id = self.shared.open_to_read()?.names.get(name).copied().ok_or(Error::NotFound)?;
        Ok(BlockFile { shared: Arc::clone(&self.shared), id })
    }

    /// Removes a file. It is durable on return. Handles of the file answer `NotFound` from then on.
    ///
    /// # Errors
    /// `NotFound`, and the journal's.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        self.batch().remove(name).commit()
    }

    /// Gives a file another name. It is durable on return. Handles of the file stay valid.
    ///
    /// To put a file in another one's place, remove that one in the same [batch](Self::batch).
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `BadName`, and the journal's.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.batch().rename(from, to).commit()
    }

    /// The names and lengths of all files, in the order of their names.
    #[must_use]
    pub fn list(&self) -> Vec<(String, u64)> {
        let state = self.shared.read();
        let len = |id| state.file(id).map_or(0, |file| file.len);
        state.names.iter().map(|(name, id)| (name.clone(), len(*id))).collect()
    }

    /// Begins a list of changes that are committed together.
    pub fn batch(&self) -> Batch<'_> {
        Batch { shared: &self.shared, changes: Vec::new() }
    }

    /// Makes every change of every file durable.
    ///
    /// # Errors
    /// The journal's.
    pub fn sync(&self) -> Result<(), Error> {
        self.shared.sync()
    }

    /// Writes everything home. Other threads go on meanwhile.
    ///
    /// # Errors
    /// The journal's.
    pub fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        drop(self.shared.open_to_read()?);
        self.shared.store.checkpoint().map_err(Error::from)
    }

    /// Gives the disk back what files that were removed or cut have had since the last trim, and
    /// returns how many blocks that was. `disk` is another handle to the disk that the journal
    /// has. Everything is written home first, and all files wait until this returns.
    ///
    /// # Errors
    /// The journal's, and those of the disk. Files have what they had. Where the disk was not
    /// synced, a power loss may give free blocks back what they held: the files are closed then.
    pub fn trim(&self, disk: &mut impl BlockDevice) -> Result<u64, Error> {
        let mut state = self.shared.open_to_write()?;
        let store = &*self.shared.store;
        // 1. The blocks that are free in every state that a crash may leave.
        store.sync()?;
        state.is_durable();
        let untrimmed = core::mem::take(&mut state.untrimmed);
        let within = |(first, count): (u64, u64)| state.free.within(first, count);
        let runs: Vec<_> = untrimmed.iter().flat_map(within).collect();
        // 2. The journal forgets them, and no later change builds on what they held. Everything
        //    is written home: a checkpoint ends all snapshots, which would see zeroes. Nor does an
        //    open find the discards then, and write to the blocks to make sure of them.
        let done = discard(store, &runs).and_then(|()| {
            // 3. Nothing of them is in the journal when the disk forgets them, durably. That holds
            //    for those before an error as well: a later change may build on what they hold now.
            let mut discard = |(first, count): &(u64, u64)| {
                disk.discard(BlockNumber(*first), *count).map_err(nvm_journal::Error::Device)
            };
            let discarded = runs.iter().try_for_each(&mut discard);
            let synced = disk.sync().map_err(nvm_journal::Error::Device);
            state.is_closed |= synced.is_err();
            Ok(discarded.and(synced)?)
        });
        if let Err(error) = done {
            untrimmed.iter().for_each(|(first, count)| state.untrimmed.join(first, count));
            return Err(error);
        }
        Ok(runs.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count)))
    }

    /// How many blocks a store needs that has no room behind its files: the disk of a growing file
    /// is not longer once it is [trimmed](Self::trim).
    #[must_use]
    pub fn blocks_used_to(&self) -> u64 {
        self.shared.read().free.end_of_used(self.shared.store.block_count())
    }

    /// Ends the journal in good order. Later calls answer `Closed`.
    ///
    /// # Errors
    /// `Closed`, and the journal's.
    pub fn close(&self) -> Result<(), Error> {
        let mut state = self.shared.open_to_write()?;
        state.is_closed = true;
        self.shared.store.close().map_err(Error::from)
    }

    /// What the journal has done so far.
    ///
    /// # Errors
    /// The journal's.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.shared.store.stats().map_err(Error::from)
    }

    /// The counts that a program watches, cheap enough for a loop.
    ///
    /// # Errors
    /// The journal's.
    pub fn totals(&self) -> Result<Totals, Error> {
        self.shared.store.totals().map_err(Error::from)
    }

    /// Blocks that no file has, and neither has the directory. Those that a change has freed which
    /// is not durable yet are among them.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        let state = self.shared.read();
        let waiting = state.waiting.iter().map(|(_, count)| *count);
        waiting.fold(state.free.free(), u64::saturating_add)
    }

    /// The most bytes that a name has here: a quarter of a block, and 255 at most.
    #[must_use]
    pub fn name_max(&self) -> usize {
        self.shared.read().layout.name_max()
    }
}

/// Discards runs of blocks in the journal, and writes everything home.
fn discard(store: &dyn Store, runs: &[(u64, u64)]) -> Result<(), Error> {
    let blocks = runs.iter().flat_map(|(first, count)| *first..first.saturating_add(*count));
    let mut discards = blocks.map(|block| Operation::Discard(BlockNumber(block)));
    // However long the runs are, the operations of one transaction are in memory.
    let mut some = Vec::with_capacity(DISCARDED_AT_ONCE);
    loop {
        some.clear();
        some.extend(discards.by_ref().take(DISCARDED_AT_ONCE));
        if some.is_empty() {
            break;
        }
        store.commit(&some, Durability::Deferred)?;
    }
    store.sync()?;
    let unreadable = store.checkpoint()?.unreadable;
    if unreadable > 0 { Err(Error::Unreadable { blocks: unreadable }) } else { Ok(()) }
}

impl fmt::Debug for BlockFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, store) = (self.shared.read().files.len(), &self.shared.store);
        f.debug_struct("BlockFiles").field("files", &files).field("store", store).finish()
    }
}

/// An open file. Clones are handles to the same file.
#[derive(Clone)]
pub struct BlockFile {
    shared: Arc<Shared>,
    id: FileId,
}

impl BlockFile {
    /// Reads bytes from `at` on; returns how many the file has there. Holes are zero.
    ///
    /// # Errors
    /// `NotFound` where the file was removed, and the journal's.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, Error> {
        let state = self.shared.open_to_read()?;
        read(&state, &*self.shared.store, self.id, at, into)
    }

    /// Writes bytes at `at`. The file becomes longer where they end behind its end; what lies
    /// between the old end and `at` is zero. One transaction, which is not durable yet.
    ///
    /// # Errors
    /// `NotFound` where the file was removed; `NoRoom`, `TooFar`, `TooLarge`, and the journal's.
    pub fn write_at(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.shared.edit(Durability::Deferred, |edit| edit.write_bytes(self.id, at, bytes))
    }

    /// The length of the file.
    ///
    /// # Errors
    /// `NotFound` where the file was removed.
    pub fn len(&self) -> Result<u64, Error> {
        let state = self.shared.open_to_read()?;
        state.file(self.id).map(|file| file.len).ok_or(Error::NotFound)
    }

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// `NotFound` where the file was removed.
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or makes it longer: the new bytes are zero, and take no blocks. One
    /// transaction, which is not durable yet.
    ///
    /// # Errors
    /// `NotFound` where the file was removed; `TooFar`, and the journal's.
    pub fn set_len(&self, len: u64) -> Result<(), Error> {
        self.shared.edit(Durability::Deferred, |edit| edit.set_len(self.id, len))
    }

    /// Makes every change of every file durable: the journal is one for all.
    ///
    /// # Errors
    /// The journal's.
    pub fn sync(&self) -> Result<(), Error> {
        self.shared.sync()
    }
}

impl fmt::Debug for BlockFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.read();
        let file = state.file(self.id);
        let name = file.map(|file| file.name.as_str());
        f.debug_struct("BlockFile").field("name", &name).finish_non_exhaustive()
    }
}

/// A change of a batch.
enum Change<'b> {
    Create(FileId, &'b str),
    Remove(&'b str),
    Rename(&'b str, &'b str),
    Write(FileId, u64, &'b [u8]),
    SetLen(FileId, u64),
}

/// Changes of several files that become durable together. Nothing happens before
/// [`commit`](Self::commit), which makes them in the order in which they were named.
#[must_use = "nothing happens before it is committed"]
pub struct Batch<'b> {
    shared: &'b Arc<Shared>,
    changes: Vec<Change<'b>>,
}

impl<'b> Batch<'b> {
    fn with(mut self, change: Change<'b>) -> Self {
        self.changes.push(change);
        self
    }

    /// Makes a new file. The handle is for the rest of the batch, and for later: it answers
    /// `NotFound` until the batch is committed.
    pub fn create(&mut self, name: &'b str) -> BlockFile {
        let id = self.shared.new_id();
        self.changes.push(Change::Create(id, name));
        BlockFile { shared: Arc::clone(self.shared), id }
    }

    /// Removes a file.
    pub fn remove(self, name: &'b str) -> Self {
        self.with(Change::Remove(name))
    }

    /// Gives a file another name.
    pub fn rename(self, from: &'b str, to: &'b str) -> Self {
        self.with(Change::Rename(from, to))
    }

    /// Writes bytes of a file: see [`BlockFile::write_at`].
    pub fn write_at(self, file: &BlockFile, at: u64, bytes: &'b [u8]) -> Self {
        self.with(Change::Write(file.id, at, bytes))
    }

    /// Cuts a file or makes it longer: see [`BlockFile::set_len`].
    pub fn set_len(self, file: &BlockFile, len: u64) -> Self {
        self.with(Change::SetLen(file.id, len))
    }

    /// Makes all changes in one transaction, which is durable on return.
    ///
    /// # Errors
    /// The first change's that cannot be made, and the journal's. Then none was made.
    pub fn commit(self) -> Result<(), Error> {
        self.run(Durability::Durable)
    }

    /// Makes all changes in one transaction, which is not durable yet.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    pub fn commit_deferred(self) -> Result<(), Error> {
        self.run(Durability::Deferred)
    }

    fn run(self, durability: Durability) -> Result<(), Error> {
        let Self { shared, changes } = self;
        shared.edit(durability, |edit| {
            for change in &changes {
                match change {
                    Change::Create(id, name) => edit.create(*id, name)?,
                    Change::Remove(name) => edit.remove(edit.named(name)?)?,
                    Change::Rename(from, to) => edit.rename(edit.named(from)?, to)?,
                    Change::Write(id, at, bytes) => edit.write_bytes(*id, *at, bytes)?,
                    Change::SetLen(id, len) => edit.set_len(*id, *len)?,
                }
            }
            Ok(())
        })
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("changes", &self.changes.len()).finish_non_exhaustive()
    }
}
