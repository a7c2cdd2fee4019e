//! Slots as a cache of the disk: reading from them, and filling them
//! ([`clean`](crate::shared::cache)).

use journal_core::parts::{InLane, share_of};
use journal_core::policy::Policy;
use journal_core::units::{LaneNumber, SlotNumber};
use journal_core::{BlockNumber, Rule};

use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::cache::clean::CleanSlots;
use crate::shared::lane_cell::LaneState;
use crate::shared::levels::Stage;
use crate::shared::share::Share;

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Copies what a slot holds of a block that has no frames; whether one does. The share is that
    /// of the block.
    pub(super) fn read_clean(&self, _share: &Share, block: BlockNumber, into: &mut [u8]) -> bool {
        let Some(clean) = &self.clean else { return false };
        let number = share_of(block, self.shares.len());
        let Some(slot) = clean.look_up(number, block) else { return false };
        let lane = self.common.geometry.lane_of_slot(slot);
        if self.lane(lane).reader.read_slot(slot, into).is_ok() {
            return true;
        }
        // The disk has it.
        clean.forget(number, block);
        false
    }

    /// Puts what was read from the disk into a slot, if there is one for that. `changes` says how
    /// often the share had changed when it was read.
    pub(super) fn keep_clean(
        &self,
        block: BlockNumber,
        image: &[u8],
        changes: u64,
    ) -> Result<(), Error> {
        let Some(clean) = &self.clean else { return Ok(()) };
        let number = share_of(block, self.shares.len());
        // 1. A slot: a spare one, one that is free, or that of a block that was not read lately.
        let spare = {
            let _share = self.lock_share(block)?;
            clean.take(number, false)
        };
        let slot = match spare {
            Some(slot) => Some(slot),
            None => match self.take_free_slot(clean, block)? {
                Some(slot) => Some(slot),
                None => {
                    let _share = self.lock_share(block)?;
                    clean.take(number, true)
                }
            },
        };
        let Some(slot) = slot else { return Ok(()) };
        // 2. Its content. No reader knows of it yet.
        {
            let mut state = self.lock_lane(self.lane(self.common.geometry.lane_of_slot(slot)))?;
            let LaneState { lane, slots, .. } = &mut *state;
            InLane { lane, states: slots }.fill(slot, image);
        }
        // 3. It counts if nothing has come meanwhile.
        let share = self.lock_share(block)?;
        let is_home = share.index.newest(block).is_none() && share.index.changes() == changes;
        clean.put(number, block, slot, is_home || !self.keeps(Rule::CleanIsHome));
        Ok(())
    }

    /// Takes a slot that commits do not need soon.
    fn take_free_slot(
        &self,
        clean: &CleanSlots,
        block: BlockNumber,
    ) -> Result<Option<SlotNumber>, Error> {
        let lanes = u64::from(self.common.geometry.lanes);
        let cell = self.lane(LaneNumber((block.raw() / 8 % lanes) as u16));
        let kept = self.levels.of(Stage::Reclaim).slots.max(self.levels.asks_below_slots());
        if !clean.may_grow() {
            return Ok(None);
        }
        if cell.unreserved_slots.take(1, kept).is_none() {
            clean.shrink(1);
            return Ok(None);
        }
        let mut state = self.lock_lane(cell)?;
        let LaneState { lane, slots, .. } = &mut *state;
        Ok(InLane { lane, states: slots }.take_slot())
    }

    /// Whether slots may hold what was read, which an upkeep gives back before it writes anything
    /// home for slots.
    pub(crate) fn gives_clean_first(&self) -> bool {
        self.clean.is_some() && self.keeps(Rule::CleanFirst)
    }

    /// Gives slots back that hold what was read, until `wanted` slots are free in one lane, or in
    /// all of them, or there are none to give back.
    #[cold]
    pub(crate) fn give_clean_back(&self, of: Option<LaneNumber>, wanted: u64) -> Result<(), Error> {
        let Some(clean) = &self.clean else { return Ok(()) };
        let lane_of = |slot| self.common.geometry.lane_of_slot(slot);
        let lanes = (0..self.common.geometry.lanes).map(LaneNumber);
        let missing = lanes.map(|lane| {
            let is_meant = of.is_none_or(|of| of == lane);
            let left = self.lane(lane).unreserved_slots.left();
            if is_meant { wanted.saturating_sub(left) } else { 0 }
        });
        let mut missing: Vec<u64> = missing.collect();
        for (number, share) in self.shares.iter().enumerate() {
            if missing.iter().all(|missing| *missing == 0) {
                break;
            }
            let taken = {
                let _share = share.lock().map_err(|_| self.poisoned())?;
                clean.take_those(number, |slot| {
                    let missing = &mut missing[usize::from(lane_of(slot).raw())];
                    let is_wanted = *missing > 0;
                    *missing -= u64::from(is_wanted);
                    is_wanted
                })
            };
            for slot in taken {
                let cell = self.lane(lane_of(slot));
                let mut state = self.lock_lane(cell)?;
                let LaneState { lane, slots, .. } = &mut *state;
                InLane { lane, states: slots }.give_slot(slot);
                drop(state);
                cell.unreserved_slots.give(1);
                clean.shrink(1);
            }
        }
        Ok(())
    }
}
