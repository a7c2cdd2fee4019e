//! Which version of a block has a slot, when more than one names it.
//!
//! A slot is written again for the next version while an older one, which nothing needs any more,
//! still names it. The older version is *stale* from then on. The version that is not stale has the
//! slot, and gives it back when it goes. Two cases are not as simple:
//!
//! 1. A slot is *held* from when it was found to be superfluous until the next version is stored
//!    there. Its version is stale already, so that nobody else gives it back.
//! 2. An entry outlives the frame of a later version in the same slot. The slot is not free then,
//!    since it still has an entry (S3 of [`crate::space::slots`]). It goes back to the version that
//!    the entry speaks of, and is free when that is void.
//!
//! **Crash**: nothing of it is on the medium. An open takes the highest stamp that names a slot for
//! the one that has it, which comes to the same.

use crate::format::geometry::Geometry;
use crate::format::record::Form;
use crate::index::frame::{FrameAt, NodeId};
use crate::index::node::HAS_FOLDED;
use crate::index::{Index, IndexMemory};
use crate::units::{BlockNumber, LaneNumber, Sequence, SlotNumber, Stamp};

impl<M: IndexMemory> Index<M> {
    /// The slot of an older version of a block, in a lane, that its newest whole durable version
    /// has made superfluous: the one that was written last.
    pub fn older_slot(
        &self,
        block: BlockNumber,
        lane: LaneNumber,
        geometry: &Geometry,
        is_durable: impl Fn(&FrameAt) -> bool,
    ) -> Option<SlotNumber> {
        self.older_version(block, lane, geometry, is_durable).map(|(_, slot)| slot)
    }

    fn older_version(
        &self,
        block: BlockNumber,
        lane: LaneNumber,
        geometry: &Geometry,
        is_durable: impl Fn(&FrameAt) -> bool,
    ) -> Option<(NodeId, SlotNumber)> {
        // What is on its way home may be read there.
        let mut next = self.newest(block).filter(|_| !self.is_leaving(block));
        let mut has_successor = false;
        while let Some(id) = next {
            let frame = self.frame(id);
            // A log is never written in place.
            let is_one = has_successor && frame.form == Form::Slot && !self.is_stale(id);
            if let Some(slot) = frame.slot().filter(|_| is_one) {
                if geometry.lane_of_slot(slot) == lane {
                    return Some((id, slot));
                }
            }
            has_successor |= frame.is_whole() && is_durable(&frame);
            next = self.older(id);
        }
        None
    }

    /// Whether the slot that a frame names holds something else by now.
    pub(crate) fn is_stale(&self, id: NodeId) -> bool {
        self.node(id.0).is_some_and(|node| node.stale)
    }

    /// Notes whether the slot that a frame names holds, or will hold, something else.
    pub(crate) fn set_stale(&mut self, id: NodeId, stale: bool) {
        if let Some(node) = self.node_mut(id.0) {
            node.stale = stale;
        }
    }

    /// The version of a block that has this stamp and is in this slot. A record that has the block
    /// more than once makes several of one stamp, each in another slot.
    pub(crate) fn version(
        &self,
        block: BlockNumber,
        stamp: Stamp,
        slot: SlotNumber,
    ) -> Option<NodeId> {
        let mut chain = core::iter::successors(self.newest(block), |id| self.older(*id));
        chain.find(|id| {
            let frame = self.frame(*id);
            frame.stamp == stamp && frame.slot() == Some(slot)
        })
    }

    pub(crate) fn set_folded(&mut self, id: NodeId, folded: bool) {
        let Some(node) = self.node_mut(id.0) else { return };
        node.folded = folded;
        let entry_at = if folded { self.find(self.frame(id).block.raw()) } else { None };
        if let Some(entry_at) = entry_at {
            self.note_folded(entry_at, true);
        }
    }

    /// Notes whether slots' entries may speak of a block.
    pub(super) fn note_folded(&mut self, entry_at: usize, may: bool) {
        if let Some(entry) = self.memory.entries_mut().get_mut(entry_at) {
            entry.set(HAS_FOLDED, may);
        }
    }

    /// Whether slots' entries may speak of a block. If no frame of it says so, the next answer is
    /// no.
    pub(crate) fn may_have_folded(&mut self, block: BlockNumber) -> bool {
        if !self.entry(block).is_some_and(|entry| entry.has(HAS_FOLDED)) {
            return false;
        }
        let mut chain = core::iter::successors(self.newest(block), |id| self.older(*id));
        let has_folded = chain.any(|id| self.frame(id).folded);
        if let Some(entry_at) = self.find(block.raw()).filter(|_| !has_folded) {
            self.note_folded(entry_at, false);
        }
        has_folded
    }

    /// Notes that the entry of a version's slot speaks of it, and of no older one any more.
    pub(crate) fn set_folded_over(&mut self, id: NodeId, slot: SlotNumber) {
        self.set_folded(id, true);
        let mut next = self.older(id);
        while let Some(id) = next {
            next = self.older(id);
            let frame = self.frame(id);
            if frame.folded && frame.slot() == Some(slot) {
                self.set_folded(id, false);
                if frame.sequence == Sequence(0) {
                    self.remove(id);
                }
            }
        }
    }

    /// Notes that a version's slot is to be given back, its entry being void. Returns whether the
    /// slot is free. The `last` version of a block is forgotten only when its frame has left the
    /// ring: that may be read until then, and its slot is not free.
    pub(crate) fn take_version(&mut self, id: NodeId, last: bool) -> bool {
        let (is_stale, is_in_ring) = (self.is_stale(id), self.frame(id).sequence != Sequence(0));
        let keeps = is_stale || last && is_in_ring;
        let is_free = !keeps && self.leave_slot(id);
        self.set_folded(id, false);
        // A thread that reads it in the disk-side log holds no lock.
        self.note_change();
        if !is_in_ring {
            self.remove(id);
        } else if !last {
            self.set_stale(id, true);
        }
        is_free
    }

    /// The older version that a slot held is gone. Of the versions that name the slot at most one
    /// has it, which need not be the newest of them (case 2).
    pub(crate) fn make_stale_below(&mut self, id: NodeId, slot: SlotNumber) {
        let mut next = self.older(id);
        while let Some(id) = next {
            if self.frame(id).slot() == Some(slot) && !self.is_stale(id) {
                self.set_stale(id, true);
                return;
            }
            next = self.older(id);
        }
    }

    /// As [`older_slot`](Self::older_slot), and keeps others from giving it back until a frame that
    /// names it is added, or it is [released](Self::release_slot).
    pub fn hold_older_slot(
        &mut self,
        block: BlockNumber,
        lane: LaneNumber,
        geometry: &Geometry,
        is_durable: impl Fn(&FrameAt) -> bool,
    ) -> Option<SlotNumber> {
        // Not the newest that names the slot: that one may have left it to this (case 2).
        let (holder, slot) = self.older_version(block, lane, geometry, is_durable)?;
        self.set_stale(holder, true);
        Some(slot)
    }

    /// Gives up a slot that was held and not written: the version that it was of has it again.
    /// Where there is none any more, the answer is yes, and the slot is to be
    /// [given back](crate::space::lane::InLane::give_slot).
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
