//! The table of what a cache keeps, by block.
//!
//! An entry is a line of memory, free or in use. A block's entry is the one that the block's number
//! leads to, or one of the next. So its line can be brought into the caches before the block is
//! looked for. Between the first one and the block's own no entry is free
//! ([`remove`](KeptTable::remove) sees to that). At least half of the entries are free, so a search
//! for a block that is not there is short too.

use journal_core::{BlockNumber, LINE_BYTES};

use crate::shared::cache::kept::Kept;

const _: () = assert!(size_of::<Option<Kept>>() == LINE_BYTES, "one line");

/// The first table of a cache has this many entries.
const FIRST_ENTRIES: usize = 8;

/// How many entries a table has for this number of kept blocks.
const fn entries_for(kept: usize) -> usize {
    kept.saturating_mul(2).saturating_add(1)
}

/// Mixes the number of a block; the upper bits choose its entry. Numbers are the store's own, and
/// few are kept at a time, so the hash need not be unforeseeable to keep an attacker out.
#[inline]
pub(super) const fn hash(block: u64) -> u64 {
    // Odd numbers whose bits are no pattern; a share's blocks are alike in some of their bits.
    let mixed = (block ^ block >> 32).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    (mixed ^ mixed >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// What is kept of one share's blocks.
#[derive(Debug, Default)]
pub(super) struct KeptTable {
    entries: Box<[Option<Kept>]>,
    used: usize,
}

impl KeptTable {
    /// How many entries are in use.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// How many entries there are, free or in use.
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Where a block is looked for first. There is such an entry once anything was kept.
    #[inline]
    fn first_entry(&self, block: u64) -> usize {
        ((u128::from(hash(block)) * self.entries.len() as u128) >> 64) as usize
    }

    #[inline]
    fn behind(&self, at: usize) -> usize {
        if at + 1 < self.entries.len() { at + 1 } else { 0 }
    }

    /// How many entries the second is behind the first.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.entries.len() - from }
    }

    /// The line where a block is looked for first.
    #[inline]
    pub(super) fn line_of(&self, block: BlockNumber) -> Option<*const u8> {
        let entry = self.entries.get(self.first_entry(block.raw()))?;
        Some(core::ptr::from_ref(entry).cast())
    }

    #[inline]
    fn find_at(&self, block: BlockNumber) -> Option<usize> {
        if self.used == 0 {
            return None;
        }
        let mut at = self.first_entry(block.raw());
        while let Some(kept) = &self.entries[at] {
            if kept.block == block {
                return Some(at);
            }
            at = self.behind(at);
        }
        None
    }

    #[inline]
    pub(super) fn find(&self, block: BlockNumber) -> Option<&Kept> {
        self.entries[self.find_at(block)?].as_ref()
    }

    #[inline]
    pub(super) fn find_mut(&mut self, block: BlockNumber) -> Option<&mut Kept> {
        let at = self.find_at(block)?;
        self.entries[at].as_mut()
    }

    /// What is kept in the entry with this number, if it is in use.
    pub(super) fn entry_at(&mut self, at: usize) -> Option<&mut Kept> {
        self.entries.get_mut(at)?.as_mut()
    }

    /// Adds what is kept of a block that has no entry. `most` of them are expected,
    /// and more are allowed.
    pub(super) fn add(&mut self, kept: Kept, most: usize) {
        if 2 * (self.used + 1) > self.entries.len() {
            self.grow(most);
        }
        self.put(kept);
        self.used += 1;
    }

    fn put(&mut self, kept: Kept) {
        let mut at = self.first_entry(kept.block.raw());
        while self.entries[at].is_some() {
            at = self.behind(at);
        }
        self.entries[at] = Some(kept);
    }

    /// Twice as many entries, or those that `most` kept blocks take if these are fewer.
    #[cold]
    fn grow(&mut self, most: usize) {
        let (needed, wanted) = (entries_for(self.used + 1), entries_for(most));
        let twice = FIRST_ENTRIES.max(2 * self.entries.len());
        let count = if wanted < needed { twice } else { twice.min(wanted) };
        let larger = (0..count).map(|_| None).collect();
        let before = core::mem::replace(&mut self.entries, larger);
        before.into_iter().flatten().for_each(|kept| self.put(kept));
    }

    /// Takes out what is kept in an entry, and moves those up that were behind it for want of room.
    pub(super) fn remove(&mut self, at: usize) -> Option<Kept> {
        let removed = self.entries.get_mut(at)?.take()?;
        self.used -= 1;
        let (mut free, mut next) = (at, self.behind(at));
        while let Some(kept) = &self.entries[next] {
            let first = self.first_entry(kept.block.raw());
            if self.distance(first, next) >= self.distance(free, next) {
                self.entries.swap(free, next);
                free = next;
            }
            next = self.behind(next);
        }
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use journal_core::units::Stamp;

    use super::*;
    use crate::staging::pages::page_of;

    #[test]
    fn blocks_that_follow_each_other_or_lie_far_apart_are_told_apart_by_few_bits() {
        for step in [1, 8, 1024, 1 << 20, 1 << 40] {
            let hashes: Vec<_> = (0..256_u64).map(|at| hash(at * step)).collect();
            for bits in [|hash: u64| hash & 0xFF, |hash: u64| hash >> 56] {
                let found: HashSet<_> = hashes.iter().map(|hash| bits(*hash)).collect();
                // Thrown at random, 256 leave a good third of 256 values out.
                assert!(found.len() > 120, "{step}: {}", found.len());
            }
        }
    }

    fn kept(block: u64, byte: u8) -> Kept {
        let mut page = page_of(1);
        page.fill(byte);
        Kept::new(BlockNumber(block), Stamp(1), page)
    }

    /// Adds, looks up and removes at random, beside a map; the table is small, large, and grows.
    #[test]
    fn what_was_added_is_found_until_it_is_removed() {
        let turns = if cfg!(miri) { 300 } else { 20_000 };
        for (blocks, most) in [(4, 4), (40, 30), (1000, 700), (1000, 3)] {
            let (mut table, mut model) = (KeptTable::default(), HashMap::new());
            assert!(
                table.find(BlockNumber(1)).is_none() && table.line_of(BlockNumber(1)).is_none()
            );
            let mut random = 7_u64;
            for turn in 0..turns {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                let (block, adds) = ((random >> 33) % blocks, random >> 63 == 0);
                let found = table.find(BlockNumber(block)).map(|kept| kept.image()[0]);
                assert_eq!(found, model.get(&block).copied(), "turn {turn}");
                match (found, adds && model.len() < 700) {
                    (None, true) => {
                        table.add(kept(block, turn as u8), most);
                        model.insert(block, turn as u8);
                    }
                    (Some(_), false) => {
                        let at = table.find_at(BlockNumber(block)).expect("was found");
                        assert_eq!(table.remove(at).map(|kept| kept.block.raw()), Some(block));
                        model.remove(&block);
                    }
                    _ => {}
                }
                assert_eq!(table.len(), model.len());
                assert!(table.len() * 2 <= table.count(), "half is free");
            }
            for (block, byte) in model {
                let kept = table.find_mut(BlockNumber(block)).expect("is there");
                assert_eq!(kept.image(), [byte]);
            }
        }
    }

    #[test]
    fn a_table_is_no_larger_than_its_entries_take() {
        let mut table = KeptTable::default();
        (0..1000).for_each(|block| table.add(kept(block, 0), 1000));
        assert_eq!((table.len(), table.count()), (1000, 2001));
        table.add(kept(1000, 0), 1000);
        assert!(table.count() <= 4002 && table.find(BlockNumber(999)).is_some());
        assert!((0..table.count()).filter(|at| table.entry_at(*at).is_some()).count() == 1001);
    }
}
