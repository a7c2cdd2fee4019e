//! Active slots: content that lies in a slot before any record names it.
//!
//! A store that collects changes over a while writes a block's new content to a slot. It goes on
//! changing the content there, in place, any number of times. A record then names the slot, and
//! makes all of it durable with its one fence. Active content is stored, and flushed only by that
//! record.
//!
//! A store that has more to collect than its ordinary memory holds *spills*: it moves much of it to
//! active slots at once ([`InLane::spill`]). That content is flushed and fenced as it is spilled,
//! so that the record that names the slots need not flush it.
//!
//! **Crash** before the record is durable: nothing names the slot, so it is free.

use crate::commit::operation::Active;
use crate::common::Common;
use crate::order::ordered::{Hook, InFlight, Pace};
use crate::order::rule::Rule;
use crate::ports::error::MediumError;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::{Change, Policy};
use crate::space::lane::InLane;
use crate::space::slots::Folded;
use crate::units::{BlockNumber, SlotNumber, Stamp};

/// Content that is spilled to an active slot.
#[derive(Debug)]
pub struct Spilled<'b> {
    /// The block that it is of.
    pub block: BlockNumber,
    /// The block's slot, if it is active already. `None` after the spill where no slot was free.
    pub active: Option<Active>,
    /// What changes of what the slot holds, with the whole image.
    pub change: Change<'b>,
}

impl<L: Policy, K: Kernels> Common<L, K> {
    /// Whether this is what an active slot holds. A slot that a record names by now may have been
    /// given back, and hold anything.
    #[must_use]
    pub fn is_content_of(&self, active: &Active, content: &[u8]) -> bool {
        self.kernels.crc64(self.seeds.content(active.slot), content) == active.content
    }
}

impl<P: Pmem, H: Hook> InLane<'_, P, H> {
    /// Writes contents to active slots, and makes them durable with one fence. A block that has no
    /// slot yet takes one that holds nothing. Nothing names the slots yet, so a crash drops them.
    ///
    /// # Errors
    /// The medium's: the lane must not be used any more.
    pub fn spill(
        &mut self,
        common: &Common<impl Policy, impl Kernels>,
        contents: &mut [Spilled<'_>],
    ) -> Result<(), MediumError> {
        let next_stamp = Stamp(self.lane.last_stamp().raw().saturating_add(1));
        let names_nothing = self.lane.ring().keeps(Rule::SpillsUnnamed);
        let Some(slots) = self.lane.slots_mut() else { return Ok(()) };
        let mut in_flight: Option<InFlight> = None;
        for Spilled { block, active, change } in contents {
            let Some(image) = change.image().filter(|image| image.len() == common.block_bytes())
            else {
                debug_assert!(false, "the check is over the whole image");
                continue;
            };
            let (slot, written) = match active {
                Some(known) => {
                    let slot = known.slot;
                    (slot, slots.patch_at_once(slot, change.pieces()))
                }
                None => {
                    let Some(slot) = slots.take(self.states) else { continue };
                    (slot, slots.write(self.states, slot, image, Pace::AtOnce))
                }
            };
            if let Some(written) = written {
                InFlight::join(&mut in_flight, written);
            }
            let content = common.kernels.crc64(common.seeds.content(slot), image);
            *active = Some(Active { slot, content });
            if !names_nothing {
                let entry = Folded { block: *block, stamp: next_stamp, content };
                let named = slots.write_entry(slot, &entry, &common.kernels, common.seeds);
                InFlight::join(&mut in_flight, named);
            }
        }
        match in_flight {
            Some(in_flight) => slots.fence_spilled(in_flight).map(drop),
            None => Ok(()),
        }
    }

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

    /// Takes a slot that holds nothing, for content that no record will name.
    pub fn take_slot(&mut self) -> Option<SlotNumber> {
        self.lane.slots_mut()?.take(self.states)
    }

    /// Copies an image to a taken slot, for readers beside this process's writers alone: it is not
    /// flushed, and counts for nothing after a crash.
    pub fn fill(&mut self, slot: SlotNumber, image: &[u8]) {
        if let Some(slots) = self.lane.slots_mut() {
            slots.fill(self.states, slot, image);
        }
    }

    /// Gives an active slot back, that no transaction took in.
    pub fn deactivate(&mut self, active: Active) {
        if let Some(slots) = self.lane.slots_mut() {
            slots.give(self.states, active.slot);
        }
    }
}
