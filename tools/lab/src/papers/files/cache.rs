//! The host's page cache: which files are in memory, and which of their blocks wait to be written.

use std::collections::BTreeMap;

/// A block of data that is not on the disk yet.
#[derive(Clone, Copy, Debug)]
pub struct Dirty {
    pub block: u64,
    pub version: u64,
    /// Whether the block is new in its file: metadata that is not committed yet names it.
    is_new: bool,
    since: u64,
}

/// What is kept of a file: when it was last used, and how many blocks are there.
#[derive(Clone, Copy, Debug, Default)]
struct InCache {
    stamp: u64,
    blocks: u64,
}

#[derive(Debug)]
pub struct PageCache {
    capacity: u64,
    used: u64,
    kept: Vec<InCache>,
    by_use: BTreeMap<u64, usize>,
    stamp: u64,
    /// By the file, in the order in which files were dirtied first, and by block.
    dirty: BTreeMap<(u64, u64), Dirty>,
    order_of_block: BTreeMap<u64, u64>,
    order_of_file: BTreeMap<usize, u64>,
}

impl PageCache {
    pub fn new(capacity: u64, files: usize) -> Self {
        Self {
            capacity,
            used: 0,
            kept: vec![InCache::default(); files],
            by_use: BTreeMap::new(),
            stamp: 0,
            dirty: BTreeMap::new(),
            order_of_block: BTreeMap::new(),
            order_of_file: BTreeMap::new(),
        }
    }

    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// A file is used, and has `more` blocks in the cache now.
    pub fn touch(&mut self, file: usize, more: u64) {
        self.stamp += 1;
        let kept = &mut self.kept[file];
        if kept.blocks > 0 {
            self.by_use.remove(&kept.stamp);
        }
        (kept.stamp, kept.blocks) = (self.stamp, kept.blocks + more);
        self.used += more;
        if kept.blocks > 0 {
            self.by_use.insert(self.stamp, file);
        }
        while self.used > self.capacity {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.used -= self.kept[oldest].blocks;
            self.kept[oldest].blocks = 0;
        }
    }

    /// Blocks of a file that are in the cache.
    pub fn blocks_of(&self, file: usize) -> u64 {
        self.kept[file].blocks
    }

    /// A file is gone.
    pub fn forget(&mut self, file: usize, blocks: &[u64]) {
        let kept = &mut self.kept[file];
        if kept.blocks > 0 {
            self.by_use.remove(&kept.stamp);
            self.used -= kept.blocks;
            kept.blocks = 0;
        }
        for block in blocks {
            if let Some(order) = self.order_of_block.remove(block) {
                self.dirty.remove(&(order, *block));
            }
        }
        self.order_of_file.remove(&file);
    }

    pub fn is_full(&self) -> bool {
        self.used >= self.capacity
    }

    // What waits to be written.

    pub fn dirty(&mut self, file: usize, (block, version, is_new): (u64, u64, bool), now: u64) {
        self.stamp += 1;
        let order = *self.order_of_file.entry(file).or_insert(self.stamp);
        if let Some(known) = self.order_of_block.insert(block, order) {
            let key = (known, block);
            let before = self.dirty.remove(&key);
            let since = before.map_or(now, |dirty| dirty.since);
            let is_new = is_new || before.is_some_and(|dirty| dirty.is_new);
            self.dirty.insert((order, block), Dirty { block, version, is_new, since });
        } else {
            self.dirty.insert((order, block), Dirty { block, version, is_new, since: now });
        }
    }

    pub fn dirty_blocks(&self) -> u64 {
        self.dirty.len() as u64
    }

    /// Takes what a file has dirty.
    pub fn take_file(&mut self, file: usize) -> Vec<Dirty> {
        let Some(order) = self.order_of_file.remove(&file) else { return Vec::new() };
        let of_file = self.dirty.range((order, 0)..(order + 1, 0));
        let taken: Vec<_> = of_file.map(|(_, dirty)| *dirty).collect();
        for dirty in &taken {
            self.dirty.remove(&(order, dirty.block));
            self.order_of_block.remove(&dirty.block);
        }
        taken
    }

    /// Takes the blocks that are new in their files.
    pub fn take_new(&mut self) -> Vec<Dirty> {
        let new: Vec<_> = self.dirty.iter().filter(|(_, dirty)| dirty.is_new).collect();
        let new: Vec<_> = new.into_iter().map(|(key, dirty)| (*key, *dirty)).collect();
        for (key, _) in &new {
            self.dirty.remove(key);
            self.order_of_block.remove(&key.1);
        }
        new.into_iter().map(|(_, dirty)| dirty).collect()
    }

    /// Takes what is older than `old`, and more until at most `most` blocks are left.
    pub fn take_due(&mut self, now: u64, old: u64, most: u64) -> Vec<Dirty> {
        let mut taken = Vec::new();
        while let Some(((order, block), dirty)) = self.dirty.first_key_value() {
            let (order, block, dirty) = (*order, *block, *dirty);
            let is_due = now.saturating_sub(dirty.since) > old;
            if !is_due && self.dirty.len() as u64 <= most {
                break;
            }
            self.dirty.remove(&(order, block));
            self.order_of_block.remove(&block);
            taken.push(dirty);
        }
        // A file of which all is written begins anew.
        if !taken.is_empty() {
            let first = self.dirty.first_key_value().map_or(u64::MAX, |((order, _), _)| *order);
            self.order_of_file.retain(|_, order| *order >= first);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_leave_by_last_use_and_blocks_by_file() {
        let mut cache = PageCache::new(10, 4);
        cache.touch(0, 4);
        cache.touch(1, 4);
        cache.touch(0, 0);
        cache.touch(2, 4);
        assert_eq!([0, 1, 2].map(|file| cache.blocks_of(file)), [4, 0, 4]);
        cache.dirty(2, (90, 1, true), 5);
        cache.dirty(0, (50, 1, false), 6);
        cache.dirty(2, (80, 1, false), 7);
        let blocks = |taken: Vec<Dirty>| taken.iter().map(|one| one.block).collect::<Vec<_>>();
        assert_eq!(blocks(cache.take_new()), [90]);
        cache.dirty(2, (90, 2, true), 8);
        assert_eq!(blocks(cache.take_due(7, 100, 1)), [80, 90]);
        assert_eq!(blocks(cache.take_file(0)), [50]);
        assert_eq!(cache.dirty_blocks(), 0);
    }
}
