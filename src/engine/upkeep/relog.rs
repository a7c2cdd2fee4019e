//! Re-logging: a head goes on without the disk, since what it would have to keep is stored anew.
//!
//! A block that is written once and then rests pins everything behind it in its lane. Its content
//! is copied, and the head passes it. It goes to a slot, if the lane has slots to spare, or else
//! behind the tail.
//!
//! RL1. A copy behind the tail takes ring space too. It is made only where it takes at most that
//!      share of what comes free which the thresholds say. Half of it, the default, means that a
//!      byte that a commit stores is copied once at most, on average.
//! RL2. A copy in a slot takes no ring space. It is made only as long as the slots beyond the
//!      threshold of writing home last, so that none goes home for it.
//! RL3. A copy is a transaction of what is committed already, as in
//!      [`move_to_log`](crate::engine::upkeep::move_to_log). What is to be copied is found without
//!      the blocks, and looked at again with each block in hand. The upkeep waits for no block:
//!      one that a transaction has stays where it is.
//! RL4. A discard is let go of, and not copied, where nothing older can outlive it.
//!
//! **Crash**: as for a commit. Before the copy is durable, what it copies is still there.

use journal_core::parts::{
    FrameAt, Goes, HomeScratch, Kept, Waiting, kept_at_head, let_go_of_discard,
};
use journal_core::policy::Policy;
use journal_core::units::LaneNumber;
use journal_core::{Batched, BlockNumber, CheckpointReport, Operation, Rule};

use crate::engine::upkeep::move_to_log::{Newest, Takes};
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::home_cell::UpkeepCell;
use crate::shared::home_cell::one_sync::DiskOf;
use crate::shared::lending::SharesOf;
use crate::shared::levels::Stage;
use crate::staging::seat::Seat;
use crate::threads::block_locks::Age;

/// The most blocks that one copy takes along. A step would be too short: the stretch of a ring that
/// gains by a copy may have more blocks.
const COPIED_MAX: usize = 1024;

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Frees what can be freed without the device, for a transaction that needs room or a commit.
    /// What is in slots is folded, and not copied.
    pub(super) fn make_room_in_memory(
        &self,
        cell: &mut UpkeepCell,
        is_there: impl Fn() -> bool,
    ) -> Result<(), Error> {
        if is_there() || cell.in_vain == Some(self.readable()) {
            return Ok(());
        }
        if self.common.geometry.lane_slots_and_log() > 0 {
            self.fold_rings(cell)?;
            if !is_there() {
                self.free_superseded(cell)?;
            }
        }
        self.relog(cell, is_there)
    }

    /// Lets heads go on, as far as copies are worth it: those of the fullest lanes first.
    pub(super) fn relog(
        &self,
        cell: &mut UpkeepCell,
        is_there: impl Fn() -> bool,
    ) -> Result<(), Error> {
        if !self.relogs || is_there() {
            return Ok(());
        }
        let mut lanes: Vec<_> = (0..self.common.geometry.lanes).map(LaneNumber).collect();
        lanes.sort_by_key(|lane| self.lane(*lane).unreserved.left());
        for lane in lanes {
            while !is_there() && self.relog_once(cell, lane)? {}
        }
        Ok(())
    }

    /// Where copies go that one lane makes room with, and how many there may be.
    fn copies_of(&self, lane: LaneNumber) -> (Goes, usize) {
        let kept = self.levels.of(Stage::WriteHome).slots;
        let spare = self.lane(lane).unreserved_slots.left().saturating_sub(kept);
        match usize::try_from(spare).unwrap_or(usize::MAX).min(COPIED_MAX) {
            0 => (Goes::IntoRecord, COPIED_MAX),
            most => (Goes::ToSlots, most),
        }
    }

    /// Copies what keeps one head back, and lets it go on. Returns whether bytes came free.
    fn relog_once(&self, cell: &mut UpkeepCell, lane: LaneNumber) -> Result<bool, Error> {
        self.check_not_failed()?;
        // 1. What is to be copied.
        let (goes, most) = self.copies_of(lane);
        let Some(found) = self.kept_at(cell, lane, (goes, most))? else { return Ok(false) };
        // 2. The copy.
        if !found.is_empty() && self.copy(lane, &found, goes)? == 0 {
            return Ok(false);
        }
        // 3. The head.
        if self.common.geometry.lane_slots_and_log() > 0 {
            let freed = self.fold_rings(cell)?.freed_bytes;
            return Ok(freed > 0);
        }
        let mut report = CheckpointReport::default();
        let _ = self.let_heads_pass(cell, &mut report)?;
        if report.freed_bytes > 0 {
            self.tell_waiters_for_room();
        }
        Ok(report.freed_bytes > 0)
    }

    /// Finds the blocks that keep a head back, in their order. `None` where copies are not worth
    /// it.
    fn kept_at(
        &self,
        cell: &mut UpkeepCell,
        lane: LaneNumber,
        (goes, most): (Goes, usize),
    ) -> Result<Option<Vec<BlockNumber>>, Error> {
        let mut batch = vec![Batched::EMPTY; most];
        let UpkeepCell { front, payload, blocks, .. } = cell;
        let waiting = Waiting::in_memory(&mut []);
        let mut scratch = HomeScratch { batch: &mut batch, front, payload, blocks, waiting };
        // What others have reserved takes no copy.
        let room = self.lane(lane).unreserved.left();
        let state = self.lock_lane(self.lane(lane))?;
        let (common, shares) = (&self.common, &mut SharesOf(self));
        let kept = kept_at_head(
            common,
            &state.lane,
            shares,
            &mut scratch,
            (goes, self.levels.copied, room),
        );
        drop(state);
        let kept = kept.map_err(Error::from).inspect_err(|error| self.fail_of(*error))?;
        Ok(kept.map(|Kept { blocks, .. }| {
            let mut found: Vec<_> = batch[..blocks].iter().map(Batched::block).collect();
            found.sort_unstable();
            found
        }))
    }

    /// Copies blocks that are free, or lets go of them. Returns how many.
    fn copy(&self, lane: LaneNumber, found: &[BlockNumber], goes: Goes) -> Result<u64, Error> {
        let block_bytes = self.common.block_bytes();
        let mut seat = self.seats.sit();
        let age = seat.last_age();
        seat.work.lane = lane;
        let mut images = vec![0; found.len() * block_bytes];
        let mut images = images.chunks_exact_mut(block_bytes);
        let (mut operations, mut let_go) = (Vec::with_capacity(found.len()), 0);
        for block in found {
            let Some(image) = images.next() else { break };
            match self.take_to_copy(&mut seat, age, *block, image) {
                Ok(Some(Newest::Discard)) if self.lets_go_of(*block) => let_go += 1,
                Ok(Some(Newest::Discard)) => operations.push(Operation::Discard(*block)),
                Ok(Some(Newest::Content)) => operations.push(Operation::write(*block, image)),
                Ok(None) => {}
                Err(error) => {
                    self.abort(&mut seat.work, &operations[..]);
                    return Err(error);
                }
            }
        }
        Ok(let_go + self.commit_moved(&mut seat, &operations, goes)?)
    }

    /// Lets go of a block that was taken and is discarded (RL4); whether it can. The room that was
    /// reserved for its frame is given back then.
    fn lets_go_of(&self, block: BlockNumber) -> bool {
        let Ok(mut share) = self.lock_share(block) else { return false };
        let is_durable = |frame: &FrameAt| self.lane(frame.lane).reach.is_durable(frame.sequence);
        let goes = let_go_of_discard(&mut share.index, block, is_durable);
        share.reserved -= usize::from(goes);
        goes
    }

    /// Takes a block with room for its frame, and reads it, if it is free. It may have changed
    /// since it was found.
    fn take_to_copy(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        age: Age,
        block: BlockNumber,
        image: &mut [u8],
    ) -> Result<Option<Newest>, Error> {
        let newest = self.take_to_move(seat, age, block, image, Takes::Discards)?;
        if !self.keeps(Rule::CopyIsNewest) {
            image.fill(0);
        }
        Ok(newest)
    }
}
