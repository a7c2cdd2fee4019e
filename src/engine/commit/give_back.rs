//! Giving back what a transaction has reserved and locked, at its end.

use journal_core::BlockNumber;
use journal_core::parts::{InLane, Operations};
use journal_core::policy::Policy;

use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::lane_cell::LaneState;
use crate::staging::work::Work;

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Ends a transaction without a trace.
    pub(crate) fn abort<O: Operations + ?Sized>(&self, work: &mut Work, operations: &O) {
        self.unreserve_bytes(work);
        self.unreserve_slots_and_log(work);
        self.release_slots(work);
        self.unreserve_frames(operations, &[]);
        self.give_grants_back(work);
        self.unlock_blocks(work);
        work.clear();
    }

    /// Gives back the slots of the lane, and its blocks of the log, that are reserved and not used.
    #[inline]
    pub(in crate::engine) fn unreserve_slots_and_log(&self, work: &mut Work) {
        self.unreserve_slots(work);
        if work.reserved_log > 0 {
            let cell = self.lane(work.lane);
            cell.unreserved_log.give(work.reserved_log.into());
            work.reserved_log = 0;
        }
    }

    #[inline]
    pub(in crate::engine) fn unreserve_slots(&self, work: &mut Work) {
        if work.reserved_slots > 0 {
            let cell = self.lane(work.lane);
            cell.unreserved_slots.give(work.reserved_slots.into());
            work.reserved_slots = 0;
        }
    }

    /// Gives up slots of older versions that are held and were not written.
    pub(in crate::engine) fn release_slots(&self, work: &Work) {
        let cell = self.lane(work.lane);
        for (block, slot) in work.held_slots() {
            let is_free =
                self.lock_share(block).is_ok_and(|mut share| share.index.release_slot(block, slot));
            let Some(Ok(mut state)) = is_free.then(|| self.lock_lane(cell)) else { continue };
            let LaneState { lane, slots, .. } = &mut *state;
            InLane { lane, states: slots }.give_slot(slot);
            cell.unreserved_slots.give(1);
        }
    }

    /// Gives back the bytes of the lane that are reserved and not used.
    #[inline]
    pub(crate) fn unreserve_bytes(&self, work: &mut Work) {
        self.unreserve_bytes_beyond(work, 0);
    }

    /// Gives back the room in the index that is reserved for these operations, except for the
    /// blocks whose frames were placed.
    pub(in crate::engine) fn unreserve_frames<O: Operations + ?Sized>(
        &self,
        operations: &O,
        placed: &[BlockNumber],
    ) {
        // The operations and `placed` ascend.
        let mut placed = placed.iter().peekable();
        for at in 0..operations.count() {
            let block = operations.block(at);
            if placed.next_if_eq(&&block).is_none() {
                if let Ok(mut share) = self.lock_share(block) {
                    share.reserved -= 1;
                }
            }
        }
    }
}
