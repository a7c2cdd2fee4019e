//! Checkpoints, beside threads that commit, and the thread that makes them in the background.

use core::ops::ControlFlow;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use journal_core::parts::{
    Home, HomeScratch, Movable, Offsets, Waiting, WaitingLeft, filled_by, pick_to_move, pinned_by,
    segment_to_clean,
};
use journal_core::policy::Policy;
use journal_core::units::{LANES_MAX, LaneNumber, Stamp};
use journal_core::{BlockNumber, CheckpointReport, FoldReport, Rule, Scope};

use crate::error::Error;
use crate::machine::Machine;
use crate::shared::home_cell::one_sync::DiskOf;
use crate::shared::home_cell::{Cut, Held, UpkeepCell};
use crate::shared::lane_cell::LaneCell;
use crate::shared::lending::{LanesOf, SharesOf};
use crate::shared::levels::{Room, Stage};
use crate::shared::share::Share;
use crate::shared::{Done, Shared};
use crate::threads::free_space::Unreserved;
use crate::threads::sync::thread::{self, JoinHandle};
use crate::threads::sync::{AtomicBool, Ordering};
use crate::trace;

/// The most blocks that one pass over the index lists. They take 8 MiB.
pub(super) const WAITING_MAX: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// A checkpoint makes this number of lists more than there are frames, at most.
const LISTS_MAX: u64 = 16;

/// How long a checkpointing thread sleeps at most before it looks around.
const CHECKPOINTER_NAP: Duration = Duration::from_millis(100);

/// The upkeep, in hand.
pub(super) type HeldUpkeep<'c> = Held<'c, UpkeepCell>;

/// What writes home, in hand.
type HeldHome<'c, M> = Held<
    'c,
    Home<<M as journal_core::Machine>::Pmem, DiskOf<M>, <M as journal_core::Machine>::Hook>,
>;

/// What is called behind each batch of a checkpoint: with what was done so far, and how many frames
/// there were more when it began than blocks have gone home. It says whether to go on.
pub(crate) type Each<'e> = &'e mut dyn FnMut(&CheckpointReport, u64) -> ControlFlow<()>;

/// What a checkpoint is to do.
#[derive(Clone, Copy)]
pub(super) struct Task<'o> {
    pub(super) scope: Scope,
    /// Whether it goes on with the last one, if that was ended.
    pub(super) goes_on: bool,
    /// How far heads are to go, where it writes no more home than that takes.
    pub(super) heads_to: Option<&'o Offsets>,
}

impl Task<'_> {
    pub(super) const fn whole(scope: Scope) -> Self {
        Self { scope, goes_on: false, heads_to: None }
    }
}

/// How a checkpoint has ended.
pub(super) struct Ended {
    pub(super) report: CheckpointReport,
    /// Why a block stays, if one does for want of a shield.
    pub(super) stays: Option<Error>,
    /// Whether appends kept heads back.
    pub(super) is_held: bool,
}

/// What is freed without the device.
enum Frees {
    /// Ring space, by folding frames into slot entries.
    Rings,
    /// Slots of older versions.
    Slots,
}

impl<L, M: Machine> Shared<L, M> {
    /// How far all lanes may be read, and how many appends have ended, added up: it grows whenever
    /// something may come free that could not before.
    pub(super) fn readable(&self) -> u64 {
        let each = self.lanes.iter().map(|cell| cell.reach.readable_to());
        each.fold(self.appends.ended(), u64::wrapping_add)
    }

    /// Whether the thread in the background keeps some frames free. Not where there are slots: what
    /// is there keeps its frames, which are no reason to write it home.
    pub(crate) const fn wants_free_frames(&self) -> bool {
        self.common.geometry.lane_slots_and_log() == 0
    }
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Runs an upkeep. No other one runs meanwhile, except between two steps of it, where a
    /// transaction needs room: that one's, or one that has waited since before it. If it panics, in
    /// a device, a policy or an assertion, blocks may be half on their way: the journal has failed
    /// then.
    pub(super) fn with_upkeep<R>(
        &self,
        call: impl FnOnce(&mut HeldUpkeep<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut cell = self.upkeep.lock_behind().map_err(|_| self.poisoned())?;
        self.fail_on_panic(|| call(&mut cell))
    }

    /// Like [`with_upkeep`](Self::with_upkeep), for a transaction that needs room: between two
    /// steps of any other upkeep.
    pub(super) fn with_upkeep_first<R>(
        &self,
        call: impl FnOnce(&mut HeldUpkeep<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut cell = self.upkeep.lock_first().map_err(|_| self.poisoned())?;
        self.fail_on_panic(|| call(&mut cell))
    }

    /// Ends all snapshots, before anything that they may see is removed or overwritten.
    pub(super) fn end_snapshots(&self) {
        if self.keeps(Rule::SnapshotsEnd) {
            self.snapshots.end_all();
        }
    }

    /// Locks what writes home, for one step of an upkeep.
    pub(super) fn lock_home(&self) -> Result<HeldHome<'_, M>, Error> {
        self.home.lock_behind().map_err(|_| self.poisoned())
    }

    /// Writes home what the rings would have to keep, and lets them go on without it.
    pub(crate) fn checkpoint_rings(&self) -> Result<CheckpointReport, Error> {
        self.checkpoint_rings_each(&mut |_, _| ControlFlow::Continue(()), false)
    }

    /// Like [`checkpoint_rings`](Self::checkpoint_rings), with a call behind each batch, which may
    /// end it. It may go on with one that was ended like that.
    pub(super) fn checkpoint_rings_each(
        &self,
        each: Each<'_>,
        goes_on: bool,
    ) -> Result<CheckpointReport, Error> {
        if self.common.geometry.lane_slots_and_log() == 0 {
            return self.checkpoint_each(each, goes_on);
        }
        self.whole(|cell| {
            // No home is overwritten as long as there is a new place for its block.
            if self.moves_to_log() {
                self.move_all(cell, self.moved_from_rings())?;
            }
            // What is folded need not go home.
            self.free_in_memory(cell, Frees::Rings)?;
            self.checkpoint_in(cell, Task { goes_on, ..Task::whole(Scope::Rings) }, each)
        })
    }

    /// Makes a checkpoint, and notes what stays for want of a shield.
    pub(super) fn checkpoint_but(
        &self,
        cell: &mut HeldUpkeep<'_>,
        scope: Scope,
        stays: &mut Option<Error>,
    ) -> Result<CheckpointReport, Error> {
        let all = &mut |_: &_, _| ControlFlow::Continue(());
        let ended = self.checkpoint_in(cell, Task::whole(scope), all)?;
        // A whole checkpoint knows of every block that stays.
        *stays = if scope == Scope::All { ended.stays } else { ended.stays.or(*stays) };
        Ok(ended.report)
    }

    /// Writes home what was committed longest ago, so that a quarter of what the threshold leaves
    /// in use comes free in each lane that has less free. What was committed last is likely to be
    /// overwritten before its turn comes, and so never goes home.
    pub(super) fn checkpoint_oldest(
        &self,
        cell: &mut HeldUpkeep<'_>,
        stays: &mut Option<Error>,
    ) -> Result<(), Error> {
        let (wanted, lacks_frames) =
            (self.levels.left_behind_checkpoint(), self.is_short_of_frames());
        let has_thread = self.bell.has_thread();
        let running = if has_thread { None } else { self.reserved_by_running() };
        let each_left = self.each_left(running);
        let (mut heads_to, mut frees_any) = ([0; LANES_MAX as usize], false);
        for ((offset, cell), left) in heads_to.iter_mut().zip(&self.lanes).zip(each_left) {
            let lane = &self.lock_lane(cell)?.lane;
            let used = lane.capacity_bytes() - lane.free_bytes();
            // Frames are of any length.
            let least = if lacks_frames { used / 2 } else { 0 };
            let freed = wanted.saturating_sub(left).max(least);
            *offset = lane.tail().saturating_sub(used.saturating_sub(freed));
            frees_any |= freed.min(used) > 0;
        }
        if !frees_any {
            return Ok(());
        }
        let task = Task { heads_to: Some(&heads_to), ..Task::whole(Scope::All) };
        let ended = self.checkpoint_in(cell, task, &mut |_, _| ControlFlow::Continue(()))?;
        *stays = ended.stays.or(*stays);
        Ok(())
    }

    /// Makes a checkpoint, with a call behind each batch.
    pub(super) fn checkpoint_in(
        &self,
        cell: &mut HeldUpkeep<'_>,
        task: Task<'_>,
        each: Each<'_>,
    ) -> Result<Ended, Error> {
        self.check_not_failed()?;
        trace::checkpoint_begins();
        let start = Instant::now();
        let mut waiting = core::mem::take(&mut cell.waiting);
        let result = self.write_and_reclaim(cell, &mut waiting, task, each);
        cell.waiting = waiting;
        let ended = result.inspect_err(|error| self.fail_of(*error))?;
        let report = &ended.report;
        self.note_checkpoint(report, start);
        if report.freed_bytes > 0 || report.freed_slots > 0 {
            cell.in_vain = None;
        }
        Ok(ended)
    }

    /// Notes what a checkpoint has done, and wakes a transaction that waits for room.
    pub(super) fn note_checkpoint(&self, report: &CheckpointReport, start: Instant) {
        let mut done = self.lock_done();
        done.checkpoints += 1;
        done.checkpointing += start.elapsed();
        let total = &mut done.checkpointed;
        total.blocks += report.blocks;
        total.writes += report.writes;
        total.batches += report.batches;
        total.shielded += report.shielded;
        total.freed_bytes += report.freed_bytes;
        total.freed_slots += report.freed_slots;
        total.unreadable += report.unreadable;
        total.longest_pass = total.longest_pass.max(report.longest_pass);
        drop(done);
        self.note_left();
        trace::checkpointed(report);
        if report.freed_bytes > 0 || report.freed_slots > 0 {
            self.tell_waiters_for_room();
        }
    }

    /// Between two steps a transaction that needs room has the upkeep.
    fn write_and_reclaim(
        &self,
        cell: &mut HeldUpkeep<'_>,
        waiting: &mut Vec<BlockNumber>,
        Task { scope, goes_on, heads_to }: Task<'_>,
        each: Each<'_>,
    ) -> Result<Ended, Error> {
        let mut made = CheckpointReport::default();
        let report = &mut made;
        let (frames, asked, tails) = (self.frames(), self.upkeep.asked(), self.tails()?);
        let (mut lanes, mut shares) = (LanesOf(self), SharesOf(self));
        // Blocks that are written again meanwhile are for the next checkpoint. So this one ends
        // behind the first list that had all blocks which were not home, and left none out. Or
        // else it ends where as many blocks are home as there are frames now.
        let cut = cell.cut.take().filter(|cut| goes_on && cut.scope == scope);
        let (mut listed, mut left) = match cut {
            Some(Cut { listed, left, .. }) => (listed, left),
            None => {
                // Room for all that may wait now, so that one pass over the index makes the list.
                waiting.resize(frames.max(cell.batch.len()).min(WAITING_MAX), BlockNumber(0));
                (WaitingLeft::default(), frames as u64)
            }
        };
        let (mut is_ended, mut tries) = (false, 8);
        let stays = loop {
            let before = report.blocks;
            let batch = self.writing(|| {
                let UpkeepCell { batch, front, payload, blocks, .. } = &mut **cell;
                let waiting = Waiting::again(waiting, listed).keeping_heads_before(heads_to);
                let mut scratch = HomeScratch { batch, front, payload, blocks, waiting };
                let (common, lanes, shares) = (&self.common, &mut lanes, &mut shares);
                let written = self
                    .lock_home()?
                    .checkpoint_batch(common, lanes, shares, &mut scratch, scope, report)
                    .map_err(Error::from);
                listed = scratch.waiting.left();
                written
            });
            match batch {
                Ok(true) => {}
                Ok(false) => break None,
                // All other blocks are home.
                Err(error @ Error::NoShield { .. }) => break Some(error),
                Err(error) => return Err(error),
            }
            if listed.is_listing() {
                // Others may write home all of a list before it is made, but not for ever.
                if listed.begun() > left.saturating_add(LISTS_MAX) {
                    break None;
                }
                cell.let_others_first().map_err(|_| self.poisoned())?;
                continue;
            }
            match report.blocks - before {
                // All that is left is written anew: it is tried again some times.
                0 if left == 1 && tries > 0 => tries -= 1,
                written => left = left.saturating_sub(written.max(1)),
            }
            if listed.is_all_taken() {
                left = 0;
            }
            is_ended = each(report, left).is_break();
            if is_ended || left == 0 || scope == Scope::OldestInSlots {
                break None;
            }
            cell.let_others_first().map_err(|_| self.poisoned())?;
        };
        let is_whole = !is_ended && heads_to.is_none() && scope != Scope::OldestInSlots;
        let asks = is_whole && stays.is_none();
        let stays = if asks { self.lacks_shield(scope)? } else { stays };
        let has_passed = match is_ended {
            true => self.let_heads_pass(cell, report).map(|_| true)?,
            false => self.pass_home(cell, (heads_to, &tails, asked), report)?,
        };
        // Behind all that lets others have the upkeep: they may leave a list of their own.
        cell.cut = (is_ended && left > 0).then_some(Cut { scope, listed, left });
        Ok(Ended { report: made, stays, is_held: !has_passed })
    }

    /// Lets the heads go on behind what is home. Returns whether no append keeps one from going
    /// further.
    pub(super) fn let_heads_pass(
        &self,
        cell: &mut UpkeepCell,
        report: &mut CheckpointReport,
    ) -> Result<bool, Error> {
        Ok(self.let_heads_pass_unless(cell, false, report)?.unwrap_or(true))
    }

    /// Like [`let_heads_pass`](Self::let_heads_pass). If it `stops` for transactions that need
    /// room, it may return `None`, and no head has moved.
    pub(super) fn let_heads_pass_unless(
        &self,
        cell: &mut UpkeepCell,
        stops: bool,
        report: &mut CheckpointReport,
    ) -> Result<Option<bool>, Error> {
        let passed = self.writing(|| {
            let UpkeepCell { batch, front, payload, blocks, .. } = cell;
            let waiting = Waiting::in_memory(&mut []);
            let scratch = &mut HomeScratch { batch, front, payload, blocks, waiting };
            let (common, lanes, shares) = (&self.common, &mut LanesOf(self), &mut SharesOf(self));
            let mut home = self.lock_home()?;
            Ok(home.let_heads_pass(common, lanes, shares, scratch, stops, report)?)
        });
        passed.inspect_err(|error| self.fail_of(*error))
    }

    /// Writes home, or entries, or lets heads go on, while no snapshot is open and no frame is
    /// forgotten that may be used.
    pub(super) fn writing<R>(&self, call: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        self.end_snapshots();
        self.writes_home.begin();
        let result = call();
        self.writes_home.end();
        result
    }

    /// Makes room ahead of need, behind every transaction that needs some.
    pub(super) fn make_room_ahead(&self, is_there: impl Fn(Stage) -> bool) -> Result<(), Error> {
        let needs_home =
            |stage| !is_there(stage) || self.slots_are_short(stage) || self.log_is_short(stage);
        if self.spares_snapshots(|| needs_home(Stage::WriteHome)) {
            return Ok(());
        }
        self.with_upkeep(|cell| self.make_room_in(cell, is_there))
    }

    /// Whether room that comes free without the device is left for later: snapshots would end for
    /// it. Where blocks need to go home, it is not.
    pub(super) fn spares_snapshots(&self, needs_home: impl FnOnce() -> bool) -> bool {
        let spares = self.snapshots.are_kept() && !needs_home();
        if spares {
            self.levels.note_left(self.least_room());
        }
        spares
    }

    /// Makes room. A block that needs a shield, where there is none, is an error only if too little
    /// room is left.
    pub(super) fn make_room_in(
        &self,
        cell: &mut HeldUpkeep<'_>,
        is_there: impl Fn(Stage) -> bool,
    ) -> Result<(), Error> {
        // Read before the work: what is committed meanwhile may come free.
        let readable = self.readable();
        if cell.in_vain == Some(readable) {
            return Ok(());
        }
        if self.gives_clean_first() && self.slots_are_short(Stage::Reclaim) {
            self.give_clean_back(None, self.levels.of(Stage::Reclaim).slots)?;
        }
        let (before, mut stays) = (self.done(), None);
        let tried_all = self.make_what_can_be(cell, &is_there, &mut stays)?;
        let after = self.done();
        // Reading or shielding a block that failed now may succeed another time.
        let is_the_end = tried_all
            && stays.is_none()
            && before.freed() == after.freed()
            && before.checkpointed.unreadable == after.checkpointed.unreadable;
        cell.in_vain = is_the_end.then_some(readable);
        self.note_left();
        stays.filter(|_| !is_there(Stage::WriteHome)).map_or(Ok(()), Err)
    }

    /// Frees what can be freed. Returns whether it has tried to write home all that takes room in a
    /// ring.
    fn make_what_can_be(
        &self,
        cell: &mut HeldUpkeep<'_>,
        is_there: impl Fn(Stage) -> bool,
        stays: &mut Option<Error>,
    ) -> Result<bool, Error> {
        let is_enough =
            |stage| is_there(stage) && !self.slots_are_short(stage) && !self.log_is_short(stage);
        let geometry = &self.common.geometry;
        // 1. What needs no write to the device.
        if geometry.lane_slots_and_log() > 0 {
            if !is_enough(Stage::Reclaim) {
                self.free_in_memory(cell, Frees::Rings)?;
            }
            if !is_enough(Stage::Reclaim) {
                self.free_in_memory(cell, Frees::Slots)?;
            }
            if self.moves_to_log() {
                self.move_changes(cell, || is_there(Stage::Reclaim))?;
            }
        }
        self.relog(cell, || is_there(Stage::Reclaim))?;
        // 2. What has to go home.
        let (is_there, is_enough) = (|| is_there(Stage::WriteHome), || is_enough(Stage::WriteHome));
        if is_enough() {
            return Ok(false);
        }
        if geometry.lane_slots_and_log() == 0 {
            self.checkpoint_oldest(cell, stays)?;
            if is_enough() {
                return Ok(false);
            }
            return self.checkpoint_but(cell, Scope::All, stays).map(|_| true);
        }
        let keeps = self.common.policy.keeps_in_slots();
        let (rings, slots) = match keeps {
            true => (Scope::Rings, Scope::OldestInSlots),
            false => (Scope::All, Scope::All),
        };
        let needs_rings = !is_there();
        let mut rings_are_home = !keeps || needs_rings;
        if needs_rings {
            self.checkpoint_but(cell, rings, stays)?;
        }
        if keeps && self.slots_are_short(Stage::WriteHome) {
            self.move_from_slots(cell)?;
            self.evict_in_steps(cell)?;
        }
        // A version that finds no free slot would go into the rings, and home from there. Other
        // threads may take what comes free. The rounds are enough if none does.
        let mut rounds = geometry.slots().div_ceil(cell.batch.len() as u64) + 1;
        while (!is_there() || self.slots_are_short(Stage::WriteHome)) && rounds > 0 {
            rounds -= 1;
            self.uses.advance();
            cell.let_others_first().map_err(|_| self.poisoned())?;
            if self.checkpoint_but(cell, slots, stays)?.freed_slots > 0 {
                continue;
            }
            if rings_are_home {
                break;
            }
            // Records of blocks in no slot keep the heads from passing the records of blocks in
            // slots.
            self.checkpoint_but(cell, rings, stays)?;
            rings_are_home = true;
        }
        let needs_all = keeps && !is_there();
        if needs_all {
            self.checkpoint_but(cell, Scope::All, stays)?;
        }
        self.clean_log(cell, is_enough, stays)?;
        Ok(needs_all || (!keeps && needs_rings))
    }

    /// Moves what is left in a segment of the disk-side log to other blocks there, if that is half
    /// of it or less. Returns the number of blocks of the log that have come free.
    fn move_segment(&self, cell: &mut HeldUpkeep<'_>, segment: Scope) -> Result<u64, Error> {
        let half = (self.common.geometry.segment_blocks / 2) as usize;
        let mut live = vec![(Stamp(0), BlockNumber(0)); half + 1];
        let what = Movable::Of(segment);
        if !self.moves_to_log() {
            return Ok(0);
        }
        // All of them, or the segment does not come free.
        let count = pick_to_move(&mut SharesOf(self), what, half + 1, &mut live);
        if count > half
            || count > self.moved_at_once(cell).map_or(0, |(_, most)| most)
            || self.move_to_log(cell, what)? == 0
        {
            return Ok(0);
        }
        Ok(self.free_in_memory(cell, Frees::Slots)?.freed_slots)
    }

    /// Empties the segment of a lane's log that has least in it. Returns the number of blocks of
    /// the log that have come free.
    pub(super) fn clean_segment(
        &self,
        cell: &mut HeldUpkeep<'_>,
        lane: LaneNumber,
        stays: &mut Option<Error>,
    ) -> Result<u64, Error> {
        let segment = segment_to_clean(&mut LanesOf(self), &mut SharesOf(self), lane)?;
        let Some(segment) = segment else { return Ok(0) };
        match self.move_segment(cell, segment)? {
            0 => Ok(self.checkpoint_but(cell, segment, stays)?.freed_slots),
            freed => Ok(freed),
        }
    }

    /// Makes blocks of the disk-side log free. What is left in its emptiest segments is moved,
    /// where that frees more than it takes, or else written home.
    fn clean_log(
        &self,
        cell: &mut HeldUpkeep<'_>,
        is_enough: impl Fn() -> bool,
        stays: &mut Option<Error>,
    ) -> Result<(), Error> {
        let geometry = &self.common.geometry;
        let mut rounds = geometry.log_blocks().checked_div(geometry.segment_blocks.into());
        while let Some(left) = rounds.filter(|left| *left > 0 && !is_enough()) {
            rounds = Some(left - 1);
            let wanted = self.levels.of(Stage::WriteHome).log_blocks;
            let mut freed_slots = 0;
            for number in (0..geometry.lanes).map(LaneNumber) {
                if self.log_left(self.lane(number), wanted) < wanted {
                    freed_slots += self.clean_segment(cell, number, stays)?;
                }
            }
            if freed_slots == 0 {
                // Records of blocks not in the log keep the heads from passing the records of
                // blocks in it.
                return self.checkpoint_but(cell, Scope::All, stays).map(drop);
            }
        }
        Ok(())
    }

    /// Checks that no block that cannot be read keeps a lane below `bytes` bytes that are not
    /// taken, where a checkpoint makes no more.
    #[cold]
    pub(crate) fn check_not_pinned(&self, lane: LaneNumber, bytes: u64) -> Result<(), Error> {
        if self.lock_lane(self.lane(lane))?.lane.free_bytes() >= bytes {
            return Ok(());
        }
        let pinned = pinned_by(&mut LanesOf(self), &mut SharesOf(self), lane)?;
        pinned.map_or(Ok(()), |block| Err(Error::Unreadable { block }))
    }

    /// Like [`check_not_pinned`](Self::check_not_pinned), for the room for frames in the share of
    /// the index that has this block.
    #[cold]
    pub(crate) fn check_not_filled(&self, block: BlockNumber) -> Result<(), Error> {
        if self.lock_share(block)?.index.free_frames() > 0 {
            return Ok(());
        }
        self.check_not_filled_by_more(block)
    }

    /// Like [`check_not_filled`](Self::check_not_filled), where some room is left, and too little.
    #[cold]
    pub(crate) fn check_not_filled_by_more(&self, block: BlockNumber) -> Result<(), Error> {
        let filled = filled_by(&mut LanesOf(self), &mut SharesOf(self), block)?;
        filled.map_or(Ok(()), |block| Err(Error::Unreadable { block }))
    }

    /// Lets the heads go on as far as slots' entries say what is in the rings.
    pub(super) fn fold_rings(&self, cell: &mut UpkeepCell) -> Result<FoldReport, Error> {
        self.free_in_memory(cell, Frees::Rings)
    }

    /// Frees the slots of superseded versions.
    pub(super) fn free_superseded(&self, cell: &mut UpkeepCell) -> Result<FoldReport, Error> {
        self.free_in_memory(cell, Frees::Slots)
    }

    /// Frees what needs no write home.
    fn free_in_memory(&self, cell: &mut UpkeepCell, what: Frees) -> Result<FoldReport, Error> {
        self.check_not_failed()?;
        let freed = self.writing(|| {
            let UpkeepCell { batch, front, payload, blocks, .. } = cell;
            let waiting = Waiting::in_memory(&mut []);
            let mut scratch = HomeScratch { batch, front, payload, blocks, waiting };
            let (common, lanes, shares) = (&self.common, &mut LanesOf(self), &mut SharesOf(self));
            let mut home = self.lock_home()?;
            Ok(match what {
                Frees::Rings => home.fold(common, lanes, shares, &mut scratch)?,
                Frees::Slots => home.collect_garbage(common, lanes, shares, &mut scratch)?,
            })
        });
        let report = freed.inspect_err(|error| self.fail_of(*error))?;
        self.note_folded(&report);
        Ok(report)
    }

    /// Notes what was freed without the device, and wakes a transaction that waits for room.
    pub(super) fn note_folded(&self, report: &FoldReport) {
        let mut done = self.lock_done();
        let total = &mut done.folded;
        total.folded += report.folded;
        total.freed_slots += report.freed_slots;
        total.freed_bytes += report.freed_bytes;
        total.fences += report.fences;
        drop(done);
        // What is folded may have left the index.
        if report.freed_bytes > 0 || report.freed_slots > 0 || report.folded > 0 {
            self.tell_waiters_for_room();
        }
    }

    /// Whether a stage begins because some lane has too few free slots.
    pub(super) fn slots_are_short(&self, stage: Stage) -> bool {
        let wanted = self.levels.of(stage).slots;
        self.lanes.iter().any(|cell| cell.unreserved_slots.left() < wanted)
    }

    /// Whether a stage begins because some lane has too few free blocks in the disk-side log.
    pub(super) fn log_is_short(&self, stage: Stage) -> bool {
        self.log_is_below(self.levels.of(stage).log_blocks)
    }

    pub(super) fn log_is_below(&self, wanted: u64) -> bool {
        self.lanes.iter().any(|cell| self.log_left(cell, wanted) < wanted)
    }

    /// Blocks of a lane's disk-side log that hold nothing. Where fewer than `wanted` are left to be
    /// taken, those that transactions hold count too: no upkeep frees them, and what their holders
    /// do not use comes back by itself.
    pub(in crate::engine) fn log_left(&self, cell: &LaneCell<M>, wanted: u64) -> u64 {
        let left = cell.unreserved_log.left();
        if left >= wanted {
            return left;
        }
        // A lane whose holder panicked: the journal has failed.
        self.lock_lane(cell).map_or(left, |state| state.lane.free_log_blocks().into())
    }

    /// Whether a stage begins because some lane has too little room in its ring. What the running
    /// transaction has reserved may be counted as room.
    pub(super) fn is_short_of_bytes(
        &self,
        stage: Stage,
        running: Option<(LaneNumber, u64)>,
    ) -> bool {
        let wanted = self.levels.of(stage).bytes;
        self.each_left(running).any(|left| left < wanted)
    }

    /// The room in each lane's ring, with what the running transaction has reserved.
    fn each_left(&self, running: Option<(LaneNumber, u64)>) -> impl Iterator<Item = u64> {
        let lanes = (0..self.common.geometry.lanes).map(LaneNumber);
        lanes.map(move |lane| {
            let more = running.map_or(0, |(of, bytes)| if of == lane { bytes } else { 0 });
            self.lane(lane).unreserved.left().saturating_add(more)
        })
    }

    /// The lane of the running transaction, and the bytes that it has reserved there: those of the
    /// longest record that it can have, mostly far more than it will take.
    pub(super) fn reserved_by_running(&self) -> Option<(LaneNumber, u64)> {
        if !self.gathering.has_any() {
            return None;
        }
        let gathered = self.gathering.lock();
        Some((gathered.running.lane, gathered.running.reserved_bytes))
    }

    /// What the running transaction has reserved, where that counts as room when it is decided what
    /// to do. A commit that looks whether a threshold is crossed does not count it, and so neither
    /// does what is noted for that. When the running transaction commits, it is noted anew.
    pub(super) fn room_of_running(&self) -> Option<(LaneNumber, u64)> {
        let has_log = self.common.geometry.lane_log_blocks > 0;
        if has_log { self.reserved_by_running() } else { None }
    }

    /// Notes how much room the upkeep has left, for the thresholds.
    pub(super) fn note_left(&self) {
        self.levels.note_left(self.least_room());
    }

    /// Notes for the thresholds that the running transaction has committed, and has given back most
    /// of what it had reserved.
    pub(in crate::engine) fn note_given_back(&self) {
        let has_log = self.common.geometry.lane_log_blocks > 0;
        if has_log && self.keeps(Rule::RunningGivesBack) {
            self.note_left();
        }
    }

    /// What is free in the lane that has least, of each kind.
    pub(super) fn least_room(&self) -> Room {
        let least = |of: fn(&LaneCell<M>) -> &Unreserved| {
            self.lanes.iter().map(|cell| of(cell).left()).min().unwrap_or(0)
        };
        Room {
            bytes: least(|cell| &cell.unreserved),
            slots: least(|cell| &cell.unreserved_slots),
            log_blocks: least(|cell| &cell.unreserved_log),
        }
    }

    /// Whether there is too little room for the transactions to come, so that a stage begins: in
    /// some lane, or in some share of the index, which only writing home helps. What the running
    /// transaction has reserved may be counted as room.
    pub(in crate::engine) fn is_short_beside(
        &self,
        stage: Stage,
        running: Option<(LaneNumber, u64)>,
    ) -> bool {
        let is_short_of_frames = stage == Stage::WriteHome && self.is_short_of_frames();
        is_short_of_frames || self.is_short_of_bytes(stage, running)
    }

    fn is_short_of_frames(&self) -> bool {
        self.wants_free_frames() && self.any_share(Share::is_filling)
    }

    /// Whether a share of the index has few frames left.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.any_share(Share::is_nearly_full)
    }

    fn any_share(&self, is: impl Fn(&Share) -> bool) -> bool {
        self.shares.iter().any(|share| share.lock().is_ok_and(|share| is(&share)))
    }

    /// Whether a threshold is crossed that asks for the upkeep.
    pub(super) fn is_due(&self) -> bool {
        let (least, levels) = (self.least_room(), &self.levels);
        least.bytes < levels.asks_below_bytes()
            || least.slots < levels.asks_below_slots()
            || self.log_is_below(levels.asks_below_log_blocks())
            || self.is_short_of_frames()
    }

    /// Asks the checkpointing thread to work, if there is one.
    #[cold]
    pub(crate) fn ask_for_checkpoint(&self) {
        self.bell.ask();
    }

    /// What was done to make room.
    pub(crate) fn done(&self) -> Done {
        *self.lock_done()
    }
}

/// The thread that writes home in the background.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    pub(crate) thread: JoinHandle<()>,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Checkpointer {
    pub(crate) fn start<L: Policy + Send + Sync + 'static, M: Machine>(
        shared: &Arc<Shared<L, M>>,
    ) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let (its, stops) = (Arc::clone(shared), Arc::clone(&stop));
        let work = move |its: &Shared<L, M>| {
            let begun = Instant::now();
            while !stops.load(Ordering::Acquire) && !its.has_failed() {
                // A failure makes the journal fail, which tells every caller.
                let _ = its.tick(begun.elapsed(), None);
                if its.bell.was_asked() {
                    let _ = its.keep_room_behind();
                } else {
                    thread::park_timeout(CHECKPOINTER_NAP);
                }
            }
        };
        // Other threads rely on this one: where it panics, everything else fails.
        let run = move || its.fail_on_panic(|| work(&its));
        let thread = thread::Builder::new().name("nvmj-home".into()).spawn(run);
        let thread = thread.map_err(|error| Error::NoThread { os: error.raw_os_error() })?;
        shared.bell.belongs_to(thread.thread());
        Ok(Self { thread, stop })
    }
}
