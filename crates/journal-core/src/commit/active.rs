//! Active slots: content that lies in a slot before any record names it.
//!
//! A store that collects changes over a while writes a block's new content to a slot. It goes on
//! changing the content there, in place, any number of times. A record then names the slot, and
//! makes all of it durable with its one fence. Active content is stored, and flushed only by that
//! record.
//!
//! **Crash** before the record is durable: nothing names the slot, so it is free.

use crate::commit::operation::Active;
use crate::commit::scheme::Common;
use crate::order::ordered::Hook;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::{Change, Policy};
use crate::space::lane::InLane;
use crate::space::open_record::Pace;

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
