//! Transactions larger than any buffer: stored part by part while they are still being made.
//!
//! A streamed transaction takes its lane for itself. Its whole size is reserved when it begins, so
//! that it can never run out of space half-way. Nothing of it counts before its last part is
//! stored, which [`Streamed::commit`] does. Until then it can be aborted without a trace; after
//! that it no longer can.
//!
//! **Crash** before the commit's fence: the parts that are there are void without a valid last one,
//! whose check covers all of them, in order. What they were is not remembered.

use core::fmt;

use crate::commit::error::CommitError;
use crate::commit::operation::Operation;
use crate::commit::prepared::{Content, NoVersions, Scratch};
use crate::format::front::extent;
use crate::order::ordered::Pace;
use crate::order::rule::Rule;
use crate::owner::journal::{Committed, Journal, scratch};
use crate::owner::machine::Machine;
use crate::ports::policy::Policy;
use crate::space::lane::{Ends, FreeRoom, InLane, Names, OpenRecord};
use crate::space::part::{Encoded, Part, PartStore};
use crate::units::{LaneNumber, Stamp};

/// A transaction under way. Dropped, it is aborted. Of one that is forgotten (`mem::forget`) nobody
/// fences what is on its way: the journal then refuses to go on, until it is opened again.
pub struct Streamed<'j, 'm, L: Policy, M: Machine> {
    journal: &'j mut Journal<'m, L, M>,
    lane: LaneNumber,
    /// `None` once it has ended, by a panic too.
    open: Option<OpenRecord>,
    /// Bytes that are reserved and not used yet, the closing part's left out.
    left_bytes: u64,
    frames: usize,
}

impl<'m, L: Policy, M: Machine> Journal<'m, L, M> {
    /// Begins a transaction that is stored while it is made. Reserves `bytes` of the lane for it:
    /// what its parts take (see [`Streamed::write`]), and two lines to close it.
    ///
    /// # Errors
    /// `TooLarge`, `NoSpace`, `NoSuchLane`, `Failed`; and `Medium`, when making deferred
    /// transactions of other lanes durable fails.
    pub fn begin(
        &mut self,
        lane: LaneNumber,
        bytes: u64,
    ) -> Result<Streamed<'_, 'm, L, M>, CommitError> {
        self.check_usable(lane)?;
        let closing = extent(&self.common.geometry, 0, 0, 0, 0).map_or(0, |extent| extent.total);
        self.see_to_space(lane, bytes.max(closing), 0)?;
        self.make_other_lanes_durable(lane)?;
        // Which blocks will be overwritten is not known yet: the stamp is above all of them.
        let lanes = (0..self.common.geometry.lanes).map(LaneNumber);
        let highest = lanes.map(|lane| self.lane(lane).last_stamp).fold(Stamp(0), Stamp::max);
        let stamp = Stamp(highest.raw().saturating_add(1));
        let open = self.lane(lane).begin(stamp, Pace::AtOnce);
        let left_bytes = bytes.saturating_sub(closing);
        Ok(Streamed { journal: self, lane, open: Some(open), left_bytes, frames: 0 })
    }
}

impl<L: Policy, M: Machine> Streamed<'_, '_, L, M> {
    /// Stores operations, ascending by block; a block may come again in a later call. Takes of the
    /// reserved bytes what a commit of the same operations would.
    ///
    /// The old images and change ranges are those of the committed content, or of what this
    /// transaction wrote before.
    ///
    /// # Errors
    /// As [`Journal::commit`], with the transaction as it was before the call; `NoSpace` where less
    /// was reserved.
    pub fn write(&mut self, operations: &[Operation<'_>]) -> Result<(), CommitError> {
        if self.open.is_none() {
            return Err(CommitError::Failed);
        }
        let journal = &mut *self.journal;
        journal.common.validate(operations)?;
        let mut names = Names::NONE;
        journal.overwritten(self.lane, operations, &mut names);
        let prepared = match journal.common.prepare(
            operations,
            &names,
            &mut scratch!(journal),
            FreeRoom::default(),
            &mut NoVersions,
        ) {
            Err(CommitError::Unchanged) => return Ok(()),
            prepared => prepared?,
        };
        if prepared.bytes > self.left_bytes {
            return Err(CommitError::NoSpace { needed: prepared.bytes, free: self.left_bytes });
        }
        let needed = self.frames.saturating_add(prepared.frames);
        journal.see_to_space(self.lane, prepared.bytes, needed)?;
        let ends = if journal.keeps(Rule::LastPartAtCommit) { Ends::Nothing } else { Ends::Record };
        // Nothing else may be stored in its place before a fence. One that ends it takes this back;
        // where the policy panics between parts, nothing does, and it has no end.
        journal.fail();
        let Some(mut open) = self.open.take() else { return Err(CommitError::Failed) };
        let (mut lane, mut scratch) = (journal.lanes.in_lane(self.lane), scratch!(journal));
        let content = Content { operations, names: &names, prepared: &prepared, ends };
        journal.common.store(&mut lane, &mut open, &content, &mut scratch, &mut NoVersions);
        self.open = Some(open);
        let bytes = prepared.bytes;
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        self.frames = needed;
        Ok(())
    }

    /// Stores the last part and makes all of it durable: one fence.
    ///
    /// # Errors
    /// `Unchanged` when nothing was written, and `Medium`: the outcome is unknown, the journal
    /// refuses to go on.
    pub fn commit(mut self) -> Result<Committed, CommitError> {
        let Some(mut open) = self.open.take() else { return Err(CommitError::Failed) };
        let journal = &mut *self.journal;
        let lane = journal.lanes.in_lane(self.lane).lane;
        if self.frames == 0 {
            // Nothing of it is stored.
            lane.abandon(open).map_err(CommitError::Medium)?;
            return Err(CommitError::Unchanged);
        }
        let part = Part {
            frame_count: 0,
            frames: core::iter::empty(),
            encoded: Encoded::Whole(&[]),
            image_count: 0,
            names: &Names::NONE,
            last: true,
        };
        let (geometry, kernels) = (&journal.common.geometry, &journal.common.kernels);
        let store = PartStore { geometry, front: journal.front, takes_in_first: false };
        lane.store_part(&mut open, &part, kernels, store, |_| {});
        journal.index_parts(self.lane, &open).map_err(CommitError::Medium)?;
        let InLane { lane, states } = journal.lanes.in_lane(self.lane);
        let (sequence, stamp) = (open.sequence, open.stamp);
        let durable = lane.close_and_fence(open, states, false).map_err(CommitError::Medium)?;
        debug_assert!(durable.is_none_or(|durable| *durable.what() == sequence));
        journal.failed = false;
        Ok(Committed { lane: self.lane, sequence, stamp })
    }

    /// Gives the transaction up: as if it had never begun. One fence, where anything of it is
    /// stored; should that fail, the journal refuses whatever comes next.
    pub fn abort(self) {
        drop(self);
    }
}

/// Shows how far the transaction is. What the journal holds belongs to its owner.
impl<L: Policy, M: Machine> fmt::Debug for Streamed<'_, '_, L, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lane, open, left_bytes, frames, .. } = self;
        let mut out = f.debug_struct("Streamed");
        out.field("lane", lane).field("open", open);
        out.field("left_bytes", left_bytes).field("frames", frames).finish_non_exhaustive()
    }
}

impl<L: Policy, M: Machine> Drop for Streamed<'_, '_, L, M> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            let abandoned = self.journal.lanes.in_lane(self.lane).lane.abandon(open);
            if abandoned.is_ok() {
                self.journal.failed = false;
            }
        }
    }
}
