//! A tiny file system with the geometry of ext4: real bytes of metadata, and which blocks an
//! operation changes. It knows neither time nor a journal.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use sim_disk::Rng;

use crate::papers::BLOCK;
use crate::trace::class;

/// Blocks of a group, and of groups that share one place for bitmaps and inode tables.
const GROUP_BLOCKS: u64 = 32_768;
const SHARING: u64 = 16;
/// Inodes of a group: one for each 16 KiB.
const GROUP_INODES: u64 = GROUP_BLOCKS * 4 / 16;
/// Inodes and blocks of the groups that share a place.
const SHARED_INODES: u64 = SHARING * GROUP_INODES;
const SHARED_BLOCKS: u64 = SHARING * GROUP_BLOCKS;
pub const INODE_BYTES: usize = 256;
const INODES_A_BLOCK: u64 = (BLOCK / INODE_BYTES) as u64;
pub const DESCRIPTOR_BYTES: usize = 64;
const DESCRIPTORS_A_BLOCK: u64 = (BLOCK / DESCRIPTOR_BYTES) as u64;
const ENTRY_BYTES: usize = 32;
/// Where the shared place has the bitmaps of blocks, those of inodes, and the inode tables.
const BLOCK_BITMAPS: u64 = 64;
const INODE_BITMAPS: u64 = BLOCK_BITMAPS + SHARING;
const INODE_TABLES: u64 = INODE_BITMAPS + SHARING;
const PLACE_BLOCKS: u64 = INODE_TABLES + SHARING * GROUP_INODES / INODES_A_BLOCK;
/// Files up to this size lie one behind the other.
const SMALL_BLOCKS: u64 = 16;
/// Files of a directory, where there are many. Directories and inodes lie close together, as ext4
/// packs them; large files have blocks in all groups.
const FILES_A_DIRECTORY: u64 = 20;
/// Files for each block of the one directory.
const FILES_A_HASHED_BLOCK: u64 = 100;
/// The part of an inode that its file's life changes.
const INODE_FROM: usize = 4;
const INODE_TO: usize = 160;

/// One directory, or one for every few files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directories {
    One,
    Many,
}

/// A range of a block of metadata that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patched {
    pub block: u64,
    pub at: usize,
    pub len: usize,
    /// The size of the objects in the block, or zero.
    pub object_bytes: u32,
}

/// What an operation changes.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub metadata: Vec<Patched>,
    /// Blocks that a file has got: content will follow.
    pub new: Vec<u64>,
    pub freed: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
pub struct FileState {
    inode: u64,
    directory: u64,
    entry: u64,
    pub extents: Vec<(u64, u64)>,
    pub blocks: u64,
    /// When it was last changed, as a number of operations.
    changed: u64,
    pub exists: bool,
}

#[derive(Debug)]
pub struct FileSystem {
    directories: Directories,
    groups: u64,
    /// One bit for each block in use.
    used: Vec<u64>,
    /// Free inodes; of each place, where there are many directories.
    free_inodes: Vec<BinaryHeap<Reverse<u64>>>,
    /// Directories with one place, where there are many.
    directories_a_place: u64,
    inode_users: BTreeMap<u64, usize>,
    pub files: Vec<FileState>,
    directory_blocks: u64,
    metadata: BTreeMap<u64, Box<[u8]>>,
    /// Where small files go next, and large ones in each group.
    cursor: u64,
    cursors: Vec<u64>,
    operations: u64,
    /// While the first files are made: no block of metadata is then made for them.
    is_filling: bool,
}

impl FileSystem {
    /// A file system for `files` files of `file_blocks` blocks on average; none exists.
    pub fn new(files: u64, file_blocks: u64, directories: Directories) -> Self {
        // Files grow; half of the blocks are free.
        let data = files * file_blocks * 2 + files / FILES_A_DIRECTORY + GROUP_BLOCKS;
        let by_data = data.div_ceil(GROUP_BLOCKS * 15 / 16);
        let groups = by_data.max((files + files / 16).div_ceil(GROUP_INODES)) + 1;
        let mut fs = Self {
            directories,
            groups,
            used: vec![0; (groups * GROUP_BLOCKS / 64) as usize],
            free_inodes: Vec::new(),
            directories_a_place: 1,
            inode_users: BTreeMap::new(),
            files: vec![FileState::default(); files as usize],
            directory_blocks: 0,
            metadata: BTreeMap::new(),
            cursor: 0,
            cursors: (0..groups).map(|group| group * GROUP_BLOCKS).collect(),
            operations: 0,
            is_filling: false,
        };
        for group in (0..groups).step_by(SHARING as usize) {
            (0..PLACE_BLOCKS).for_each(|block| fs.set(group * GROUP_BLOCKS + block, true));
        }
        fs.directory_blocks = match directories {
            Directories::One => files.div_ceil(FILES_A_HASHED_BLOCK),
            Directories::Many => files.div_ceil(FILES_A_DIRECTORY),
        };
        // ext4 keeps a directory where its parent is, until a place has a quarter of its inodes
        // more in use than the average place.
        let places = groups.div_ceil(SHARING);
        let used = files.div_ceil(SHARED_INODES / 4 + files / places).clamp(1, places);
        fs.directories_a_place = match directories {
            Directories::One => 1,
            Directories::Many => fs.directory_blocks.div_ceil(used),
        };
        // The first inodes of a place are those of its directories.
        let of_directories = fs.directories_a_place;
        let last = groups * GROUP_INODES;
        let inodes = |place: u64| {
            let all = place * SHARED_INODES..((place + 1) * SHARED_INODES).min(last);
            all.skip(of_directories as usize).map(Reverse).collect::<BinaryHeap<_>>()
        };
        fs.free_inodes = match directories {
            Directories::One => vec![(of_directories..last).map(Reverse).collect()],
            Directories::Many => (0..places).map(inodes).collect(),
        };
        for directory in 0..fs.directory_blocks {
            fs.set(fs.directory_block(directory), true);
        }
        fs
    }

    pub const fn block_count(&self) -> u64 {
        self.groups * GROUP_BLOCKS
    }

    /// Keeps blocks from files: the journal's, in the middle, where ext4 has it. Returns the first.
    pub fn reserve_middle(&mut self, blocks: u64) -> u64 {
        // Behind what several groups share.
        let first = self.groups / 2 / SHARING * SHARING * GROUP_BLOCKS + PLACE_BLOCKS;
        // Behind the directories too.
        let first = first + self.directory_blocks.min(GROUP_BLOCKS / 4);
        (first..first + blocks).for_each(|block| self.set(block, true));
        first
    }

    /// Makes a part of the files, at random, as if they had always been there.
    pub fn fill(&mut self, rng: &mut Rng, percent: u64, blocks: impl Fn(&mut Rng) -> u64) {
        self.is_filling = true;
        for file in 0..self.files.len() {
            if rng.below(100) < percent {
                let blocks = blocks(rng);
                self.create(file);
                if blocks > 0 {
                    self.append(file, blocks);
                }
            }
        }
        self.is_filling = false;
    }

    // Where things lie.

    fn place(group: u64) -> u64 {
        group / SHARING * SHARING * GROUP_BLOCKS
    }

    fn inode_block(inode: u64) -> u64 {
        let (group, index) = (inode / GROUP_INODES, inode % GROUP_INODES);
        let table = group % SHARING * (GROUP_INODES / INODES_A_BLOCK);
        Self::place(group) + INODE_TABLES + table + index / INODES_A_BLOCK
    }

    fn directory_group(&self, directory: u64) -> u64 {
        match self.directories {
            Directories::One => 0,
            Directories::Many => directory % self.groups,
        }
    }

    /// The place where a directory and the inodes of its files are, one behind the other.
    const fn directory_place(&self, directory: u64) -> u64 {
        directory / self.directories_a_place
    }

    const fn directory_block(&self, directory: u64) -> u64 {
        match self.directories {
            Directories::One => PLACE_BLOCKS + directory,
            Directories::Many => {
                let place = self.directory_place(directory) * SHARED_BLOCKS;
                place + PLACE_BLOCKS + directory % self.directories_a_place
            }
        }
    }

    const fn directory_inode(&self, directory: u64) -> u64 {
        match self.directories {
            Directories::One => 0,
            Directories::Many => {
                let place = self.directory_place(directory) * SHARED_INODES;
                place + directory % self.directories_a_place
            }
        }
    }

    // Bits.

    fn is_used(&self, block: u64) -> bool {
        self.used[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    fn set(&mut self, block: u64, used: bool) {
        let word = &mut self.used[(block / 64) as usize];
        let bit = 1 << (block % 64);
        *word = if used { *word | bit } else { *word & !bit };
    }

    /// The first free run of `count` blocks from `from` on, and round the end.
    fn find(&self, from: u64, count: u64) -> Option<u64> {
        let end = self.block_count();
        let (mut at, mut run, mut left) = (from, 0, end + count);
        while left > 0 {
            if at == end {
                (at, run) = (0, 0);
            }
            if at % 64 == 0 && self.used[(at / 64) as usize] == u64::MAX {
                (at, run) = (at + 64, 0);
                left = left.saturating_sub(64);
                continue;
            }
            run = if self.is_used(at) { 0 } else { run + 1 };
            at += 1;
            left -= 1;
            if run == count {
                return Some(at - count);
            }
        }
        None
    }

    /// Takes `count` blocks for a file of a directory.
    fn allocate(&mut self, directory: u64, count: u64, is_small: bool) -> Vec<(u64, u64)> {
        let group = self.directory_group(directory) as usize;
        let mut extents = Vec::new();
        let (mut left, mut most) = (count, count);
        while left > 0 {
            let cursor = if is_small { self.cursor } else { self.cursors[group] };
            let Some(first) = self.find(cursor, left.min(most)) else {
                assert!(most > 1, "the file system is full");
                most /= 2;
                continue;
            };
            let got = left.min(most);
            (first..first + got).for_each(|block| self.set(block, true));
            if is_small {
                self.cursor = first + got;
            } else {
                self.cursors[group] = first + got;
            }
            extents.push((first, got));
            left -= got;
        }
        extents
    }

    // Bytes.

    /// The image of a block of metadata.
    pub fn image(&self, block: u64) -> &[u8] {
        self.metadata.get(&block).map_or(&[0; BLOCK], |image| image)
    }

    /// Whether a block that was changed holds metadata.
    pub fn is_metadata(&self, block: u64) -> bool {
        self.metadata.contains_key(&block)
    }

    fn bytes(&mut self, block: u64) -> &mut [u8] {
        self.metadata.entry(block).or_insert_with(|| vec![0; BLOCK].into())
    }

    /// A block of inodes that changes for the first time is filled with what was there before.
    fn patch_inode(&mut self, inode: u64, state: Option<&FileState>, changes: &mut Changes) {
        if self.is_filling {
            return;
        }
        let (block, stamp) = (Self::inode_block(inode), self.operations);
        if !self.metadata.contains_key(&block) {
            let first = inode / INODES_A_BLOCK * INODES_A_BLOCK;
            let mut image = vec![0; BLOCK];
            for (inode, bytes) in (first..).zip(image.chunks_mut(INODE_BYTES)) {
                if let Some(file) = self.inode_users.get(&inode) {
                    encode(&self.files[*file], self.files[*file].changed, bytes);
                }
            }
            self.metadata.insert(block, image.into());
        }
        let at = (inode % INODES_A_BLOCK) as usize * INODE_BYTES;
        let bytes = &mut self.bytes(block)[at..at + INODE_BYTES];
        match state {
            Some(state) => encode(state, stamp, bytes),
            // A directory: its times.
            None => bytes[8..24].iter_mut().for_each(|byte| *byte = byte.wrapping_add(1)),
        }
        let (from, to) = if state.is_some() { (INODE_FROM, INODE_TO) } else { (8, 24) };
        let (at, len) = (at + from, to - from);
        changes.metadata.push(Patched { block, at, len, object_bytes: INODE_BYTES as u32 });
    }

    fn patch_file(&mut self, file: usize, changes: &mut Changes) {
        let state = self.files[file].clone();
        self.patch_inode(state.inode, Some(&state), changes);
        self.files[file].changed = self.operations;
    }

    fn patch_descriptor(&mut self, group: u64, changes: &mut Changes) {
        if self.is_filling {
            return;
        }
        let (block, stamp) = (1 + group / DESCRIPTORS_A_BLOCK, self.operations);
        let at = (group % DESCRIPTORS_A_BLOCK) as usize * DESCRIPTOR_BYTES;
        let bytes = &mut self.bytes(block)[at + 12..at + 32];
        // Free blocks and inodes, and checks of the bitmaps.
        bytes[..8].copy_from_slice(&stamp.to_le_bytes());
        bytes[12..].copy_from_slice(&stamp.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        let object_bytes = DESCRIPTOR_BYTES as u32;
        changes.metadata.push(Patched { block, at: at + 12, len: 20, object_bytes });
    }

    fn patch_inode_bitmap(&mut self, inode: u64, used: bool, changes: &mut Changes) {
        if self.is_filling {
            return;
        }
        let (group, index) = (inode / GROUP_INODES, (inode % GROUP_INODES) as usize);
        let block = Self::place(group) + INODE_BITMAPS + group % SHARING;
        let byte = &mut self.bytes(block)[index / 8];
        let bit = 1 << (index % 8);
        *byte = if used { *byte | bit } else { *byte & !bit };
        changes.metadata.push(Patched { block, at: index / 8, len: 1, object_bytes: 0 });
        self.patch_descriptor(group, changes);
    }

    /// Bits of the bitmap of blocks, as they are now.
    fn patch_block_bitmap(&mut self, first: u64, count: u64, changes: &mut Changes) {
        if self.is_filling {
            return;
        }
        let mut at = first;
        while at < first + count {
            let group = at / GROUP_BLOCKS;
            let end = (first + count).min((group + 1) * GROUP_BLOCKS);
            let block = Self::place(group) + BLOCK_BITMAPS + group % SHARING;
            let base = group * GROUP_BLOCKS;
            let is_known = self.metadata.contains_key(&block);
            let (from, to) = ((at - base) / 8, (end - base).div_ceil(8));
            let filled = if is_known { from..to } else { 0..GROUP_BLOCKS / 8 };
            for byte in filled {
                let word = self.used[((base + byte * 8) / 64) as usize];
                self.bytes(block)[byte as usize] = word.to_le_bytes()[(byte % 8) as usize];
            }
            let (at_byte, len) = (from as usize, (to - from) as usize);
            changes.metadata.push(Patched { block, at: at_byte, len, object_bytes: 0 });
            self.patch_descriptor(group, changes);
            at = end;
        }
    }

    fn patch_entry(&mut self, file: usize, changes: &mut Changes) {
        if self.is_filling {
            return;
        }
        let FileState { directory, entry, inode, exists, .. } = self.files[file];
        let block = self.directory_block(directory);
        let at = entry as usize * ENTRY_BYTES;
        let bytes = &mut self.bytes(block)[at..at + ENTRY_BYTES];
        let number = if exists { inode } else { 0 };
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..16].copy_from_slice(&(file as u64).to_le_bytes());
        changes.metadata.push(Patched { block, at, len: ENTRY_BYTES, object_bytes: 0 });
    }

    // Operations.

    /// Makes a file that is not there.
    pub fn create(&mut self, file: usize) -> Changes {
        self.operations += 1;
        let mut changes = Changes::default();
        let number = file as u64;
        let (directory, entry) = match self.directories {
            // By a hash of its name.
            Directories::One => {
                let hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
                (hash % self.directory_blocks, hash / self.directory_blocks)
            }
            Directories::Many => (number / FILES_A_DIRECTORY, number % FILES_A_DIRECTORY),
        };
        let entry = entry % (BLOCK / ENTRY_BYTES) as u64;
        let heap = match self.directories {
            Directories::One => 0,
            Directories::Many => self.directory_place(directory) as usize,
        };
        let own = self.free_inodes[heap].pop();
        let other = || self.free_inodes.iter_mut().find_map(BinaryHeap::pop);
        let Reverse(inode) = own.or_else(other).expect("there are enough inodes");
        self.inode_users.insert(inode, file);
        let changed = self.operations;
        self.files[file] =
            FileState { inode, directory, entry, changed, exists: true, ..FileState::default() };
        self.patch_file(file, &mut changes);
        self.patch_entry(file, &mut changes);
        let parent = match self.directories {
            Directories::One => self.directory_inode(0),
            Directories::Many => self.directory_inode(directory),
        };
        self.patch_inode(parent, None, &mut changes);
        self.patch_inode_bitmap(inode, true, &mut changes);
        changes
    }

    /// Adds blocks to a file.
    pub fn append(&mut self, file: usize, blocks: u64) -> Changes {
        self.operations += 1;
        let mut changes = Changes::default();
        let FileState { directory, blocks: before, .. } = self.files[file];
        let extents = self.allocate(directory, blocks, before + blocks <= SMALL_BLOCKS);
        for (first, count) in extents {
            changes.new.extend(first..first + count);
            let known = &mut self.files[file].extents;
            match known.last_mut().filter(|(at, some)| at + some == first) {
                Some((_, some)) => *some += count,
                None => known.push((first, count)),
            }
            self.patch_block_bitmap(first, count, &mut changes);
        }
        self.files[file].blocks += blocks;
        self.patch_file(file, &mut changes);
        changes
    }

    /// The time of a change inside a file.
    pub fn touch(&mut self, file: usize) -> Changes {
        self.operations += 1;
        let mut changes = Changes::default();
        self.patch_file(file, &mut changes);
        changes
    }

    pub fn delete(&mut self, file: usize) -> Changes {
        self.operations += 1;
        let mut changes = Changes::default();
        let state = self.files[file].clone();
        let extents = core::mem::take(&mut self.files[file].extents);
        (self.files[file].exists, self.files[file].blocks) = (false, 0);
        self.patch_file(file, &mut changes);
        self.patch_entry(file, &mut changes);
        let parent = match self.directories {
            Directories::One => self.directory_inode(0),
            Directories::Many => self.directory_inode(state.directory),
        };
        self.patch_inode(parent, None, &mut changes);
        self.patch_inode_bitmap(state.inode, false, &mut changes);
        self.give_back(extents, &mut changes);
        self.inode_users.remove(&state.inode);
        let heap = match self.directories {
            Directories::One => 0,
            Directories::Many => (state.inode / SHARED_INODES) as usize,
        };
        self.free_inodes[heap].push(Reverse(state.inode));
        changes
    }

    /// Takes all blocks from a file, which stays.
    pub fn truncate(&mut self, file: usize) -> Changes {
        self.operations += 1;
        let mut changes = Changes::default();
        let extents = core::mem::take(&mut self.files[file].extents);
        self.files[file].blocks = 0;
        self.patch_file(file, &mut changes);
        self.give_back(extents, &mut changes);
        changes
    }

    fn give_back(&mut self, extents: Vec<(u64, u64)>, changes: &mut Changes) {
        for (first, count) in extents {
            (first..first + count).for_each(|block| self.set(block, false));
            changes.freed.extend(first..first + count);
            self.patch_block_bitmap(first, count, changes);
        }
    }

    /// Keeps all free blocks from files, except for the first ones: a disk that is nearly full.
    pub fn leave_free(&mut self, mut left: u64) {
        for block in 0..self.block_count() {
            if !self.is_used(block) {
                self.set(block, left == 0);
                left = left.saturating_sub(1);
            }
        }
    }

    /// The class of a block of metadata, as traces have it.
    pub const fn class_of(block: u64) -> u8 {
        match block % SHARED_BLOCKS {
            0 => class::SUPERBLOCK,
            1..BLOCK_BITMAPS => class::GROUP_DESCRIPTORS,
            BLOCK_BITMAPS..INODE_BITMAPS => class::BLOCK_BITMAP,
            INODE_BITMAPS..INODE_TABLES => class::INODE_BITMAP,
            INODE_TABLES..PLACE_BLOCKS => class::INODES,
            _ => class::DIRECTORY,
        }
    }

    /// The block that holds a file's inode, and the one that holds its entry.
    pub fn own_blocks(&self, file: usize) -> (u64, u64) {
        let state = &self.files[file];
        (Self::inode_block(state.inode), self.directory_block(state.directory))
    }

    /// Blocks `from..from + count` of a file, as runs.
    pub fn blocks_of(&self, file: usize, from: u64, count: u64) -> Vec<(u64, u64)> {
        let (mut at, mut runs) = (0, Vec::new());
        for (first, some) in &self.files[file].extents {
            let (start, end) = (from.max(at), (from + count).min(at + some));
            if start < end {
                runs.push((first + start - at, end - start));
            }
            at += some;
        }
        runs
    }
}

/// The bytes of an inode: size, times, blocks and extents.
fn encode(state: &FileState, stamp: u64, bytes: &mut [u8]) {
    let mut put = |at: usize, number: u32| {
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    };
    put(0, 0x81A4);
    put(4, state.blocks as u32 * BLOCK as u32);
    let time = stamp as u32;
    [8, 12, 16].into_iter().for_each(|at| put(at, time));
    put(20, if state.exists { 0 } else { time });
    put(26, u32::from(state.exists));
    put(28, state.blocks as u32 * 8);
    put(40, 0xF30A | (state.extents.len() as u32) << 16);
    let mut logical = 0;
    for (index, (first, count)) in state.extents.iter().take(4).enumerate() {
        let at = 52 + 12 * index;
        put(at, logical);
        put(at + 4, *count as u32);
        put(at + 8, *first as u32);
        logical += *count as u32;
    }
    put(124, time.wrapping_mul(0x9E37_79B9));
    [132, 136, 140].into_iter().for_each(|at| put(at, time.wrapping_mul(0x85EB_CA6B)));
    put(156, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_created_and_deleted_leaves_no_block_in_use() {
        for directories in [Directories::One, Directories::Many] {
            let mut fs = FileSystem::new(1_000, 3, directories);
            let before = fs.used.clone();
            let mut rng = Rng::new(1);
            fs.fill(&mut rng, 80, |_| 3);
            let there: Vec<_> = (0..1_000).filter(|file| fs.files[*file].exists).collect();
            assert!((700..900).contains(&there.len()));
            let changes = fs.append(there[0], 20);
            assert_eq!(changes.new.len(), 20);
            assert!(changes.metadata.iter().all(|patch| patch.at + patch.len <= BLOCK));
            for file in there {
                let changes = fs.delete(file);
                assert!(changes.freed.len() >= 3 && changes.metadata.len() >= 6);
            }
            assert_eq!(fs.used, before);
        }
    }

    #[test]
    fn a_file_is_where_its_extents_say() {
        let mut fs = FileSystem::new(100, 8, Directories::Many);
        fs.create(3);
        let first = fs.append(3, 4).new;
        fs.create(5);
        fs.append(5, 4);
        let second = fs.append(3, 4).new;
        assert_eq!(fs.blocks_of(3, 2, 4), [(first[2], 2), (second[0], 2)]);
    }
}
