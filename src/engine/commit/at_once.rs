//! A call with all operations at hand, of any number, which stages none of them.

use journal_core::parts::{Operations, Prepared, RUN_BLOCKS};
use journal_core::policy::{Change, Policy};
use journal_core::{BlockNumber, CommitError, Committed, Durability, Operation};

use crate::engine::read::Keeps;
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::home_cell::one_sync::DiskOf;
use crate::staging::old_images::{OnLoans, OnOlds};
use crate::staging::seat::Seat;
use crate::staging::work::Work;
use crate::threads::block_locks::Age;

/// How many operations ahead of the one whose block is taken the prefetch into the caches goes.
const TAKEN_AHEAD: usize = 2 * RUN_BLOCKS as usize;

/// What a policy sees of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sees {
    /// Its operations, as they are.
    Operations,
    /// The operations, with what their live blocks hold.
    Olds,
    /// The operations. Where one is a whole image and nothing more is said of it, it comes with
    /// what its block holds, if that is kept in ordinary memory.
    CachedOlds,
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Whether a block of these operations has a long chain of frames, which an image of it would
    /// end, and which the policy may make longer. Where the journal itself gives the policy old
    /// content, it gives none of such a block, so that an image is logged whole.
    pub(crate) fn ends_any_chain(&self, operations: &[Operation<'_>], sees: Sees) -> bool {
        let may_add = |operation: &Operation<'_>| match operation {
            Operation::Update(update) => match update.change {
                Change::Image(_) => update.old.is_some() && sees != Sees::Olds,
                Change::Ranges { .. } => sees != Sees::Olds,
                _ => true,
            },
            _ => false,
        };
        let ends = |block| {
            self.lock_share(block)
                .is_ok_and(|mut share| share.ends_chain_of(block, self.whole_after))
        };
        (self.common.policy.logs_patches() || self.whole_after > 0)
            && self.may_end_chains(operations.len())
            && operations.iter().any(|operation| may_add(operation) && ends(operation.block()))
    }

    /// Locks, reserves and commits in one call. Nothing is staged except for the old images, where
    /// the policy sees them.
    pub(crate) fn commit_at_once(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        age: Age,
        operations: &[Operation<'_>],
        durability: Durability,
        sees: Sees,
    ) -> Result<Option<Committed>, Error> {
        seat.work.keeps_chains = !self.may_end_chains(operations.len());
        let result = self.commit_unstaged(seat, age, operations, durability, sees);
        seat.work.keeps_chains = false;
        if sees != Sees::Operations {
            seat.staged.olds.clear();
        }
        result
    }

    #[inline]
    fn commit_unstaged(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        age: Age,
        operations: &[Operation<'_>],
        durability: Durability,
        sees: Sees,
    ) -> Result<Option<Committed>, Error> {
        let work = &mut seat.work;
        work.begins_to_commit(durability);
        // 1. A transaction that waits for room goes first.
        if let (true, Some(first)) = (self.is_room_awaited(), operations.first()) {
            // How much the transaction takes is known later.
            if let Err(error) = self.await_room_to_begin(work, age, first.block(), 0) {
                self.abort(work, &operations[..0]);
                return Err(error);
            }
        }
        // 2. Blocks are locked, and frames are reserved.
        let (mut at, mut prefetched) = (0, 0);
        while at < operations.len() {
            let ahead = operations.len().min(at + TAKEN_AHEAD);
            self.prefetch_blocks(&operations[prefetched..ahead]);
            prefetched = ahead;
            match self.take_some(work, age, operations, at) {
                Ok(count) => at += count,
                Err(error) => {
                    self.abort(work, &operations[..at]);
                    return Err(error);
                }
            }
        }
        if work.on_gathered {
            if let Err(error) = self.make_gathered_durable(work, operations) {
                self.abort(work, operations);
                return Err(error);
            }
        }
        // 3. The policy is asked, with old images if it sees them.
        // The policy and the device may panic.
        let guard = self.failure.guard();
        let lends = operations.len() < work.copies_from;
        if let Some(loans) = if lends { self.loans_to(operations, sees) } else { None } {
            if let Some(prepared) = self.prepare_on_loans(work, &loans) {
                guard.end();
                return self.reserve_and_commit(work, &loans, prepared, durability);
            }
            work.copies_from = operations.len();
        }
        let kept = match sees {
            Sees::Operations => Ok(()),
            Sees::Olds => self.keep_olds(seat, operations),
            Sees::CachedOlds => self.keep_cached_olds(seat, operations),
        };
        if let Err(error) = kept {
            guard.end();
            self.abort(&mut seat.work, operations);
            return Err(error);
        }
        let Seat { work, staged, .. } = seat;
        let olds = (sees != Sees::Operations).then_some(&staged.olds);
        let operations = &OnOlds { operations, olds, are_all: sees == Sees::Olds };
        // 4. Bytes are reserved, and the record is stored. Everything is known by now, so no more
        //    is reserved than the record takes.
        let prepared = self.prepare_to_fit(work, operations);
        let is_one_part = prepared.is_ok_and(|prepared| prepared.is_one_part());
        if is_one_part || prepared == Err(CommitError::Unchanged) {
            work.copies_from = usize::MAX;
        }
        guard.end();
        self.reserve_and_commit(work, operations, prepared, durability)
    }

    /// Reserves the bytes of the record, and stores it.
    #[inline]
    fn reserve_and_commit<O: Operations + ?Sized>(
        &self,
        work: &mut Work,
        operations: &O,
        prepared: Result<Prepared, CommitError>,
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let bytes = prepared.map_or(0, |prepared| prepared.bytes);
        let last = operations.count().checked_sub(1);
        let last = last.map_or(BlockNumber(0), |at| operations.block(at));
        if let Err(error) = self.reserve_bytes(work, bytes, last) {
            self.abort(work, operations);
            return Err(error);
        }
        self.commit_and_give_back(work, operations, Keeps::All, (prepared, None), durability)
    }

    /// The operations of a call on old images that are lent. `None` where they are copied, or not
    /// wanted. A policy that bypasses may be asked twice (L3).
    #[inline]
    fn loans_to<'o>(&self, operations: &'o [Operation<'o>], sees: Sees) -> Option<OnLoans<'o>> {
        if sees == Sees::Operations || self.common.policy.bypasses_when_full() {
            return None;
        }
        OnLoans::of(operations, sees == Sees::Olds, |block| self.lends_old(block))
    }
}
