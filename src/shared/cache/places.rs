//! The table of what a cache keeps, by block.
//!
//! An entry is a line of memory, and lies in the place that its block's number leads to, or in one
//! of the next. So the line can be brought into the caches before the entry is looked for. Between
//! that place and the entry no place is free ([`remove`](Places::remove) sees to that). At least
//! half of the places are free, so a search for a block that is not there is short too.

use journal_core::{BlockNumber, LINE_BYTES};

use crate::shared::cache::kept::Kept;

const _: () = assert!(size_of::<Option<Kept>>() == LINE_BYTES, "one line");

/// The first table of a cache has this many places.
const FIRST_PLACES: usize = 8;

/// How many places there are for this number of entries.
const fn places_for(entries: usize) -> usize {
    entries.saturating_mul(2).saturating_add(1)
}

/// Mixes the number of a block; the upper bits choose its place. Numbers are the store's own, and
/// few are kept at a time, so the hash need not be unforeseeable to keep an attacker out.
#[inline]
pub(super) const fn hash(block: u64) -> u64 {
    // Odd numbers whose bits are no pattern; a share's blocks are alike in some of their bits.
    let mixed = (block ^ block >> 32).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    (mixed ^ mixed >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The entries of one share's blocks.
#[derive(Debug, Default)]
pub(super) struct Places {
    places: Box<[Option<Kept>]>,
    used: usize,
}

impl Places {
    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// How many places there are.
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// Where a block is looked for first. There is such a place once anything was kept.
    #[inline]
    fn first_place(&self, block: u64) -> usize {
        ((u128::from(hash(block)) * self.places.len() as u128) >> 64) as usize
    }

    #[inline]
    fn behind(&self, place: usize) -> usize {
        if place + 1 < self.places.len() { place + 1 } else { 0 }
    }

    /// How many places the second is behind the first.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.places.len() - from }
    }

    /// The line where a block is looked for first.
    #[inline]
    pub(super) fn line_of(&self, block: BlockNumber) -> Option<*const u8> {
        let place = self.places.get(self.first_place(block.raw()))?;
        Some(core::ptr::from_ref(place).cast())
    }

    #[inline]
    fn place_of(&self, block: BlockNumber) -> Option<usize> {
        if self.used == 0 {
            return None;
        }
        let mut place = self.first_place(block.raw());
        while let Some(kept) = &self.places[place] {
            if kept.block == block {
                return Some(place);
            }
            place = self.behind(place);
        }
        None
    }

    #[inline]
    pub(super) fn find(&self, block: BlockNumber) -> Option<&Kept> {
        self.places[self.place_of(block)?].as_ref()
    }

    #[inline]
    pub(super) fn find_mut(&mut self, block: BlockNumber) -> Option<&mut Kept> {
        let place = self.place_of(block)?;
        self.places[place].as_mut()
    }

    /// The entry in a place, if one is there.
    pub(super) fn in_place(&mut self, place: usize) -> Option<&mut Kept> {
        self.places.get_mut(place)?.as_mut()
    }

    /// Adds the entry of a block that has none. `most` entries are expected, and more are allowed.
    pub(super) fn add(&mut self, kept: Kept, most: usize) {
        if 2 * (self.used + 1) > self.places.len() {
            self.grow(most);
        }
        self.put(kept);
        self.used += 1;
    }

    fn put(&mut self, kept: Kept) {
        let mut place = self.first_place(kept.block.raw());
        while self.places[place].is_some() {
            place = self.behind(place);
        }
        self.places[place] = Some(kept);
    }

    /// Twice as many places, or those that `most` entries take if these are fewer.
    #[cold]
    fn grow(&mut self, most: usize) {
        let (needed, wanted) = (places_for(self.used + 1), places_for(most));
        let twice = FIRST_PLACES.max(2 * self.places.len());
        let count = if wanted < needed { twice } else { twice.min(wanted) };
        let larger = (0..count).map(|_| None).collect();
        let before = core::mem::replace(&mut self.places, larger);
        before.into_iter().flatten().for_each(|kept| self.put(kept));
    }

    /// Takes out the entry in a place, and moves those up that were behind it for want of room.
    pub(super) fn remove(&mut self, place: usize) -> Option<Kept> {
        let removed = self.places.get_mut(place)?.take()?;
        self.used -= 1;
        let (mut free, mut next) = (place, self.behind(place));
        while let Some(kept) = &self.places[next] {
            let first = self.first_place(kept.block.raw());
            if self.distance(first, next) >= self.distance(free, next) {
                self.places.swap(free, next);
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

    #[test]
    fn blocks_that_follow_each_other_or_lie_far_apart_are_told_apart_by_few_bits() {
        for step in [1, 8, 1024, 1 << 20, 1 << 40] {
            let hashes: Vec<_> = (0..256_u64).map(|at| hash(at * step)).collect();
            for bits in [|hash: u64| hash & 0xFF, |hash: u64| hash >> 56] {
                let places: HashSet<_> = hashes.iter().map(|hash| bits(*hash)).collect();
                // Thrown at random, 256 leave a good third of 256 places empty.
                assert!(places.len() > 120, "{step}: {}", places.len());
            }
        }
    }

    fn kept(block: u64, byte: u8) -> Kept {
        Kept::new(BlockNumber(block), Stamp(1), vec![byte].into())
    }

    /// Adds, looks up and removes at random, beside a map; the table is small, large, and grows.
    #[test]
    fn what_was_added_is_found_until_it_is_removed() {
        let turns = if cfg!(miri) { 300 } else { 20_000 };
        for (blocks, most) in [(4, 4), (40, 30), (1000, 700), (1000, 3)] {
            let (mut places, mut model) = (Places::default(), HashMap::new());
            assert!(
                places.find(BlockNumber(1)).is_none() && places.line_of(BlockNumber(1)).is_none()
            );
            let mut random = 7_u64;
            for turn in 0..turns {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                let (block, adds) = ((random >> 33) % blocks, random >> 63 == 0);
                let found = places.find(BlockNumber(block)).map(|kept| kept.image()[0]);
                assert_eq!(found, model.get(&block).copied(), "turn {turn}");
                match (found, adds && model.len() < 700) {
                    (None, true) => {
                        places.add(kept(block, turn as u8), most);
                        model.insert(block, turn as u8);
                    }
                    (Some(_), false) => {
                        let at = places.place_of(BlockNumber(block)).expect("was found");
                        assert_eq!(places.remove(at).map(|kept| kept.block.raw()), Some(block));
                        model.remove(&block);
                    }
                    _ => {}
                }
                assert_eq!(places.len(), model.len());
                assert!(places.len() * 2 <= places.count(), "half is free");
            }
            for (block, byte) in model {
                let kept = places.find_mut(BlockNumber(block)).expect("is there");
                assert_eq!(kept.image(), [byte]);
            }
        }
    }

    #[test]
    fn a_table_is_no_larger_than_its_entries_take() {
        let mut places = Places::default();
        (0..1000).for_each(|block| places.add(kept(block, 0), 1000));
        assert_eq!((places.len(), places.count()), (1000, 2001));
        places.add(kept(1000, 0), 1000);
        assert!(places.count() <= 4002 && places.find(BlockNumber(999)).is_some());
        assert!((0..places.count()).filter(|at| places.in_place(*at).is_some()).count() == 1001);
    }
}
