//! Slots that hold what was read from the disk, so that the next reader finds it in persistent
//! memory. Readers use them where the host asks for that.
//!
//! CL1. No record names such a slot, and its content is what is home. It counts until a frame of
//!      the block enters the index.
//! CL2. A reader copies from such a slot with the block's share of the index in hand. The slot gets
//!      another content, or is given back, only after its block was forgotten with that share in
//!      hand.
//! CL3. Only slots are taken that are free beyond what makes the upkeep begin. They are given back
//!      before a commit goes without a slot, and before an upkeep looks for slots elsewhere.
//!
//! **Crash**: no record names the slot, so the next open takes it for free, whatever it holds.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;
use std::sync::PoisonError;

use journal_core::BlockNumber;
use journal_core::units::SlotNumber;

use super::kept_table::hash;
use crate::threads::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// Hashes the number of a block.
#[derive(Clone, Copy, Debug, Default)]
struct BlockHasher(u64);

impl Hasher for BlockHasher {
    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = hash(self.0 ^ number);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A slot, and whether it was read since the hand came by.
#[derive(Clone, Copy, Debug)]
struct Clean {
    slot: SlotNumber,
    is_used: bool,
}

/// The slots of the blocks of one share of the index.
#[derive(Debug, Default)]
struct Part {
    of: HashMap<u64, Clean, BuildHasherDefault<BlockHasher>>,
    /// The blocks of the slots, and some that were forgotten. The hand goes round them.
    order: Vec<u64>,
    hand: usize,
    /// Slots whose content does not count any more.
    spare: Vec<SlotNumber>,
}

impl Part {
    fn forget(&mut self, block: u64) {
        if let Some(clean) = self.of.remove(&block) {
            self.spare.push(clean.slot);
        }
    }

    /// Forgets a block that was not read lately.
    fn evict(&mut self) {
        let mut looks = 2 * self.order.len();
        while looks > 0 && !self.order.is_empty() {
            looks -= 1;
            self.hand = if self.hand + 1 < self.order.len() { self.hand + 1 } else { 0 };
            let block = self.order[self.hand];
            match self.of.get_mut(&block) {
                Some(clean) if clean.is_used => clean.is_used = false,
                Some(_) => {
                    self.order.swap_remove(self.hand);
                    return self.forget(block);
                }
                None => drop(self.order.swap_remove(self.hand)),
            }
        }
    }
}

/// All clean slots of a journal.
#[derive(Debug)]
pub(crate) struct CleanSlots {
    parts: Box<[Mutex<Part>]>,
    most: u64,
    /// How many there are.
    owned: AtomicU64,
    hits: AtomicU64,
}

impl CleanSlots {
    /// Room for `most` slots; none if that is zero.
    pub(crate) fn of(shares: usize, most: u32) -> Option<Self> {
        let parts = || (0..shares).map(|_| Mutex::new(Part::default())).collect();
        (most > 0).then(|| Self {
            parts: parts(),
            most: most.into(),
            owned: AtomicU64::new(0),
            hits: AtomicU64::new(0),
        })
    }

    fn part(&self, share: usize) -> MutexGuard<'_, Part> {
        // Nothing in here panics.
        self.parts[share].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot that has a block's content. The caller has the block's share in hand (CL2).
    pub(crate) fn look_up(&self, share: usize, block: BlockNumber) -> Option<SlotNumber> {
        let mut part = self.part(share);
        let clean = part.of.get_mut(&block.raw())?;
        clean.is_used = true;
        let slot = clean.slot;
        drop(part);
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(slot)
    }

    /// Forgets a block, of which a frame enters the index (CL1). The caller has its share in hand.
    pub(crate) fn forget(&self, share: usize, block: BlockNumber) {
        self.part(share).forget(block.raw());
    }

    /// A slot for another content, of those that a share's blocks have. The caller has that share
    /// in hand.
    pub(crate) fn take(&self, share: usize, evicts: bool) -> Option<SlotNumber> {
        let mut part = self.part(share);
        if evicts && part.spare.is_empty() {
            part.evict();
        }
        part.spare.pop()
    }

    /// Takes the slots of a share that are wanted elsewhere. It asks about those first whose
    /// content does not count, and then about those that were not read lately. The caller has the
    /// share in hand.
    pub(crate) fn take_those(
        &self,
        share: usize,
        mut is_wanted: impl FnMut(SlotNumber) -> bool,
    ) -> Vec<SlotNumber> {
        let mut part = self.part(share);
        let spare = core::mem::take(&mut part.spare).into_iter();
        let (mut taken, stays): (Vec<_>, Vec<_>) = spare.partition(|slot| is_wanted(*slot));
        part.spare = stays;
        for takes_used in [false, true] {
            part.of.retain(|_, clean| {
                let stays = clean.is_used != takes_used || !is_wanted(clean.slot);
                taken.extend((!stays).then_some(clean.slot));
                stays
            });
        }
        taken
    }

    /// Notes that a slot has a block's content, or that it is spare where it has not. The caller
    /// has the block's share in hand.
    pub(crate) fn put(&self, share: usize, block: BlockNumber, slot: SlotNumber, counts: bool) {
        let mut part = self.part(share);
        if !counts || part.of.contains_key(&block.raw()) {
            return part.spare.push(slot);
        }
        part.of.insert(block.raw(), Clean { slot, is_used: false });
        if part.order.len() > 2 * part.of.len() {
            // Those that were forgotten since are still there.
            part.order = part.of.keys().copied().collect();
        } else {
            part.order.push(block.raw());
        }
    }

    /// Whether there may be one more, which is counted if so.
    pub(crate) fn may_grow(&self) -> bool {
        let more = |owned| (owned < self.most).then_some(owned + 1);
        self.owned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Slots were given back, or not taken after all.
    pub(crate) fn shrink(&self, by: u64) {
        self.owned.fetch_sub(by, Ordering::Relaxed);
    }

    /// How many slots there are, and how many reads were served by them.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.owned.load(Ordering::Relaxed), self.hits.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_is_forgotten_leaves_its_slot_for_another() {
        let clean = CleanSlots::of(1, 2).expect("some");
        assert!(clean.may_grow() && clean.may_grow() && !clean.may_grow());
        let (a, b) = (BlockNumber(1), BlockNumber(9));
        clean.put(0, a, SlotNumber(5), true);
        clean.put(0, b, SlotNumber(6), false);
        assert_eq!((clean.look_up(0, a), clean.look_up(0, b)), (Some(SlotNumber(5)), None));
        assert_eq!(clean.take(0, false), Some(SlotNumber(6)));
        clean.put(0, a, SlotNumber(6), true);
        assert_eq!(clean.look_up(0, a), Some(SlotNumber(5)), "it has one");
        clean.forget(0, a);
        assert_eq!(clean.look_up(0, a), None);
        assert_eq!(clean.take_those(0, |slot| slot.raw() == 5), [SlotNumber(5)]);
        clean.shrink(1);
        assert_eq!((clean.take(0, true), clean.take(0, true)), (Some(SlotNumber(6)), None));
        assert_eq!(clean.counts(), (1, 2));
        assert!(CleanSlots::of(1, 0).is_none());
    }

    #[test]
    fn what_is_read_stays_longest() {
        let clean = CleanSlots::of(1, 8).expect("some");
        (0..8).for_each(|at| clean.put(0, BlockNumber(at), SlotNumber(at as u32), true));
        for at in 8..100 {
            assert!(clean.look_up(0, BlockNumber(3)).is_some());
            let slot = clean.take(0, true).expect("something goes");
            clean.put(0, BlockNumber(at), slot, true);
            assert!(clean.look_up(0, BlockNumber(3)).is_some(), "before {at}");
            assert_eq!(clean.part(0).order.len(), 8);
        }
        for _ in 0..100 {
            clean.forget(0, BlockNumber(3));
            let slot = clean.take(0, false).expect("its own");
            clean.put(0, BlockNumber(3), slot, true);
            assert!(clean.part(0).order.len() <= 17);
        }
    }
}
