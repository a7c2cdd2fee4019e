//! Which version of a block has a slot, when more than one names it.
//!
//! A slot is written again for the next version while an older one, which nothing needs any more,
//! still names it: that one is *stale* from then on. Whoever is not stale has the slot, and gives it
//! back when it goes. Two cases are not as simple:
//!
//! 1. A slot is *held* from when it was found to be superfluous until the next version is stored
//!    there: its version is stale already, so that nobody else gives it back.
//! 2. An entry outlives the frame of a later version in the same slot. The slot is not free then,
//!    since it still has an entry (S3 of [`crate::slot`]): it goes back to the version that the
//!    entry speaks of, and is free when that is void.
//!
//! **Crash**: nothing of it is on the medium. An open takes the highest stamp that names a slot for
//! the one that has it, which comes to the same.

use crate::geometry::Geometry;
use crate::hook::Hook;
use crate::index::{FrameAt, Index, IndexMemory, NodeId};
use crate::lane::InLane;
use crate::pmem::Pmem;
use crate::units::{BlockNumber, LaneNumber, SlotNumber};

impl<M: IndexMemory> Index<M> {
    /// As [`older_slot`](Self::older_slot), and keeps others from giving it back until a frame that
    /// names it is added, or it is [released](Self::release_slot).
    pub fn hold_older_slot(
        &mut self,
        block: BlockNumber,
        lane: LaneNumber,
        geometry: &Geometry,
        is_durable: impl Fn(&FrameAt) -> bool,
    ) -> Option<SlotNumber> {
        let slot = self.older_slot(block, lane, geometry, is_durable)?;
        let holder = self.newest_in(slot, self.newest(block));
        if let Some(holder) = holder {
            self.set_stale(holder, true);
        }
        Some(slot)
    }

    /// Gives up a slot that was held and not written: the version that it was of has it again. Where
    /// there is none any more, the answer is yes, and the slot is to be
    /// [given back](InLane::give_slot).
    #[must_use]
    pub fn release_slot(&mut self, block: BlockNumber, slot: SlotNumber) -> bool {
        let Some(holder) = self.newest_in(slot, self.newest(block)) else { return true };
        self.set_stale(holder, false);
        false
    }

    /// A version that has a slot is about to lose it: returns whether the slot is free. It is not
    /// where its entry speaks of an older version, which then has it.
    pub(crate) fn leave_slot(&mut self, id: NodeId) -> bool {
        let Some(slot) = self.frame(id).slot() else { return false };
        let mut next = self.newest_in(slot, self.older(id));
        while let Some(older) = next {
            if self.frame(older).folded {
                self.set_stale(older, false);
                return false;
            }
            next = self.newest_in(slot, self.older(older));
        }
        true
    }

    /// The newest version that names a slot, from this one on.
    fn newest_in(&self, slot: SlotNumber, from: Option<NodeId>) -> Option<NodeId> {
        let mut chain = core::iter::successors(from, |id| self.older(*id));
        chain.find(|id| self.frame(*id).slot() == Some(slot))
    }
}

impl<P: Pmem, H: Hook> InLane<'_, P, H> {
    /// Gives back a slot that was held, of which no version is left.
    pub fn give_slot(&mut self, slot: SlotNumber) {
        if let Some(slots) = self.lane.slots_mut() {
            slots.give(self.states, slot);
        }
    }
}
