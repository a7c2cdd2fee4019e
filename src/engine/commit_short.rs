//! Short commits: of blocks and shares of the index that are free, where what is logged depends on
//! nothing but the operations. Nothing is reserved except what the lane's holder has in hand, and a
//! share is taken once.
//!
//! Every other commit goes the usual way ([`commit`](crate::engine::commit)), as if the short way
//! had not been tried. A thread that finds a block taken gives back what it has.
//!
//! The lane comes before the blocks here. That is allowed, since the thread waits for none of the
//! blocks. For several operations all shares are held at the same time. That is allowed too, since
//! each share is taken only if it is free: no thread waits for a share with another in hand. One
//! operation waits for its only share.
//!
//! **Crash**: as in `journal_core`.

use journal_core::parts::{
    Alone, Content, Ends, FrameAt, FreeRoom, Full, InLane, PiecesOf, Prepared, Several, Sole,
    Versions, is_of_run, share_of,
};
use journal_core::policy::Policy;
use journal_core::units::{LaneNumber, SlotNumber};
use journal_core::{BlockNumber, Committed, Durability, Operation};
use pmem_sys::StoreLockGuard;

use crate::engine::commit::{LaneGuard, RecordTo, is_left_unfenced};
use crate::engine::read::Keeps;
use crate::error::Error;
use crate::machine::Machine;
use crate::options::SHARES_MAX;
use crate::shared::Shared;
use crate::shared::home_cell::one_sync::DiskOf;
use crate::shared::lane_cell::{LaneCell, LaneState};
use crate::shared::share::Share;
use crate::staging::seat::Seat;
use crate::staging::work::Work;
use crate::threads::block_locks::{Age, Stripe};

/// The most operations of which all shares are taken at once, and the most bytes: other threads
/// wait for the shares while the images go out.
const FEW: usize = 16;
const FEW_BYTES: u64 = 128 << 10;

const _: () = assert!(FEW <= 32, "each operation has a bit");

/// Operations are committed as images, to end chains of frames, if these take at most the lane
/// divided by this.
const WHOLE_PART: u64 = 4;

/// No guard.
const NOT_HELD: u8 = FEW as u8;

/// A share of the index, taken.
type ShareGuard<'s> = StoreLockGuard<'s, Share>;

/// The shares of the blocks of a few operations, taken.
struct HeldShares<'s, 'o, L, M: Machine> {
    shared: &'s Shared<L, M>,
    operations: &'o [Operation<'o>],
    guards: [Option<ShareGuard<'s>>; FEW],
    /// For each operation, the guard of its block.
    of: [u8; FEW],
    /// Which operations have taken their blocks: a bit for each.
    taken: u32,
    /// The operation whose frame comes next, or one before it.
    next: usize,
    /// Whether the policy has asked for what depends on more than the operations.
    depends: bool,
    /// Whether a block that has a long chain of frames keeps the commit from being short.
    ends_chains: bool,
}

impl<'s, 'o, L, M: Machine> HeldShares<'s, 'o, L, M> {
    fn none(shared: &'s Shared<L, M>, operations: &'o [Operation<'o>]) -> Self {
        Self {
            shared,
            operations,
            guards: [const { None }; FEW],
            of: [0; FEW],
            taken: 0,
            next: 0,
            depends: false,
            ends_chains: false,
        }
    }

    /// Takes all blocks and their shares, and notes what is overwritten; returns whether all were
    /// free, with room for the frames.
    #[inline(always)]
    fn take_all(&mut self, work: &mut Work, age: Age) -> Result<bool, Error> {
        let (shared, operations) = (self.shared, self.operations);
        let (mut held, mut count, mut at) = ([NOT_HELD; SHARES_MAX], 0_u8, 0);
        // Blocks of a run are of one share.
        for run in operations.chunk_by(|a, b| is_of_run(a.block(), b.block())) {
            let Some(block) = run.first().map(Operation::block) else { continue };
            let number = share_of(block, shared.shares.len());
            let held = &mut held[number];
            if *held == NOT_HELD {
                let guard = shared.shares[number].try_lock().map_err(|_| shared.poisoned())?;
                let Some(guard) = guard else { return Ok(false) };
                (self.guards[usize::from(count)], *held) = (Some(guard), count);
                count += 1;
            }
            let Some(share) = &mut self.guards[usize::from(*held)] else { return Ok(false) };
            // Some of the operations may be of the same share.
            let lacks = share.index.free_frames() < share.reserved + operations.len();
            let ends_chain = self.ends_chains && shared.ends_chain_in(share, run);
            if lacks || ends_chain || shared.wants_step(share) {
                return Ok(false);
            }
            let (taken, count) = shared.lock_run(share, work, age, run);
            self.taken |= taken << at;
            if count < run.len() {
                return Ok(false);
            }
            self.of[at..at + run.len()].fill(*held);
            at += run.len();
        }
        Ok(true)
    }
}

impl<L, M: Machine> Versions for HeldShares<'_, '_, L, M> {
    fn older_slot(&mut self, _block: BlockNumber) -> Option<SlotNumber> {
        self.depends = true;
        None
    }

    fn may_go_home(&mut self, _block: BlockNumber) -> bool {
        self.depends = true;
        false
    }

    fn is_own(&self, _slot: SlotNumber) -> bool {
        false
    }

    #[inline(always)]
    fn take_in(&mut self, frame: FrameAt) -> Result<(), Full> {
        // There is not a frame of every operation, but the frames come in the operations' order.
        while self.operations[self.next].block() != frame.block {
            self.next += 1;
        }
        match &mut self.guards[usize::from(self.of[self.next])] {
            Some(share) => self.shared.insert_frame(share, frame),
            None => unreachable!("the shares of all operations were taken"),
        }
    }
}

impl<L, M: Machine> Shared<L, M> {
    /// Whether one of these operations, which are of this share, is to be a whole image since its
    /// block has a long chain of frames. Where only frames are short, a short commit lets it grow.
    #[cold]
    fn ends_chain_in(&self, share: &mut Share, operations: &[Operation<'_>]) -> bool {
        let mut blocks = operations.iter().map(Operation::block);
        blocks.any(|block| share.index.has_chain_of(block, self.whole_after))
    }
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Whether a call of this number of operations may end chains of frames by images. Not if all
    /// of its blocks' images would take much of a lane, where what changes may be few bytes.
    pub(crate) const fn may_end_chains(&self, operations: usize) -> bool {
        self.record_bytes_max(operations) <= self.common.geometry.lane_bytes / WHOLE_PART
    }

    /// Whether it ends chains that are as long as the host says.
    #[inline(always)]
    const fn ends_chains(&self, operations: usize) -> bool {
        self.whole_after > 0 && self.may_end_chains(operations)
    }

    /// Begins to bring into the caches what a look-up needs for one operation, or for a few. Call
    /// it at the very beginning (C9).
    #[inline(always)]
    pub(crate) fn prefetch_first(&self, operations: &[Operation<'_>]) {
        match operations {
            [operation] => self.prefetch_block(operation.block()),
            few if few.len() <= FEW => self.prefetch_blocks(few),
            _ => {}
        }
    }

    /// Commits one operation, all of a transaction, by the shortest way. For this, all that it
    /// takes is there at once, and what it logs depends on nothing else. Otherwise `None`; then
    /// nothing has changed.
    #[inline(always)]
    pub(crate) fn commit_sole(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        age: Age,
        operation: &Operation<'_>,
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        self.commit_alone::<Sole<'_>>(seat, age, operation, durability)
    }

    /// Like [`commit_sole`](Self::commit_sole), for an operation of several patches. It is a
    /// function of its own, so that it takes no register that others need.
    #[inline(never)]
    pub(crate) fn commit_several(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        age: Age,
        operation: &Operation<'_>,
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        self.commit_alone::<Several<'_>>(seat, age, operation, durability)
    }

    #[inline(always)]
    fn commit_alone<'o, A: Alone<'o, L, M::Kernels>>(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        age: Age,
        operation: &Operation<'o>,
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let lane = seat.work.lane;
        seat.work.begins_to_commit(durability);
        let (front, encoded) = seat.work.for_one();
        // Before any lock, since each lock waits for the last commit's fence.
        let Some(mut alone) = A::of(&self.common, operation, encoded) else { return Ok(None) };
        let block = alone.sole().block();
        let cell = self.lane(lane);
        let mut state = cell.turn.take_to_commit().map_err(|_| self.poisoned())?;
        let most = self.common.sole_bytes_max(alone.sole());
        let locked = match self.see_to_hand(lane, &mut state, most) {
            true => self.lock_sole(lane, age, operation)?,
            false => None,
        };
        let Some((mut share, stripe)) = locked else {
            self.give_lane_back(cell, state)?;
            return Ok(None);
        };
        self.check_not_failed()?;
        let guard = self.failure.guard();
        self.common.prefetch_next_node(&share.index);
        let lead = share.index.lead(block);
        if let Some(lead) = &lead {
            self.common.prefetch_lead(&share.index, lead);
        }
        let overwritten = alone.sole_mut().overwrite(&share.index, lead, lane);
        self.prefetch_patched(&share, operation);
        let to = RecordTo { lane, overwritten, durability, bytes: most, is_noted: false };
        let mut record = self.begin_record(&state, cell, to);
        let open = &mut record.open;
        let frame = alone.store(&self.common, &mut state.lane, open, front, encoded);
        let inserted = self.insert_frame(&mut share, frame);
        assert!(inserted.is_ok(), "room for the frame was looked for");
        share.give_back();
        if is_left_unfenced(durability, most) {
            seat.work.defers = true;
        }
        let result = self.end_record(state, record, cell, 1).map(Some);
        guard.end();
        self.after_record(core::slice::from_ref(operation), Keeps::All, &result);
        if self.may_unlock(&result) {
            self.blocks.unlock(stripe);
            self.tell_waiters_for(stripe);
        }
        result
    }

    /// Takes a block with its share of the index, which must have room for its frame. The caller
    /// holds the lane. Succeeds only if both are free and nothing has to be done before.
    #[inline(always)]
    fn lock_sole(
        &self,
        lane: LaneNumber,
        age: Age,
        operation: &Operation<'_>,
    ) -> Result<Option<(ShareGuard<'_>, Stripe)>, Error> {
        let block = operation.block();
        let mut share = self.lock_share(block)?;
        self.prefetch_entry(&share, block);
        let stripe = self.blocks.stripe(block);
        let locks = self.blocks.of_run(block);
        // The usual way takes a step where the share is low on frames.
        let has_room =
            share.has_room() && !self.wants_step(&share) && !self.lacks_pin(&mut share, block);
        let operations = core::slice::from_ref(operation);
        let ends_chain = self.ends_chains(1) && self.ends_chain_in(&mut share, operations);
        if !has_room || ends_chain || locks.try_lock(&share.claims, block, age) != Some(true) {
            return Ok(None);
        }
        // Another thread may have deferred or gathered this block's last content, and said so
        // before unlocking. The usual way handles that. Nor does this take a frame that another
        // transaction waits for.
        if self.gathering.has_any() || self.has_deferred_beside(lane) || self.is_room_awaited() {
            self.blocks.unlock(stripe);
            self.tell_waiters_for(stripe);
            return Ok(None);
        }
        Ok(Some((share, stripe)))
    }

    /// Commits a few operations, all of a transaction, like [`commit_sole`](Self::commit_sole).
    #[inline]
    pub(crate) fn commit_few(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        age: Age,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        if !(2..=FEW).contains(&operations.len()) || self.common.geometry.lane_slots_and_log() > 0 {
            return Ok(None);
        }
        // 1. What is logged is prepared. It must depend on nothing but the operations.
        let lane = seat.work.lane;
        let mut held = HeldShares::none(self, operations);
        held.ends_chains = self.ends_chains(operations.len());
        let (names, mut scratch, _) = seat.work.for_preparing();
        let pieces = self.common.pieces(operations);
        let prepared = match &pieces {
            Some(pieces) => self.common.prepared(pieces, names),
            // C1: in registers, as pieces are; otherwise by memory.
            None => match self.common.prepared_images(operations, names) {
                Some(prepared) => Some(prepared),
                None => {
                    let free = FreeRoom::default();
                    self.common.prepare(operations, names, &mut scratch, free, &mut held).ok()
                }
            },
        };
        let is_short = |prepared: &Prepared| prepared.is_one_part() && prepared.bytes <= FEW_BYTES;
        let prepared = prepared.filter(|prepared| is_short(prepared) && !held.depends);
        let Some(prepared) = prepared else { return Ok(None) };
        // 2. Lane, shares and blocks are taken, if all of them are free.
        let cell = self.lane(lane);
        let mut state = cell.turn.take_to_commit().map_err(|_| self.poisoned())?;
        let most = prepared.bytes_max(&self.common.geometry);
        let is_taken = self.see_to_hand(lane, &mut state, most)
            && held.take_all(&mut seat.work, age)?
            && !self.gathering.has_any()
            && !self.has_deferred_beside(lane)
            && !self.is_room_awaited();
        let (work, taken) = (&mut seat.work, held.taken);
        if !is_taken {
            drop(held);
            self.unlock_few(operations, age, taken);
            work.clear();
            self.give_lane_back(cell, state)?;
            return Ok(None);
        }
        // 3. The record is stored, and the index learns of it.
        work.begins_to_commit(durability);
        if is_left_unfenced(durability, most) {
            work.defers = true;
        }
        self.check_not_failed()?;
        let to = RecordTo {
            lane,
            overwritten: work.overwritten,
            durability,
            bytes: most,
            is_noted: false,
        };
        let guard = self.failure.guard();
        let mut record = self.begin_record(&state, cell, to);
        let open = &mut record.open;
        let (names, mut scratch, _) = work.for_preparing();
        let ends = Ends::Record;
        let LaneState { lane: at, slots, .. } = &mut *state;
        if let Some(pieces) = &pieces {
            let content = PiecesOf { operations, pieces, names, ends };
            self.common.store_pieces(at, open, &content, scratch.front, &mut held);
        } else {
            let content = Content { operations, names, prepared: &prepared, ends };
            let mut in_lane = InLane { lane: at, states: slots };
            self.common.store(&mut in_lane, open, &content, &mut scratch, &mut held);
        }
        drop(held);
        // 4. The fence. Then everything is given back.
        let result = self.end_record(state, record, cell, prepared.frames).map(Some);
        guard.end();
        self.after_record(operations, Keeps::All, &result);
        if self.may_unlock(&result) {
            self.unlock_few(operations, age, taken);
        }
        work.clear();
        result
    }

    /// Gives back those blocks of a few operations whose bit is set.
    #[inline(always)]
    fn unlock_few(&self, operations: &[Operation<'_>], age: Age, mut taken: u32) {
        for run in operations.chunk_by(|a, b| is_of_run(a.block(), b.block())) {
            let Some(first) = run.first().map(Operation::block) else { continue };
            let locks = self.blocks.of_run(first);
            for operation in run {
                if taken & 1 != 0 {
                    locks.unlock(operation.block(), age);
                }
                taken >>= 1;
            }
        }
        let asleep = self.waiting.asleep();
        if !asleep.is_nobody() {
            let stripe = |operation: &Operation<'_>| self.blocks.stripe(operation.block());
            self.wake_waiters(asleep, operations.iter().map(stripe));
        }
    }

    /// Whether another lane than this one has deferred records.
    #[inline]
    fn has_deferred_beside(&self, lane: LaneNumber) -> bool {
        let mut lanes = (0..).map(LaneNumber).zip(&self.lanes);
        lanes.any(|(number, cell)| number != lane && cell.reach.has_deferred())
    }

    /// Gives back a lane that nothing was stored in.
    #[cold]
    fn give_lane_back(&self, cell: &LaneCell<M>, state: LaneGuard<'_, M>) -> Result<(), Error> {
        let is_awaited = state.group.is_awaited();
        drop(state);
        // Other committers have left it to this one to fence.
        if is_awaited { self.make_lane_durable(cell, false) } else { Ok(()) }
    }
}
