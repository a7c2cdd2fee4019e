//! What a transaction of SQLite with a rollback journal asks of a file system that journals data.
//!
//! 1. The rollback journal gets the old images of all pages that the transaction has changed, and
//!    an fsync.
//! 2. Its header gets their number, and an fsync.
//! 3. The database gets the new images, and an fsync.
//! 4. The rollback journal goes: it is cut to nothing, with an fsync; or it is deleted, and the
//!    next commit has that.
//!
//! Each fsync is a commit of the file system: data, inode, bitmaps, descriptors, directory.

use std::collections::{BTreeMap, BTreeSet};

use journal_core::BlockSize;

use crate::papers::BLOCK;
use crate::papers::files::fs::{Changes, Directories, FileSystem};
use crate::papers::generators::database::{Changed, PagedDatabase};
use crate::trace::writer::TraceWriter;
use crate::trace::{Image, State, class, flag};

/// Files of the file system: the database, and its rollback journal.
const DATABASE: usize = 0;
const JOURNAL: usize = 1;
const FILES: u64 = 64;
/// The header of a rollback journal has a sector. A page in it has its number before, and a sum
/// behind.
const SECTOR_BYTES: usize = 512;
const MAGIC: [u8; 8] = [0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7];
const SUPERBLOCK: u64 = 0;

/// How a rollback journal goes when its transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollbackEnd {
    Truncate,
    Delete,
}

/// A write of a commit: the block, its class and flags, and its image.
type FsWrite = (u64, u8, u8, Image);

/// A commit of the file system that is being made.
#[derive(Default)]
struct FsCommit {
    data: BTreeMap<u64, (Image, bool)>,
    metadata: BTreeSet<u64>,
}

/// A database on a phone, and the commits of its file system so far.
pub struct Phone {
    pub database: PagedDatabase,
    fs: FileSystem,
    end: RollbackEnd,
    state: State,
    /// Blocks in use when the recording began, and what they held; empty before.
    begun: Option<State>,
    commits: Vec<Vec<FsWrite>>,
    /// What the next commit has beside its own: a deleted rollback journal.
    next: FsCommit,
}

impl Phone {
    /// A phone with a database as it is, and this number of blocks for all else.
    pub fn new(mut database: PagedDatabase, end: RollbackEnd, free_blocks: u64) -> Self {
        let pages = database.commit().counts.1;
        let mut fs = FileSystem::new(FILES, pages as u64, Directories::One);
        let mut phone_commit = FsCommit::default();
        for changes in [fs.create(DATABASE), fs.append(DATABASE, pages as u64)] {
            phone_commit.take(&changes);
        }
        fs.leave_free(free_blocks);
        let mut phone = Self {
            database,
            fs,
            end,
            state: State::new(),
            begun: None,
            commits: Vec::new(),
            next: FsCommit::default(),
        };
        for page in 0..pages as u32 {
            let image = phone.database.image(page).into();
            phone_commit.data.insert(phone.block_of(DATABASE, page.into()), (image, true));
        }
        if end == RollbackEnd::Truncate {
            phone_commit.take(&phone.fs.create(JOURNAL));
        }
        phone.commit_to_fs(phone_commit);
        phone
    }

    fn block_of(&self, file: usize, at: u64) -> u64 {
        let runs = self.fs.blocks_of(file, at, 1);
        runs.first().map_or(SUPERBLOCK, |(block, _)| *block)
    }

    fn commit_to_fs(&mut self, commit: FsCommit) {
        let mut written = Vec::new();
        let zero: Image = vec![0; BLOCK].into();
        let mut put = |block, class, flags, image: Image, state: &mut State| {
            let old = state.insert(block, image.clone());
            let is_same = old.as_ref().unwrap_or(&zero) == &image;
            written.push((block, class, flags | if is_same { flag::SAME } else { 0 }, image));
        };
        for block in commit.metadata {
            let image = self.fs.image(block).into();
            put(block, FileSystem::class_of(block), 0, image, &mut self.state);
        }
        for (block, (image, is_new)) in commit.data {
            let flags = if is_new { flag::NEW } else { 0 };
            put(block, class::FILE_DATA, flags, image, &mut self.state);
        }
        if self.begun.is_some() {
            self.commits.push(written);
        }
    }

    /// From here on commits are recorded.
    pub fn record(&mut self) {
        self.begun = Some(self.state.clone());
    }

    pub fn commits(&self) -> usize {
        self.commits.len()
    }

    /// Ends a transaction of the database, and makes the commits that it takes.
    pub fn commit(&mut self) {
        if self.database.is_unchanged() {
            return;
        }
        let Changed { pages, counts } = self.database.commit();
        // 1. The rollback journal.
        let mut commit = core::mem::take(&mut self.next);
        if self.end == RollbackEnd::Delete {
            commit.take(&self.fs.create(JOURNAL));
        }
        let mut content = vec![0; SECTOR_BYTES];
        content[16..20].copy_from_slice(&(counts.0 as u32).to_be_bytes());
        content[20..24].copy_from_slice(&(SECTOR_BYTES as u32).to_be_bytes());
        content[24..28].copy_from_slice(&(BLOCK as u32).to_be_bytes());
        let old = pages.iter().filter_map(|(page, old)| Some((page, old.as_ref()?)));
        let mut count = 0_u32;
        for (page, old) in old {
            content.extend(page.to_be_bytes());
            content.extend(old);
            content.extend(crc32fast::hash(old).to_be_bytes());
            count += 1;
        }
        let blocks = content.len().div_ceil(BLOCK);
        content.resize(blocks * BLOCK, 0);
        let changes = self.fs.append(JOURNAL, blocks as u64);
        commit.take(&changes);
        for (block, image) in changes.new.iter().zip(content.chunks(BLOCK)) {
            commit.data.insert(*block, (image.into(), true));
        }
        self.commit_to_fs(commit);
        // 2. Its header.
        let mut commit = FsCommit::default();
        content[..8].copy_from_slice(&MAGIC);
        content[8..12].copy_from_slice(&count.to_be_bytes());
        let head = self.block_of(JOURNAL, 0);
        commit.data.insert(head, (content[..BLOCK].into(), false));
        self.commit_to_fs(commit);
        // 3. The database.
        let mut commit = FsCommit::default();
        let new = (counts.1 - counts.0) as u64;
        let changes = if new > 0 { self.fs.append(DATABASE, new) } else { self.fs.touch(DATABASE) };
        commit.take(&changes);
        for (page, old) in &pages {
            let block = self.block_of(DATABASE, (*page).into());
            commit.data.insert(block, (self.database.image(*page).into(), old.is_none()));
        }
        self.commit_to_fs(commit);
        // 4. The rollback journal goes. The superblock has it in its list meanwhile, and at the
        // end it is as it was.
        let changes = match self.end {
            RollbackEnd::Truncate => self.fs.truncate(JOURNAL),
            RollbackEnd::Delete => self.fs.delete(JOURNAL),
        };
        let mut commit = FsCommit::default();
        commit.take(&changes);
        commit.metadata.insert(SUPERBLOCK);
        match self.end {
            RollbackEnd::Truncate => self.commit_to_fs(commit),
            RollbackEnd::Delete => self.next = commit,
        }
    }

    /// The commits as a trace.
    pub fn into_trace(self, name: &str) -> Vec<u8> {
        let begun = self.begun.unwrap_or_default();
        let touched = self.commits.iter().flatten().map(|(block, ..)| *block);
        let blocks: BTreeSet<u64> = touched.chain(begun.keys().copied()).collect();
        let mut writer = TraceWriter::new(name, BlockSize::DEFAULT, self.fs.block_count());
        for block in blocks {
            writer.base(block, begun.get(&block).map(|image| &image[..]));
        }
        for (number, commit) in (1..).zip(self.commits) {
            writer.begin(number);
            for (block, class, flags, image) in commit {
                // What a file has got since was not there when the recording began.
                let is_known = begun.contains_key(&block) || class != class::FILE_DATA;
                let since = if is_known { 0 } else { flag::NEW_IN_TRACE };
                writer.write(block, class, flags | since, &image);
            }
            writer.commit(number);
        }
        writer.end();
        writer.into_file()
    }
}

impl FsCommit {
    fn take(&mut self, changes: &Changes) {
        self.metadata.extend(changes.metadata.iter().map(|patch| patch.block));
    }
}
