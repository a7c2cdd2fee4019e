//! Room in steps: a thread that needs some takes one step of a checkpoint after the other, until
//! its room is there.
//!
//! IS1. A step frees the oldest frames, which lie at the heads, so its room is there at once
//!      ([`Home::checkpoint_step`](journal_core::parts::Home::checkpoint_step)).
//! IS2. Between two steps the thread gives the upkeep back. Threads that need room take turns.
//! IS3. Where steps do not help, all is tried that frees room, as one upkeep: for slots, and for
//!      blocks that cannot be read or shielded.
//! IS4. A transaction takes a step where its share of the index has few frames left. A step frees
//!      the oldest frames of all shares, and so perhaps none of that one. Further transactions
//!      take further steps, until the share has frames again or has none left.
//! IS5. A commit that has crossed the first threshold alone takes a step that writes nothing home:
//!      it folds frames, and gives slots of older versions back. Where there is a disk-side log, it
//!      moves blocks there.
//! IS6. A step that empties a segment of the disk-side log empties one.
//! IS7. Where an append keeps a head back, and nothing else can be done in a step, the thread waits
//!      for the end of one append, but no longer than its transaction may wait. It has nothing in
//!      hand but its blocks then. An append in flight waits for no block, no room and no upkeep.
//! IS8. For a transaction, steps go on until the disk-side log has a block for each of its blocks,
//!      or as many as the upkeep keeps free. What finds none there would go whole into the ring.
//! IS9. Where changes can be moved to the log, and that frees frames, transactions take steps ahead
//!      of need before a share of the index is too full for the frames of a move. Otherwise changes
//!      would go home, however much of the log is free. Where a thread or a host's ticks make room,
//!      they do not: ticks move more blocks at once. Nor do they end a snapshot for that.
//!
//! **Crash**: as for a checkpoint.

use std::time::Instant;

use journal_core::parts::{HomeScratch, Offsets, Oldest, Step, StepBounds, Waiting};
use journal_core::policy::Policy;
use journal_core::units::{LANES_MAX, LaneNumber};
use journal_core::{BlockNumber, CheckpointReport, FoldReport, Rule, Scope};
use pmem_sys::StoreLock;

use crate::engine::upkeep::checkpoint::HeldUpkeep;
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::home_cell::UpkeepCell;
use crate::shared::lane_cell::LaneCell;
use crate::shared::lending::{LanesOf, SharesOf};
use crate::shared::levels::{Room, Stage};
use crate::shared::share::Share;
use crate::shared::{Shared, ShortOf};

/// When this number of appends have ended, and no step behind them has freed anything, all is
/// tried.
const AWAITED_MAX: u32 = 8;

/// A step of an upkeep that nobody waits for.
const ALL_TIME: StepBounds = StepBounds { nanos: u64::MAX, writes_home: true, lists_all: false };

/// What a thread that needs room does next.
enum Next {
    /// Goes on: the room is there.
    Leave,
    /// Takes another step.
    Again,
    /// Takes another step when an append has ended that keeps a head back. This number had ended
    /// before the step.
    AgainBehind(u64),
    /// Tries everything.
    TryAll,
}

/// What has come of a step ahead of need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stepped {
    /// No further step would help, or none is needed.
    Enough,
    /// Another one would help.
    More,
    /// Another one would help when an append has ended that keeps a head back.
    Awaits,
}

/// What a step frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Rings,
    Slots,
}

/// What steps have done, without the device and with it.
#[derive(Debug, Default)]
pub(super) struct Made {
    home: CheckpointReport,
    folded: FoldReport,
}

impl Made {
    pub(super) const fn freed(&self) -> u64 {
        let Self { home, folded } = self;
        home.freed_bytes + home.freed_slots + folded.freed_bytes + folded.freed_slots
    }
}

impl<L, M: Machine> Shared<L, M> {
    /// Whether a transaction that takes a block of this share is to take a step ahead of need. Not
    /// where content in slots keeps its frames.
    #[inline(always)]
    pub(crate) fn wants_step(&self, share: &Share) -> bool {
        share.is_low() && self.wants_free_frames() && self.may_step_ahead()
    }

    /// Not where a thread does, nor where room is made by copies.
    #[cold]
    fn may_step_ahead(&self) -> bool {
        !self.relogs && !self.bell.has_thread() && self.levels.may_step_at(self.readable())
    }
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Whether a transaction that takes a block of this share is to take a step ahead of need: for
    /// frames, or so that changes can be moved to the log (IS9).
    #[inline(always)]
    pub(crate) fn is_low(&self, share: &Share) -> bool {
        match self.common.geometry.lane_log_blocks {
            0 => self.wants_step(share),
            _ => share.is_freed_by_moves() && self.may_move_ahead(),
        }
    }

    #[cold]
    fn may_move_ahead(&self) -> bool {
        self.moves_to_log()
            && !self.gathering.was_ticked()
            && !self.snapshots.are_kept()
            && self.may_step_ahead()
    }
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Makes room, unless `is_there` says that another thread has already. It does so without the
    /// device where that is enough, or else by writing home. It waits for no append any longer than
    /// `until`.
    ///
    /// # Errors
    /// `OutOfTime`, if it would have to. Others of the medium's or the device's.
    pub(crate) fn make_room(
        &self,
        until: Option<Instant>,
        is_there: impl Fn(Stage) -> bool,
    ) -> Result<(), Error> {
        self.make_room_of(Room { bytes: 0, slots: 1, log_blocks: 1 }, until, is_there)
    }

    /// Like [`make_room`](Self::make_room), where steps see to as many slots and blocks of the log.
    pub(crate) fn make_room_of(
        &self,
        wanted: Room,
        until: Option<Instant>,
        is_there: impl Fn(Stage) -> bool,
    ) -> Result<(), Error> {
        if self.relogs {
            let is_there = || is_there(Stage::WriteHome);
            self.with_upkeep_first(|cell| self.make_room_in_memory(cell, is_there))?;
            if is_there() {
                return Ok(());
            }
        }
        // Others may take what comes free. The steps are enough if none does.
        let mut made = Made::default();
        let (start, mut left) = (Instant::now(), self.frames() as u64 + 1);
        let mut awaited = 0;
        let next = loop {
            let before = made.home.blocks;
            match self.make_step(&is_there, (Stage::WriteHome, wanted), &mut made)? {
                Next::Again if left > 0 => {
                    left = left.saturating_sub((made.home.blocks - before).max(1));
                    awaited = 0;
                }
                Next::AgainBehind(_) if until.is_some_and(|until| until <= Instant::now()) => {
                    break Err(Error::OutOfTime);
                }
                Next::AgainBehind(ended) if awaited < AWAITED_MAX => {
                    self.appends.await_one(ended, until);
                    awaited += 1;
                }
                next => break Ok(next),
            }
        };
        self.note_made(&made, start);
        if matches!(next?, Next::Leave) {
            return Ok(());
        }
        self.with_upkeep_first(|cell| self.make_room_in(cell, is_there))
    }

    pub(super) fn note_made(&self, made: &Made, start: Instant) {
        let Made { home, folded } = made;
        if folded.folded > 0 || folded.freed_slots > 0 || folded.freed_bytes > 0 {
            self.note_folded(folded);
        }
        if home.batches > 0 || home.freed_bytes > 0 || home.unreadable > 0 {
            self.note_checkpoint(home, start);
        }
    }

    /// Takes a step of a stage, unless that has enough room. A step that writes home reclaims what
    /// it can before that.
    fn make_step(
        &self,
        is_there: impl Fn(Stage) -> bool,
        (stage, wanted): (Stage, Room),
        made: &mut Made,
    ) -> Result<Next, Error> {
        self.with_upkeep_first(|cell| {
            if is_there(stage) {
                return Ok(Next::Leave);
            }
            if cell.in_vain == Some(self.readable()) {
                return Ok(Next::TryAll);
            }
            self.check_not_failed()?;
            let (before, ended) = (made.freed(), self.appends.ended());
            let step = match self.common.geometry.lane_log_blocks {
                0 => self.step_for_all(cell, (stage, wanted.slots), made),
                _ => self.step_beside_log(cell, (stage, wanted), made),
            };
            let step = step.inspect_err(|error| self.fail_of(*error))?;
            if made.freed() > before {
                cell.in_vain = None;
                self.tell_waiters_for_room();
            }
            Ok(match step {
                Step::Done => Next::Again,
                Step::Held if self.keeps(Rule::StepAwaitsAppend) => Next::AgainBehind(ended),
                Step::Held | Step::Empty | Step::Stuck => Next::TryAll,
            })
        })
    }

    /// Takes one step for slots, where some lane has fewer than are wanted. If that frees none, or
    /// none is wanted, it takes one for the rings.
    fn step_for_all(
        &self,
        cell: &mut UpkeepCell,
        (stage, wanted): (Stage, u64),
        made: &mut Made,
    ) -> Result<Step, Error> {
        let lacks_slots = || {
            let is_short = |at: &LaneCell<M>| at.unreserved_slots.left() < wanted;
            self.common.geometry.lane_slots > 0 && self.lanes.iter().any(|at| is_short(at))
        };
        if self.gives_clean_first() && lacks_slots() {
            self.give_clean_back(None, wanted)?;
        }
        let most = self.longest_step(stage);
        if lacks_slots() {
            self.uses.advance();
            if self.step_in(cell, most, Which::Slots, made)? == Step::Done {
                return Ok(Step::Done);
            }
        }
        self.step_in(cell, most, Which::Rings, made)
    }

    /// Takes one step where there is a disk-side log. What is cheapest comes first: frames are
    /// folded and places of older versions come free, blocks that keep heads back are moved to the
    /// log, and then one segment is emptied, or blocks go home.
    fn step_beside_log(
        &self,
        cell: &mut HeldUpkeep<'_>,
        (stage, wanted): (Stage, Room),
        made: &mut Made,
    ) -> Result<Step, Error> {
        let (blocks, may) = self.longest_step(stage);
        let reclaims = (blocks, StepBounds { writes_home: false, ..may });
        let lacks_log = self.log_is_below(wanted.log_blocks);
        let is_short_of_slots = |at: &LaneCell<M>| at.unreserved_slots.left() < wanted.slots;
        let has_slots = self.common.geometry.lane_slots > 0;
        if lacks_log || (has_slots && self.lanes.iter().any(|at| is_short_of_slots(at))) {
            self.uses.advance();
            if self.step_in(cell, reclaims, Which::Slots, made)? == Step::Done {
                return Ok(Step::Done);
            }
        }
        if lacks_log && may.writes_home {
            let lanes = (0..self.common.geometry.lanes).map(LaneNumber);
            let lane = lanes.min_by_key(|lane| self.log_left(self.lane(*lane), wanted.log_blocks));
            let mut stays = None;
            if self.clean_segment(cell, lane.unwrap_or(LaneNumber(0)), &mut stays)? > 0 {
                return Ok(Step::Done);
            }
        }
        if self.step_in(cell, reclaims, Which::Rings, made)? == Step::Done {
            return Ok(Step::Done);
        }
        // What is evicted goes to the log as long as that has more than the transaction needs.
        let has_room = !self.log_is_short(Stage::WriteHome) || (self.evicts_to_log && !lacks_log);
        if self.moves_to_log() && has_room && self.move_oldest(cell, blocks)? > 0 {
            return Ok(Step::Done);
        }
        match may.writes_home {
            true => self.step_in(cell, (blocks, may), Which::Rings, made),
            false => Ok(Step::Stuck),
        }
    }

    /// The most that one step of a stage does for a transaction.
    pub(super) const fn longest_step(&self, stage: Stage) -> (usize, StepBounds) {
        let writes_home = matches!(stage, Stage::WriteHome);
        (self.step_blocks, StepBounds { nanos: self.step_nanos, writes_home, lists_all: false })
    }

    /// Takes one step, of this number of blocks at most.
    pub(super) fn step_in(
        &self,
        cell: &mut UpkeepCell,
        (blocks, may): (usize, StepBounds),
        which: Which,
        made: &mut Made,
    ) -> Result<Step, Error> {
        let has_slots = self.common.geometry.lane_slots_and_log() > 0;
        cell.see_to_lists(self.frames(), has_slots, may.lists_all);
        let UpkeepCell { batch, front, payload, blocks: buffers, oldest, left, .. } = cell;
        let UpkeepCell { in_slots, left_in_slots, next_node, coming, left_of_coming, .. } = cell;
        let waiting = Waiting::in_memory(&mut []);
        let most = blocks.min(batch.len());
        let batch = &mut batch[..most];
        let mut scratch = HomeScratch { batch, front, payload, blocks: buffers, waiting };
        let scratch = &mut scratch;
        let (common, lanes, shares) = (&self.common, &mut LanesOf(self), &mut SharesOf(self));
        let reports = (&mut made.home, &mut made.folded);
        self.writing(|| {
            let mut home = self.lock_home()?;
            Ok(match which {
                Which::Rings => {
                    let scope = if has_slots { Scope::Rings } else { Scope::All };
                    let oldest = Oldest { memory: oldest, left };
                    let coming = Oldest { memory: coming, left: left_of_coming };
                    let lists = (oldest, coming);
                    let scope = (scope, may);
                    home.checkpoint_step(common, lanes, shares, scratch, lists, scope, reports)?
                }
                Which::Slots => {
                    let room = UpkeepCell::slots_listed(may.lists_all).min(in_slots.len());
                    let memory = &mut in_slots[..room];
                    let oldest = &mut Oldest { memory, left: left_in_slots };
                    let from = (oldest, next_node);
                    home.slots_step(common, lanes, shares, scratch, from, may, reports)?
                }
            })
        })
    }

    /// Writes home what was used longest ago of what is in slots, batch by batch, as long as slots
    /// are short and that frees some. The batches share the passes through the index.
    pub(super) fn evict_in_steps(&self, cell: &mut HeldUpkeep<'_>) -> Result<(), Error> {
        // Others may take what comes free. The steps are enough if none does.
        let mut left = self.frames() as u64 + 1;
        let (mut made, start) = (Made::default(), Instant::now());
        while left > 0 && self.slots_are_short(Stage::WriteHome) {
            let (freed, blocks) = (made.freed(), made.home.blocks);
            self.uses.advance();
            let most = (cell.batch.len(), ALL_TIME);
            let of_slots = (most.0, StepBounds { lists_all: true, ..ALL_TIME });
            let mut step = self.step_in(cell, of_slots, Which::Slots, &mut made);
            // What is in the rings may keep slots.
            if step.is_ok() && made.freed() == freed {
                step = self.step_in(cell, most, Which::Rings, &mut made);
            }
            step.inspect_err(|error| self.fail_of(*error))?;
            if made.freed() == freed {
                break;
            }
            left = left.saturating_sub((made.home.blocks - blocks).max(1));
            self.tell_waiters_for_room();
            cell.let_others_first().map_err(|_| self.poisoned())?;
        }
        self.note_made(&made, start);
        Ok(())
    }

    /// Frames in the lanes, more or less. It begins with the last share: what writes home begins
    /// with the first one. So this waits for it once, and not at each share.
    pub(super) fn frames(&self) -> usize {
        let frames =
            |share: &StoreLock<Share>| share.lock().map_or(0, |share| share.index.frames());
        self.shares.iter().rev().map(|share| frames(share)).sum()
    }

    /// Where the records of each lane end.
    pub(super) fn tails(&self) -> Result<Offsets, Error> {
        let mut tails = [0; LANES_MAX as usize];
        for (tail, cell) in tails.iter_mut().zip(&self.lanes) {
            *tail = self.lock_lane(cell)?.lane.tail();
        }
        Ok(tails)
    }

    /// Lets the heads go on behind what a checkpoint has written home: in steps where others wait,
    /// or at one go, which takes less work. Returns whether they have come to `heads_to` or
    /// `tails`, or no append keeps one from going further.
    pub(super) fn pass_home(
        &self,
        cell: &mut HeldUpkeep<'_>,
        (heads_to, tails, asked): (Option<&Offsets>, &Offsets, u64),
        report: &mut CheckpointReport,
    ) -> Result<bool, Error> {
        if self.common.geometry.lane_slots_and_log() > 0 {
            return self.let_heads_pass(cell, report);
        }
        if self.upkeep.asked() == asked {
            if let Some(is_whole) = self.let_heads_pass_unless(cell, true, report)? {
                return Ok(is_whole);
            }
            cell.let_others_first().map_err(|_| self.poisoned())?;
        }
        let to = match heads_to {
            // Steps that write home would write what the caller leaves for later.
            Some(heads_to) => (heads_to, Stage::Reclaim),
            // What is committed meanwhile is for the next checkpoint.
            None => (tails, Stage::WriteHome),
        };
        Ok(self.pass_in_steps(cell, to, report)? || self.let_heads_pass(cell, report)?)
    }

    /// Lets the heads pass in steps what a checkpoint has written home, so that no transaction
    /// waits for all of that. Returns whether they have come to these offsets.
    fn pass_in_steps(
        &self,
        cell: &mut HeldUpkeep<'_>,
        (heads_to, stage): (&Offsets, Stage),
        report: &mut CheckpointReport,
    ) -> Result<bool, Error> {
        let have_come = || {
            let mut lanes = heads_to.iter().zip(&self.lanes);
            lanes.try_fold(true, |all, (offset, cell)| {
                let lane = &self.lock_lane(cell)?.lane;
                let head = lane.tail() - (lane.capacity_bytes() - lane.free_bytes());
                Ok::<_, Error>(all && head >= *offset)
            })
        };
        let most = self.longest_step(stage);
        let mut left = self.frames();
        while left > 0 && !have_come()? {
            let mut made = Made { home: *report, ..Made::default() };
            let step = self.step_in(cell, most, Which::Rings, &mut made)?;
            *report = made.home;
            report.freed_bytes += made.folded.freed_bytes;
            if step != Step::Done {
                break;
            }
            left -= 1;
            self.tell_waiters_for_room();
            cell.let_others_first().map_err(|_| self.poisoned())?;
        }
        have_come()
    }

    /// Takes one step for the share of the index that has this block, and is low on frames (IS4,
    /// IS9).
    #[cold]
    pub(crate) fn step_ahead(&self, block: BlockNumber) -> Result<(), Error> {
        let (mut made, start) = (Made::default(), Instant::now());
        self.with_upkeep_first(|cell| {
            // Another thread may have freed some meanwhile, or have tried in vain.
            if !self.is_low(&*self.lock_share(block)?) {
                return Ok(());
            }
            let readable = self.readable();
            self.check_not_failed()?;
            let step = if self.moves_to_log() {
                self.step_beside_log(cell, (Stage::Reclaim, Room::default()), &mut made)
            } else {
                let most = self.longest_step(Stage::WriteHome);
                self.step_in(cell, most, Which::Rings, &mut made)
            };
            let step = step.inspect_err(|error| self.fail_of(*error))?;
            // The frames of what was moved come free in a later step.
            let has_moved = self.moves_to_log() && step == Step::Done;
            self.levels.note_step_at(readable, has_moved || made.freed() > 0);
            if made.freed() > 0 {
                cell.in_vain = None;
                self.tell_waiters_for_room();
            }
            Ok(())
        })?;
        self.note_made(&made, start);
        Ok(())
    }

    /// Takes one step at the end of a commit that has crossed a threshold, where commits do that.
    /// What the step meets is no error of the commit, which is durable. Where the journal fails,
    /// the next call is told.
    #[inline(always)]
    pub(crate) fn see_to_room(&self, is_committed: bool) {
        if self.bell.asks_commits() && is_committed {
            let _ = self.make_room_in_commit();
        }
    }

    /// Takes one step where a threshold is crossed, at the end of a commit.
    #[cold]
    pub(crate) fn make_room_in_commit(&self) -> Result<(), Error> {
        if !self.bell.was_asked() {
            return Ok(());
        }
        let running = self.room_of_running();
        let is_short = |stage| self.is_short_of_any(stage, running);
        if !is_short(Stage::Reclaim) && !is_short(Stage::WriteHome) {
            self.note_left();
            return Ok(());
        }
        let stepped = self.stopped(ShortOf::RoomAhead, || self.make_room_by_a_step(is_short));
        if stepped? == Stepped::More {
            self.ask_for_checkpoint();
        }
        Ok(())
    }

    /// Whether there is too little of anything, so that a stage begins.
    pub(super) fn is_short_of_any(&self, stage: Stage, running: Option<(LaneNumber, u64)>) -> bool {
        let has_log = self.common.geometry.lane_log_blocks > 0;
        let is_short = self.is_short_beside(stage, running) || self.slots_are_short(stage);
        is_short || (has_log && self.log_is_short(stage))
    }

    /// Takes one step ahead of need.
    pub(super) fn make_room_by_a_step(
        &self,
        is_short: impl Fn(Stage) -> bool,
    ) -> Result<Stepped, Error> {
        if self.spares_snapshots(|| is_short(Stage::WriteHome)) {
            return Ok(Stepped::Enough);
        }
        if self.relogs {
            let is_there = || !is_short(Stage::Reclaim);
            self.with_upkeep_first(|cell| self.make_room_in_memory(cell, is_there))?;
        }
        // Without slots nothing comes free but by writing home.
        let only_reclaims =
            self.common.geometry.lane_slots_and_log() > 0 && !is_short(Stage::WriteHome);
        let stage = if only_reclaims { Stage::Reclaim } else { Stage::WriteHome };
        let wanted = self.levels.of(stage);
        let before = self.done();
        let (mut made, start) = (Made::default(), Instant::now());
        let next = self.make_step(|stage| !is_short(stage), (stage, wanted), &mut made)?;
        self.note_made(&made, start);
        self.note_left();
        let after = self.done();
        // A block that cannot be read may be tried again in each step.
        let has_helped = before.freed() != after.freed()
            || before.checkpointed.blocks != after.checkpointed.blocks;
        Ok(match next {
            Next::Again if has_helped && is_short(stage) => Stepped::More,
            Next::AgainBehind(_) => Stepped::Awaits,
            _ => Stepped::Enough,
        })
    }
}
