//! Lends lanes and shares of the index, one at a time, to the code that writes home. Lends what is
//! in the lanes to readers.

use journal_core::parts::{FrameAt, InLane, Index, Indexes, Lanes, NodeId, NotPassed, share_of};
use journal_core::units::{LaneNumber, SlotNumber};
use journal_core::{BlockNumber, JournalError, Kernels as _, MediumError};

use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::index_memory::IndexParts;
use crate::shared::lane_cell::LaneState;
use crate::shared::share::Share;
use crate::threads::sync::Ordering;

/// A pass over the index goes through this number of nodes, or to the end of a share, before it
/// ends for a thread that needs room. Mostly that takes less than a millisecond. Where assertions
/// are on, it is a few, so that small indexes have such ends too.
const NODES_AT_ONCE: usize = if cfg!(debug_assertions) { 4 } else { 1 << 12 };

/// The lanes, as the code that writes home borrows them.
pub(crate) struct LanesOf<'s, L, M: Machine>(pub(crate) &'s Shared<L, M>);

impl<L, M: Machine> Lanes<M::Pmem, M::Hook> for LanesOf<'_, L, M> {
    fn with<R>(
        &mut self,
        lane: LaneNumber,
        call: impl FnOnce(&mut InLane<'_, M::Pmem, M::Hook>) -> R,
    ) -> Result<R, JournalError> {
        let cell = self.0.lane(lane);
        let mut guard = self.0.lock_lane(cell).map_err(|_| JournalError::Failed)?;
        if self.0.has_failed() {
            return Err(JournalError::Failed);
        }
        let free_before = guard.lane.free_bytes();
        let before = guard.lane.free_room();
        let LaneState { lane, slots, .. } = &mut *guard;
        let result = call(&mut InLane { lane, states: slots });
        if guard.lane.has_unfenced() {
            // Told while the lane is held: a thread that has waited for it must not take for
            // durable what no longer waits for a fence.
            self.0.fail();
            return Ok(result);
        }
        cell.reach.publish(guard.lane.durable_to(), guard.lane.has_deferred());
        let due = cell.due(&guard.lane);
        // Code that writes home only gives slots back.
        let after = guard.lane.free_room();
        let slots = after.slots.saturating_sub(before.slots);
        if slots > 0 {
            cell.unreserved_slots.give(slots.into());
        }
        let log_blocks = after.log_blocks.saturating_sub(before.log_blocks);
        if log_blocks > 0 {
            cell.unreserved_log.give(log_blocks.into());
        }
        if !guard.lane.has_deferred() {
            guard.group.end();
        }
        let freed = guard.lane.free_bytes().saturating_sub(free_before);
        if freed > 0 {
            cell.unreserved.give(freed);
        }
        drop(guard);
        due.tell();
        Ok(result)
    }

    fn read(&self, frame: &FrameAt, into: &mut [u8]) -> Result<(), MediumError> {
        self.0.lane(frame.lane).reader.read_payload(frame, into)
    }

    fn prefetch(&self, frame: &FrameAt) {
        self.0.lane(frame.lane).reader.prefetch_payload(frame);
    }

    fn passing<R>(
        &mut self,
        call: impl FnOnce(&mut Self, &NotPassed) -> Result<R, JournalError>,
    ) -> Result<R, JournalError> {
        let shared = self.0;
        let holds = shared.appends.lock();
        let not_passed = holds.not_passed();
        // A failure is noted before an append can begin: one superblock may have the new heads, and
        // behind these nothing hides what is not durable (AP1).
        let result = shared.fail_on_panic(|| call(self, &not_passed));
        let result = result.inspect_err(|error| shared.fail_of((*error).into()));
        drop(holds);
        result
    }

    fn check_all_there(&self) -> Result<(), JournalError> {
        // A share that could not be given has made the journal fail.
        if self.0.has_failed() { Err(JournalError::Failed) } else { Ok(()) }
    }
}

/// The shares of the index, as the code that writes home borrows them.
///
/// A share whose holder panicked cannot be given out. The journal has failed then, and an empty
/// share is given instead. [`Lanes::check_all_there`] says so before anything is made of it.
pub(crate) struct SharesOf<'s, L, M: Machine>(pub(crate) &'s Shared<L, M>);

impl<L, M: Machine> Indexes for SharesOf<'_, L, M> {
    type Memory = IndexParts;

    fn each_with_use(
        &mut self,
        mut call: impl FnMut(&mut Index<IndexParts>, &dyn Fn(SlotNumber) -> u32),
    ) {
        let uses = &self.0.uses;
        self.each(|index| call(index, &|slot| uses.when(slot.raw())));
    }

    fn last_use(&self, slot: SlotNumber) -> u32 {
        self.0.uses.when(slot.raw())
    }

    fn of<R>(&mut self, block: BlockNumber, call: impl FnOnce(&mut Index<IndexParts>) -> R) -> R {
        match self.0.lock_share(block) {
            Ok(mut share) => call(&mut share.index),
            Err(_) => call(&mut IndexParts::none()),
        }
    }

    fn prefetch(&self, block: BlockNumber) {
        let number = share_of(block, self.0.shares.len());
        let share = core::ptr::from_ref(&self.0.shares[number]).cast::<u8>();
        self.0.common.prefetch_line(share);
        self.0.common.prefetch_line(self.0.entries[number].address_of(block));
    }

    fn note_passing(&mut self, begins: bool) {
        self.0.heads_pass.store(begins, Ordering::Release);
    }

    fn copy_kept(
        &mut self,
        block: BlockNumber,
        newest: impl FnOnce(&Index<IndexParts>) -> Option<NodeId>,
        into: &mut [u8],
    ) -> bool {
        if !self.0.caches {
            return false;
        }
        // A share that cannot be given is told of when the content is built.
        let Ok(share) = self.0.lock_share(block) else { return false };
        let found = newest(&share.index).and_then(|newest| share.kept_up_to(block, newest));
        found.map(|image| pmem_sys::copy_block(into, image)).is_some()
    }

    fn keeps_up_to(&mut self, block: BlockNumber, newest: NodeId) -> bool {
        if !self.0.caches {
            return false;
        }
        self.0.lock_share(block).is_ok_and(|share| share.kept_up_to(block, newest).is_some())
    }

    fn prefetch_kept(&mut self, block: BlockNumber) -> bool {
        if !self.0.caches {
            return false;
        }
        let Ok(share) = self.0.lock_share(block) else { return false };
        let newest = share.index.newest(block);
        let found = newest.and_then(|newest| share.kept_up_to(block, newest));
        found.map(|image| self.0.common.kernels.prefetch(image)).is_some()
    }

    fn some(&mut self, from: &mut usize, mut call: impl FnMut(&mut Index<IndexParts>)) -> bool {
        let mut nodes = 0;
        while let Some(share) = self.0.shares.get(*from) {
            *from += 1;
            match share.lock() {
                Ok(mut share) => {
                    call(&mut share.index);
                    nodes += share.index.used_nodes();
                }
                Err(_) => {
                    self.0.poisoned();
                }
            }
            if nodes >= NODES_AT_ONCE && self.0.upkeep.is_asked_for() {
                break;
            }
        }
        *from >= self.0.shares.len()
    }

    fn each(&mut self, mut call: impl FnMut(&mut Index<IndexParts>)) {
        for share in &self.0.shares {
            match share.lock() {
                Ok(mut share) => call(&mut share.index),
                Err(_) => {
                    self.0.poisoned();
                }
            }
        }
    }
}

/// The shares of the index before a journal is shared: they are filled without locks.
#[derive(Debug)]
pub(crate) struct Unshared(pub(crate) Vec<Share>);

impl Unshared {
    /// Makes a share larger that had to take more frames than it was made for, so that work can go
    /// on.
    pub(crate) fn leave_room(&mut self, made_for: usize) {
        for Share { index, cache, .. } in &mut self.0 {
            let (frames, free) = (index.frames(), index.free_frames());
            if index.capacity() > made_for && free < frames / 4 {
                IndexParts::make_larger(index);
            }
            if let Some(cache) = cache {
                cache.make_room_for(index.capacity());
            }
        }
    }
}

impl Indexes for Unshared {
    type Memory = IndexParts;

    fn of<R>(&mut self, block: BlockNumber, call: impl FnOnce(&mut Index<IndexParts>) -> R) -> R {
        let count = self.0.len();
        call(&mut self.0[share_of(block, count)].index)
    }

    fn each(&mut self, mut call: impl FnMut(&mut Index<IndexParts>)) {
        self.0.iter_mut().for_each(|share| call(&mut share.index));
    }

    fn grow(&mut self, block: BlockNumber) -> bool {
        let count = self.0.len();
        IndexParts::make_larger(&mut self.0[share_of(block, count)].index);
        true
    }
}
