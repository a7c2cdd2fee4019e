//! Spilling: what no longer fits ordinary memory goes on to active slots, without a record.
//!
//! As long as the memory of the running transaction suffices, its content stays there, where it
//! costs least to change. When the memory is full, the images that the policy keeps in slots move
//! to *active slots* of the transaction's lane. Later writes of such a block are gathered in memory
//! again, and the next spill changes the slot in place. So a record is not bounded by that memory,
//! nor by the ring: of an active block it holds 32 bytes. It is bounded by the lane's free slots.
//! When those run out, room is made, or the running transaction commits.
//!
//! SP1. A spill holds the lane, and the gathered blocks. So no thread reads a slot that is changed.
//! SP2. A spill flushes and fences what it stores. A record that names slots stores in them once
//!      more what memory has of their blocks, before its own fence.
//! SP3. A reader checks what it copies from a slot of a batch that is being committed. Behind the
//!      record, a checkpoint may have written the block home already, and given the slot back.
//! SP4. The slot of a block that was discarded since is given back behind the record.
//!
//! **Crash**: no record names an active slot, so the next open takes it for free.

use std::collections::BTreeMap;

use journal_core::parts::{InLane, Operations, Spilled};
use journal_core::policy::{Encoder, Placement, Policy};
use journal_core::units::LaneNumber;
use journal_core::{Active, BlockNumber, Committed, Durability, LINE_BYTES, Operation};

use crate::engine::commit::failed_fence;
use crate::engine::read::Keeps;
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::gathering::Batch;
use crate::shared::lane_cell::LaneState;
use crate::shared::{Shared, ShortOf};
use crate::staging::staged::Staged;
use crate::staging::work::Work;

/// The most blocks that one step of a spill moves. Readers of gathered blocks wait meanwhile.
const AT_ONCE: usize = 128;

/// What a frame takes that names a slot: its descriptor, and what it says of the slot.
const NAMED_BYTES: u64 = 32;

/// What a frame takes that has no payload.
const FRAME_BYTES: u64 = 16;

/// What a part of a record takes beside its frames.
const PART_BYTES: u64 = (2 * LINE_BYTES + 8) as u64;

/// The most frames of a part.
const PART_FRAMES: u64 = 64;

/// What one step of a spill has done.
struct Step {
    /// Blocks that are active now.
    moved: usize,
    /// Where the next step begins, unless it has come to the end.
    next: Option<BlockNumber>,
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Bytes that the record of a batch takes at most. Of the blocks that are not active, some are
    /// sure to go home.
    pub(super) fn batch_bytes_max(&self, not_active: usize, active: usize, homeward: usize) -> u64 {
        if active == 0 && homeward == 0 {
            return self.record_bytes_max(not_active);
        }
        let whole = not_active.saturating_sub(homeward);
        let images = match whole {
            0 => PART_BYTES + 16 * u64::from(self.common.geometry.lanes),
            some => self.record_bytes_max(some.max(2)),
        };
        // A part ends when it has all its frames, or its payloads take more than a block. One
        // image is enough for that, beside names.
        let block = self.common.geometry.block_size.bytes() as u64;
        let named = PART_FRAMES.min(block / 16).max(1);
        let of_part = PART_BYTES.div_ceil(named);
        let mut bytes = images + PART_BYTES * whole as u64;
        bytes += (NAMED_BYTES + of_part) * active as u64;
        if homeward > 0 {
            // Each has a frame in the record, and one in those of the discards before it.
            bytes += 2 * (FRAME_BYTES + of_part) * homeward as u64 + 2 * PART_BYTES;
        }
        bytes.next_multiple_of(LINE_BYTES as u64)
    }

    /// Whether content may lie in active slots.
    fn may_spill(&self) -> bool {
        self.common.geometry.lane_slots > 0 && self.common.policy.keeps_in_slots()
    }

    /// Moves what it can of the running transaction to active slots. Returns whether that was
    /// anything.
    pub(super) fn spill(&self) -> Result<bool, Error> {
        if !self.may_spill() {
            return Ok(false);
        }
        let (mut has_moved, mut from) = (false, Some(BlockNumber(0)));
        while let Some(first) = from {
            let lane = self.gathering.lock().running.lane;
            self.see_to_slots(lane)?;
            // The policy may panic.
            let step = self.fail_on_panic(|| self.spill_some(lane, first))?;
            has_moved |= step.moved > 0;
            from = step.next;
        }
        Ok(has_moved)
    }

    /// Makes sure that a lane has a free slot, if that can be.
    fn see_to_slots(&self, lane: LaneNumber) -> Result<(), Error> {
        let slots = &self.lane(lane).unreserved_slots;
        if slots.left() < self.levels.asks_below_slots() {
            self.ask_for_checkpoint();
        }
        if self.clean.is_some() && slots.left() < AT_ONCE as u64 {
            self.give_clean_back(Some(lane), AT_ONCE as u64)?;
        }
        if slots.left() > 0 || self.bell.has_thread() {
            return Ok(());
        }
        match self.stopped(ShortOf::Slots, || self.make_room(None, |_| slots.left() > 0)) {
            // What finds no slot waits for the record.
            Err(Error::NoShield { .. }) => Ok(()),
            made => made,
        }
    }

    /// Moves some blocks of the running transaction, from `first` on.
    fn spill_some(&self, lane: LaneNumber, first: BlockNumber) -> Result<Step, Error> {
        let cell = self.lane(lane);
        let mut state = self.lock_lane(cell)?;
        self.check_not_failed()?;
        let mut gathered = self.gathering.lock();
        let running = &mut gathered.running;
        if running.is_empty() || running.lane != lane {
            return Ok(Step { moved: 0, next: None });
        }
        // 1. Which blocks, and whether there are slots for those that have none.
        let (mut picked, next) = self.pick(running, first);
        let is_new =
            |running: &Batch, at: &usize| !running.active.contains_key(&running.staged.block(*at));
        let new = picked.iter().filter(|at| is_new(running, at)).count();
        let slots = &cell.unreserved_slots;
        let mut taken = new as u64;
        while taken > 0 && slots.take(taken, 0).is_none() {
            taken /= 2;
        }
        let (mut left, is_short) = (taken, taken < new as u64);
        picked.retain(|at| {
            let fits = !is_new(running, at) || left > 0;
            left -= u64::from(fits && is_new(running, at));
            fits
        });
        // 2. What the record takes then.
        let moved_both = picked.len() - taken as usize;
        let not_active = running.not_active() - taken as usize;
        let active = running.active.len() + taken as usize;
        let needed = self.batch_bytes_max(not_active, active, running.homeward.len());
        let more = needed.saturating_sub(running.reserved_bytes);
        if picked.is_empty() || (more > 0 && !self.try_reserve_in(lane, more)) {
            slots.give(taken);
            return Ok(Step { moved: 0, next: None });
        }
        running.reserved_bytes += more;
        // 3. The contents go to the slots, and are durable.
        let LaneState { lane: in_lane, slots: states, stats, .. } = &mut *state;
        let mut in_lane = InLane { lane: in_lane, states };
        let Batch { staged, active, .. } = &*running;
        let mut contents: Vec<_> = picked.iter().map(|at| spilled(staged, active, *at)).collect();
        if let Err(error) = in_lane.spill(&self.common, &mut contents) {
            drop(contents);
            drop(gathered);
            return failed_fence(self, error);
        }
        stats.fences += 1;
        stats.new_slots += taken;
        let blocks = picked.iter().map(|at| staged.block(*at));
        let named = blocks.zip(contents.into_iter().map(|content| content.active));
        let named: BTreeMap<_, _> =
            named.filter_map(|(block, active)| active.map(|active| (block, active))).collect();
        debug_assert_eq!(named.len(), picked.len(), "slots were reserved");
        // 4. They leave the memory.
        running.staged.retain(|block| !named.contains_key(&block));
        running.both -= moved_both;
        let moved = named.len();
        running.active.extend(named);
        let spare = running.reserved_bytes.saturating_sub(needed);
        running.reserved_bytes -= spare;
        gathered.stats.spilled += moved as u64;
        drop(gathered);
        drop(state);
        cell.unreserved.give(spare);
        if spare > 0 && self.is_room_awaited() {
            self.tell_waiters_for_room();
        }
        Ok(Step { moved, next: next.filter(|_| !is_short) })
    }

    /// Picks blocks of a batch whose images go to slots, from `first` on, and says where to go on.
    fn pick(&self, running: &Batch, first: BlockNumber) -> (Vec<usize>, Option<BlockNumber>) {
        let mut scratch = vec![0; self.common.block_bytes()];
        let mut picked = Vec::new();
        for at in 0..running.staged.count() {
            let block = running.staged.block(at);
            if block < first {
                continue;
            }
            if picked.len() == AT_ONCE {
                return (picked, Some(block));
            }
            let Operation::Update(update) = running.staged.operation(at) else { continue };
            let is_active = running.active.contains_key(&block);
            let mut place = || self.common.policy.place(&update, &mut Encoder::new(&mut scratch));
            if is_active || matches!(place(), Placement::Slot) {
                picked.push(at);
            }
        }
        (picked, None)
    }

    /// Commits a batch of which some is in active slots.
    pub(super) fn commit_spilled(
        &self,
        work: &mut Work,
        sealed: &Batch,
    ) -> Result<Option<Committed>, Error> {
        let Batch { staged, active, lane, .. } = sealed;
        let cell = self.lane(*lane);
        let copies = active.iter().map(|(block, active)| (*block, active.clone()));
        let (mut named, mut given): (Vec<_>, Vec<_>) = (copies.collect(), Vec::new());
        // 1. What memory has of active blocks goes to their slots (SP2). Readers find it in memory
        // as yet, so none looks into these slots.
        for some in named.chunks_mut(AT_ONCE) {
            let is_both = |(block, _): &&mut (BlockNumber, Active)| staged.has(*block);
            let mut both = some.iter_mut().filter(is_both).peekable();
            if both.peek().is_none() {
                continue;
            }
            let mut state = self.lock_lane(cell)?;
            self.check_not_failed()?;
            let LaneState { lane, slots, .. } = &mut *state;
            let mut in_lane = InLane { lane, states: slots };
            for (block, active) in both {
                match staged.operation_of(*block) {
                    Some(Operation::Update(update)) => {
                        in_lane.update_active(&self.common, active, &update.change);
                    }
                    _ => given.push(active.clone()),
                }
            }
        }
        let is_live = |block| !matches!(staged.operation_of(block), Some(Operation::Discard(_)));
        named.retain(|(block, _)| is_live(*block));
        // 2. The record names the slots.
        let operations = BatchOperations::of(staged, &named);
        self.note_overwritten(work, &operations);
        let committed = self.commit_reserved(work, &operations, Keeps::All, Durability::Durable)?;
        // 3. The slots that it does not name are given back (SP4).
        if given.is_empty() {
            return Ok(committed);
        }
        let (mut state, count) = (self.lock_lane(cell)?, given.len() as u64);
        let LaneState { lane, slots, .. } = &mut *state;
        let mut in_lane = InLane { lane, states: slots };
        given.into_iter().for_each(|active| in_lane.deactivate(active));
        drop(state);
        cell.unreserved_slots.give(count);
        Ok(committed)
    }
}

/// The content of a staged block, for its slot if it has one.
fn spilled<'s>(
    staged: &'s Staged,
    active: &BTreeMap<BlockNumber, Active>,
    at: usize,
) -> Spilled<'s> {
    let Operation::Update(update) = staged.operation(at) else {
        unreachable!("images were picked")
    };
    let (block, active) = (update.block, active.get(&update.block).cloned());
    Spilled { block, active, change: update.change }
}

/// The operations of a batch: what memory has, and what active slots have.
struct BatchOperations<'b> {
    staged: &'b Staged,
    named: &'b [(BlockNumber, Active)],
    /// Ascending by block, each with where it is in the one or the other.
    order: Vec<Lies>,
}

/// Where the content of an operation lies.
#[derive(Clone, Copy, Debug)]
enum Lies {
    InMemory(u32),
    InSlot(u32),
}

impl<'b> BatchOperations<'b> {
    fn of(staged: &'b Staged, named: &'b [(BlockNumber, Active)]) -> Self {
        let is_named =
            |block: BlockNumber| named.binary_search_by_key(&block, |(block, _)| *block).is_ok();
        let mut slots = (0_u32..).zip(named).peekable();
        let mut order = Vec::with_capacity(staged.count() + named.len());
        for at in 0..staged.count() {
            let block = staged.block(at);
            if is_named(block) {
                continue;
            }
            while let Some((slot, _)) = slots.next_if(|(_, (before, _))| *before < block) {
                order.push(Lies::InSlot(slot));
            }
            order.push(Lies::InMemory(at as u32));
        }
        order.extend(slots.map(|(slot, _)| Lies::InSlot(slot)));
        Self { staged, named, order }
    }
}

impl Operations for BatchOperations<'_> {
    fn count(&self) -> usize {
        self.order.len()
    }

    fn operation(&self, at: usize) -> Operation<'_> {
        match self.order[at] {
            Lies::InMemory(at) => self.staged.operation(at as usize),
            Lies::InSlot(at) => {
                let (block, active) = &self.named[at as usize];
                Operation::Active(*block, active)
            }
        }
    }
}
