//! Active slots: content that lies in a slot before any record names it.
//!
//! A store that gathers changes over a while writes a block's new content to a slot and goes on
//! changing it there, in place, as often as it likes. A record then names the slot, and makes all
//! of it durable with its one fence. What is active is stored, and flushed only by that.
//!
//! **Crash** before the record is durable: nothing names the slot, so it is free.

use crate::commit::scheme::Common;
use crate::order::hook::Hook;
use crate::owner::journal::Journal;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::{Change, Policy};
use crate::space::lane::{InLane, Pace};
use crate::space::slots::SlotFrame;
use crate::units::{LaneNumber, SlotNumber};

/// Content in a slot of some lane that is in no record yet.
///
/// An operation of a transaction through that lane takes it in
/// ([`Operation::Active`](crate::Operation::Active)); then it is the journal's, and this is to be
/// dropped. Given up otherwise, it is [given back](InLane::deactivate), or its slot is free again
/// when the journal is opened next.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "its slot is not free before it is given back"]
pub struct Active {
    slot: SlotNumber,
    content: u64,
}

impl Active {
    /// Where it lies.
    #[must_use]
    pub const fn slot(&self) -> SlotNumber {
        self.slot
    }

    pub(crate) fn frame(&self) -> SlotFrame {
        SlotFrame { content: self.content.into(), slot: self.slot.raw().into(), reserved: 0.into() }
    }
}

impl<P: Pmem, H: Hook> InLane<'_, P, H> {
    /// Writes an image, one block long, to a slot that holds nothing; `None` when there is no such
    /// slot.
    pub fn activate(
        &mut self,
        common: &Common<impl Policy, impl Kernels>,
        image: &[u8],
    ) -> Option<Active> {
        debug_assert_eq!(image.len(), common.block_bytes());
        let slots = self.lane.slots_mut()?;
        let slot = slots.take(self.states)?;
        let _ = slots.write(self.states, slot, image, Pace::Deferred);
        Some(Active { slot, content: common.kernels.crc64(common.seeds.content(slot), image) })
    }

    /// Changes what an active slot holds, in place: only what the change names is stored. It has to
    /// come with the whole new image.
    pub fn update_active(
        &mut self,
        common: &Common<impl Policy, impl Kernels>,
        active: &mut Active,
        change: &Change<'_>,
    ) {
        let Some(image) = change.image().filter(|image| image.len() == common.block_bytes()) else {
            debug_assert!(false, "the check is over the whole image");
            return;
        };
        if let Some(slots) = self.lane.slots_mut() {
            slots.patch(self.states, active.slot, change.pieces());
        }
        active.content = common.kernels.crc64(common.seeds.content(active.slot), image);
    }

    /// Gives an active slot back, that no transaction took in.
    pub fn deactivate(&mut self, active: Active) {
        if let Some(slots) = self.lane.slots_mut() {
            slots.give(self.states, active.slot);
        }
    }
}

impl<P, D, L, H, K> Journal<'_, P, D, L, H, K>
where
    P: Pmem,
    L: Policy,
    H: Hook,
    K: Kernels,
{
    /// A lane with what is known of its slots, to keep active content there; `None` when there is
    /// no such lane.
    ///
    /// Where the call panics the journal refuses to go on: what is active may be half changed.
    pub fn with_active<R>(
        &mut self,
        lane: LaneNumber,
        call: impl FnOnce(&mut InLane<'_, P, H>, &Common<L, K>) -> R,
    ) -> Option<R> {
        let is_there = lane.raw() < self.common.geometry.lanes;
        is_there.then(|| {
            self.watched(|journal| call(&mut journal.lanes.in_lane(lane), &journal.common))
        })
    }
}
