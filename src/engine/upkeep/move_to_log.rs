//! Moving blocks into the disk-side log, so that the rings go on, or a segment comes free, without
//! a write home.
//!
//! It is a transaction of content that is committed already, made by the upkeep. A reader of a
//! block sees the same content before, during and after the move. The older version stays as it is
//! until nothing needs it. The new version's stamp is above that of the one that is moved, in
//! whatever lane that lies: it becomes the newest, here as for the next open.
//!
//! The upkeep comes behind blocks in the order of locks. So it waits for no block: it moves those
//! that are free, and takes no room that is not there.
//!
//! **Crash**: as for a commit. Either a block's newest version is the one in the log, or it is what
//! it was, and the log's block is free.

use journal_core::parts::{Goes, Movable, pick_listed, pick_to_move};
use journal_core::policy::Policy;
use journal_core::slot::NamedSlot;
use journal_core::units::{LaneNumber, Stamp};
use journal_core::{BlockNumber, Durability, LINE_BYTES, Operation, Rule};

use crate::engine::read::Keeps;
use crate::engine::upkeep::checkpoint::HeldUpkeep;
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::home_cell::UpkeepCell;
use crate::shared::home_cell::one_sync::DiskOf;
use crate::shared::lending::SharesOf;
use crate::shared::levels::Stage;
use crate::staging::seat::Seat;
use crate::threads::block_locks::Age;

/// What is moved of the blocks that are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// Blocks that are live.
    Content,
    /// Blocks that are live, and frames that say that a block is not.
    Discards,
}

/// What the newest frame of a block says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Newest {
    Content,
    Discard,
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Whether content lives in the disk-side log, so that the upkeep moves blocks there.
    pub(crate) fn moves_to_log(&self) -> bool {
        let has_log = self.common.geometry.lane_log_blocks > 0;
        let keeps_rule = !self.evicts_to_log || self.keeps(Rule::EvictedToLog);
        has_log && self.common.policy.keeps_in_slots() && keeps_rule
    }

    /// Moves blocks that are free, those that were changed longest ago first, with one sync and one
    /// fence. Returns how many.
    pub(crate) fn move_to_log(&self, cell: &mut UpkeepCell, what: Movable) -> Result<u64, Error> {
        let Some((lane, most)) = self.moved_at_once(cell) else { return Ok(0) };
        let mut picked = vec![(Stamp(0), BlockNumber(0)); 2 * most];
        let count = pick_to_move(&mut SharesOf(self), what, most, &mut picked);
        self.move_picked(cell, lane, &picked[..count])
    }

    /// What is moved so that the rings go on. Whole images are too, where blocks are pinned that
    /// the rings have: what stays there would go home instead.
    pub(super) const fn moved_from_rings(&self) -> Movable {
        if self.evicts_to_log { Movable::InRings } else { Movable::Changes }
    }

    /// Empties the rings into the disk-side log, as long as there is room in that, and the rings or
    /// the index need it. Then nothing is left to go home but what the log has no room for.
    pub(super) fn move_changes(
        &self,
        cell: &mut HeldUpkeep<'_>,
        is_there: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let is_short = || {
            let is_short_of_some =
                self.is_short_of_bytes(Stage::Reclaim, None) || self.is_nearly_full();
            !is_there() && is_short_of_some
        };
        self.move_while(cell, self.moved_from_rings(), is_short)
    }

    /// Moves what is in slots into the disk-side log, as long as slots are short, where what is
    /// evicted goes there.
    pub(super) fn move_from_slots(&self, cell: &mut HeldUpkeep<'_>) -> Result<(), Error> {
        let moves = self.evicts_to_log && self.moves_to_log();
        let is_short = || moves && self.slots_are_short(Stage::WriteHome);
        self.move_while(cell, Movable::InMemory, is_short)
    }

    /// Moves what is there of some kind into the disk-side log, as long as room is short and the
    /// log has some.
    fn move_while(
        &self,
        cell: &mut HeldUpkeep<'_>,
        what: Movable,
        is_short: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let mut left = self.frames() as u64;
        while left > 0 && is_short() && self.has_log_to_move_to(cell)? {
            let moved = self.move_to_log(cell, what)?;
            if moved == 0 {
                return Ok(());
            }
            left = left.saturating_sub(moved);
            self.fold_rings(cell)?;
            // The places in slots and in the log that they had before.
            self.free_superseded(cell)?;
        }
        Ok(())
    }

    /// Moves all that is there now of some kind into the disk-side log, as long as there is room in
    /// that.
    pub(super) fn move_all(&self, cell: &mut HeldUpkeep<'_>, what: Movable) -> Result<(), Error> {
        let mut left = self.frames() as u64;
        while left > 0 {
            if self.log_is_short(Stage::WriteHome) {
                // Where blocks were before they were moved.
                self.fold_rings(cell)?;
                self.free_superseded(cell)?;
            }
            if !self.has_log_to_move_to(cell)? {
                return Ok(());
            }
            let moved = self.move_to_log(cell, what)?;
            if moved == 0 {
                return Ok(());
            }
            left = left.saturating_sub(moved);
            cell.let_others_first().map_err(|_| self.poisoned())?;
        }
        Ok(())
    }

    /// Like [`move_to_log`](Self::move_to_log), of blocks whose frames lie nearest to the heads,
    /// and of this number of blocks at most.
    pub(super) fn move_oldest(&self, cell: &mut UpkeepCell, most: usize) -> Result<u64, Error> {
        let Some((lane, at_once)) = self.moved_at_once(cell) else { return Ok(0) };
        let mut picked = vec![(Stamp(0), BlockNumber(0)); most.min(at_once)];
        let listed = cell.left.of(&cell.oldest);
        let (what, most) = (self.moved_from_rings(), picked.len());
        let count = pick_listed(&mut SharesOf(self), what, listed, most, &mut picked);
        self.move_picked(cell, lane, &picked[..count])
    }

    /// Moves those of some blocks that are free, through this lane.
    pub(super) fn move_picked(
        &self,
        cell: &mut UpkeepCell,
        lane: LaneNumber,
        picked: &[(Stamp, BlockNumber)],
    ) -> Result<u64, Error> {
        self.check_not_failed()?;
        let block_bytes = self.common.block_bytes();
        if picked.is_empty() {
            return Ok(0);
        }
        let mut seat = self.seats.sit();
        let age = seat.last_age();
        seat.work.lane = lane;
        let mut images = cell.blocks.chunks_exact_mut(block_bytes);
        let mut operations = Vec::with_capacity(picked.len());
        for (_, block) in picked {
            let Some(image) = images.next() else { break };
            match self.take_to_move(&mut seat, age, *block, image, Takes::Content) {
                Ok(Some(_)) => operations.push(Operation::write(*block, image)),
                Ok(None) => {}
                Err(error) => {
                    self.abort(&mut seat.work, &operations[..]);
                    return Err(error);
                }
            }
        }
        if !self.keeps(Rule::MovedAbove) {
            seat.work.overwritten = Stamp(0);
        }
        self.commit_moved(&mut seat, &operations, Goes::ToLog)
    }

    /// The lane that most blocks can be moved through, and how many of them at once: as many as
    /// there is memory for, free log blocks for, and room in its ring for their record.
    pub(super) fn moved_at_once(&self, cell: &UpkeepCell) -> Option<(LaneNumber, usize)> {
        let most = cell.blocks.len() / self.common.block_bytes();
        let of_lane = |number: u16| {
            let lane = LaneNumber(number);
            let free = self.lane(lane).unreserved_log.left();
            let left = self.lane(lane).unreserved.left().saturating_sub(self.kept_bytes(0));
            let mut most = most.min(usize::try_from(free).unwrap_or(usize::MAX));
            while most > 0 && self.moved_bytes_max(most) > left {
                most /= 2;
            }
            (lane, most)
        };
        let lanes = (0..self.common.geometry.lanes).map(of_lane);
        lanes.max_by_key(|(_, most)| *most).filter(|(_, most)| *most > 0)
    }

    /// Bytes that the record takes at most which moves this number of blocks.
    fn moved_bytes_max(&self, blocks: usize) -> u64 {
        let whole = self.record_bytes_max(blocks);
        // Each block has the name of its block in the log, and no image.
        let images = (blocks * self.common.block_bytes()) as u64;
        whole - images + (blocks * size_of::<NamedSlot>()) as u64 + LINE_BYTES as u64
    }

    /// Takes a block with room for its frame, if both are free, and reads it. A block that cannot
    /// be read stays where it is.
    pub(super) fn take_to_move(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        age: Age,
        block: BlockNumber,
        image: &mut [u8],
        takes: Takes,
    ) -> Result<Option<Newest>, Error> {
        let mut share = self.lock_share(block)?;
        if !share.has_room() || self.try_lock_block(&mut share, &mut seat.work, age, block).is_err()
        {
            return Ok(None);
        }
        drop(share);
        // What is gathered has to be committed first, and it is newer.
        let is_gathered = || self.gathering.has_any() && self.gathering.has(block);
        if self.keeps(Rule::CommittedIsMoved) && is_gathered() {
            return Ok(None);
        }
        let newest = match self.read(seat.for_reading(), block, image) {
            Ok(true) => Newest::Content,
            Ok(false) if takes == Takes::Discards => Newest::Discard,
            Ok(false) => return Ok(None),
            Err(Error::Failed) => return Err(Error::Failed),
            // The checkpoint that comes to it says so.
            Err(_) => return Ok(None),
        };
        share = self.lock_share(block)?;
        // Not `reserve_frame`: what is moved to the log needs no room to be pinned.
        let is_there = share.has_room();
        if is_there {
            share.reserved += 1;
            self.note_overwritten_by(&mut seat.work, &share, share.index.lead(block));
        }
        Ok(is_there.then_some(newest))
    }

    /// Commits blocks that are taken, if there is room. Where they go to the log, all of them do.
    /// Returns how many they are.
    pub(super) fn commit_moved(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        operations: &[Operation<'_>],
        goes: Goes,
    ) -> Result<u64, Error> {
        let work = &mut seat.work;
        let prepared = self.prepare_and_reserve(work, operations, goes).ok();
        // A version that finds no block of the log would go whole into the record.
        let fits = prepared.filter(|prepared| {
            let all_go = prepared.log_blocks as usize == operations.len();
            (all_go || goes != Goes::ToLog) && self.try_reserve(work, prepared.bytes)
        });
        let Some(prepared) = fits else {
            self.abort(work, operations);
            return Ok(0);
        };
        let lane = work.lane;
        let prepared = (Ok(prepared), None);
        self.commit_and_give_back(work, operations, Keeps::All, prepared, Durability::Durable)?;
        // It is no transaction of a caller.
        self.lock_lane(self.lane(lane))?.stats.commits -= 1;
        let count = operations.len() as u64;
        let mut done = self.lock_done();
        match goes {
            Goes::ToLog => done.moved += count,
            _ => done.copied += count,
        }
        Ok(count)
    }
}
