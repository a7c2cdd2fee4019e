//! Committing: from staged operations to a durable record, beside other threads.
//!
//! 1. The policy decides, and the record's size is known: `Common::prepare` in the core. Nothing
//!    below can fail for lack of space.
//! 2. Deferred records of other lanes are made durable: this transaction may depend on them. What
//!    the policy sends to the disk is written there, before the record that relies on it.
//! 3. The lane is taken. What was reserved beyond the record's size goes back, or stays in the
//!    lane's hand for the next transaction. The record is stored (`Common::store`), and its frames
//!    enter the index ([`Shared::insert_frame`]). No reader sees them before the lane says that
//!    they may be read.
//! 4. One fence. Then only plain stores: the lane says how far it is durable, and lane, blocks and
//!    seat are given back.
//!
//! Every way to commit stores between [`begin_record`](Shared::begin_record) and
//! [`end_record`](Shared::end_record). [`after_record`](Shared::after_record) follows. A call of
//! `Journal::commit` tries the shorter ways first:
//!
//! - One operation, where all that it takes is free: `commit_sole`, or `commit_several` for patches
//!   ([`commit_short`](crate::engine::commit_short)).
//! - Up to sixteen operations, likewise: `commit_few`, there.
//! - Any number of operations, and the policy may see their old images:
//!   [`commit_at_once`](Shared::commit_at_once). Blocks are locked, room is reserved, nothing is
//!   staged.
//!
//! A transaction is staged, and has locked and reserved as it was made:
//! [`commit_ready`](Shared::commit_ready). A lone operation of it is not prepared: `commit_taken`
//! (`commit/taken.rs`) stores it as `commit_sole` does, and `commit_lent` does where the policy is
//! lent its old image.
//! What was [gathered](crate::engine::gather) is committed in the same way, by the thread that
//! needs it done.
//!
//! *Group commit.* A committer that stores a record while others wait for the lane leaves it
//! unflushed, gives the lane to the next one, and waits. The last committer, or the one that
//! completes a group, flushes what all of them stored. Its one fence makes all of these records
//! durable.
//!
//! | requested | may others fence it? | unfenced records of others? | what it does |
//! |---|---|---|---|
//! | durable | no | no, or yes | fences all that is stored |
//! | durable | yes | no, or yes | joins the group and waits |
//! | deferred | no, or yes | no | publishes this record, and returns |
//! | deferred | no | yes | fences: perhaps no other thread comes that would |
//! | deferred | yes | yes | joins the group and waits |
//!
//! Others may fence it if some wait for the lane and the group has room. In the last row,
//! publishing this record would also make the group's unfenced records readable, so it joins them.
//! A deferred record for which more than [`DEFERRED_BYTES_MAX`] bytes are stored, those in slots
//! included, counts as a durable one here.
//!
//! **Crash**: as in `journal_core`. A group's records are there up to the first torn one.

use core::num::NonZero;

use journal_core::parts::{
    Content, Ends, FrameAt, FreeRoom, Full, Goes, InLane, Index, OpenRecord, Operations, Pace,
    Pieces, PiecesOf, Prepared, share_of,
};
use journal_core::policy::Policy;
use journal_core::units::{LaneNumber, Sequence, Stamp};
use journal_core::{BlockNumber, CommitError, Committed, Durability, MediumError, Rule};
use pmem_sys::StoreLockGuard;

use crate::engine::read::Keeps;
use crate::engine::versions::SharedVersions;
use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::home_cell::appends::Appending;
use crate::shared::lane_cell::{LaneCell, LaneState};
use crate::shared::share::Share;
use crate::staging::staged::ready::Ready;
use crate::staging::work::Work;
use crate::threads::free_space::Unreserved;
use crate::threads::sync::thread::Patience;

impl<L, M: Machine> Shared<L, M> {
    /// Runs `call`; if that panics, the journal has failed.
    pub(crate) fn fail_on_panic<R>(&self, call: impl FnOnce() -> R) -> R {
        let guard = self.failure.guard();
        let result = call();
        guard.end();
        result
    }
}

/// Takes `count` of what is left, if there is that much.
#[inline]
fn take(unreserved: &Unreserved, count: u32) -> bool {
    count == 0 || unreserved.take(count.into(), 0).is_some()
}

/// A lane, taken.
pub(super) type LaneGuard<'s, M> = StoreLockGuard<'s, LaneState<M>>;

/// Gives a lane back, and tells the watchers of what its holder has made durable.
#[inline(always)]
fn give_back_and_tell<M: Machine>(state: LaneGuard<'_, M>, cell: &LaneCell<M>) {
    if !cell.watchers.are_there() {
        state.give_back();
        return;
    }
    let due = cell.due(&state.lane);
    state.give_back();
    due.tell();
}

/// What a record is begun with.
pub(super) struct RecordTo {
    pub(super) lane: LaneNumber,
    /// Highest overwritten stamp in other lanes; the lane's own stamps are lower than the record's
    /// anyway.
    pub(super) overwritten: Stamp,
    pub(super) durability: Durability,
    /// About how many bytes are stored for it, those in slots included.
    pub(super) bytes: u64,
    /// Whether it has a note.
    pub(super) is_noted: bool,
}

/// A deferred record for which more bytes than this are stored is fenced all the same: that costs
/// less than flushing its lines later.
const DEFERRED_BYTES_MAX: u64 = 1 << 10;

/// Whether a record of this number of bytes is left unfenced.
#[inline(always)]
pub(super) fn is_left_unfenced(durability: Durability, bytes: u64) -> bool {
    durability == Durability::Deferred && bytes <= DEFERRED_BYTES_MAX
}

/// The record of a transaction, returned in two registers. Through memory it would be loaded wider
/// than it was stored (C1). The lane is that of the transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    stamp: NonZero<u64>,
    sequence: Sequence,
}

impl Recorded {
    /// The record of a commit. An error is stored apart.
    #[inline(always)]
    pub(crate) fn of(
        result: Result<Option<Committed>, Error>,
        error: &mut Option<Error>,
    ) -> Option<Self> {
        match result {
            // No stamp is zero.
            Ok(Some(Committed { stamp, sequence, .. })) => {
                NonZero::new(stamp.raw()).map(|stamp| Self { stamp, sequence })
            }
            Ok(None) => None,
            Err(one) => {
                *error = Some(one);
                None
            }
        }
    }

    /// This record, which is in `lane`.
    #[inline(always)]
    pub(crate) fn committed(self, lane: LaneNumber) -> Committed {
        Committed { lane, sequence: self.sequence, stamp: Stamp(self.stamp.get()) }
    }
}

/// A record that is being stored in a lane.
pub(super) struct Recording {
    pub(super) open: OpenRecord,
    lane: LaneNumber,
    durability: Durability,
    /// Whether the fence is left to others, which wait for the lane.
    leaves_fence: bool,
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Commits what a transaction has staged, and gives its blocks back. `prepared` says what the
    /// transaction takes, if that is known. Without a record, either an error is stored, or nothing
    /// had to be logged.
    #[inline]
    pub(crate) fn commit_ready(
        &self,
        work: &mut Work,
        operations: &Ready<'_>,
        prepared: Option<Result<Prepared, CommitError>>,
        durability: Durability,
        error: &mut Option<Error>,
    ) -> Option<Recorded> {
        debug_assert!(error.is_none(), "it says what comes of this call");
        let keeps = self.keeps_staged();
        if let Some(operation) = operations.only_operation() {
            let recorded = self.commit_taken(work, operation, keeps, durability, error);
            if recorded.is_some() || error.is_some() {
                return recorded;
            }
        }
        // Patches that the policy need not be asked about are looked at once.
        let is_known = prepared.is_some() || work.bypasses || !operations.has_patches();
        let pieces = if is_known { None } else { self.common.pieces(operations) };
        let of_pieces = pieces.as_ref().and_then(|it| self.common.prepared(it, &work.names));
        let of_pieces = of_pieces.filter(|prepared| prepared.bytes <= work.reserved_bytes);
        let pieces = pieces.as_ref().filter(|_| of_pieces.is_some());
        let prepared = of_pieces.map(Ok).or(prepared);
        let prepared = prepared.unwrap_or_else(|| self.prepare_held(work, operations));
        let prepared = (prepared, pieces);
        let result = self.commit_and_give_back(work, operations, keeps, prepared, durability);
        Recorded::of(result, error)
    }

    /// Commits operations whose blocks are locked and for which room is reserved. `None` when
    /// nothing of them had to be logged.
    ///
    /// However the call ends, the transaction is over. Its blocks are free again except after a
    /// failure, when no thread may see what has become of them.
    #[inline]
    pub(crate) fn commit_reserved<O: Operations + ?Sized>(
        &self,
        work: &mut Work,
        operations: &O,
        keeps: Keeps,
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let prepared = self.prepare_held(work, operations);
        self.commit_and_give_back(work, operations, keeps, (prepared, None), durability)
    }

    /// Makes durable what was gathered: a transaction that is not gathered has touched some of it.
    #[cold]
    pub(crate) fn make_gathered_durable<O: Operations + ?Sized>(
        &self,
        work: &mut Work,
        operations: &O,
    ) -> Result<(), Error> {
        self.commit_batch()?;
        self.note_overwritten(work, operations);
        Ok(())
    }

    /// Prepares a transaction for which room is reserved.
    #[inline]
    pub(super) fn prepare_held<O: Operations + ?Sized>(
        &self,
        work: &mut Work,
        operations: &O,
    ) -> Result<Prepared, CommitError> {
        let prepared = match work.bypasses {
            true => self.prepare_to_fit(work, operations)?,
            false => self.prepare_and_reserve(work, operations, Goes::ByPolicy)?,
        };
        // BY1 and G4 say that it fits. Nothing is stored beyond what is reserved, whatever a policy
        // does.
        let (needed, capacity) = (prepared.bytes, work.reserved_bytes);
        let fits = needed <= capacity
            || self.try_reserve(work, needed - capacity)
            || !self.keeps(Rule::BypassFits);
        if fits { Ok(prepared) } else { Err(CommitError::TooLarge { needed, capacity }) }
    }

    /// Prepares a transaction that has reserved fewer bytes than it may take. Where its lane is
    /// short of them, and the policy says so, its data goes to the disk-side log.
    #[inline]
    fn prepare_to_fit<O: Operations + ?Sized>(
        &self,
        work: &mut Work,
        operations: &O,
    ) -> Result<Prepared, CommitError> {
        let prepared = self.prepare_and_reserve(work, operations, Goes::ByPolicy)?;
        // Some bytes may have been granted to the transaction.
        let more =
            |prepared: &Prepared, work: &Work| prepared.bytes.saturating_sub(work.reserved_bytes);
        let missing = more(&prepared, work);
        let has_room = match work.bypasses {
            // It leaves what is kept for others that bypass.
            true => missing == 0 || self.try_reserve_above(work, missing, self.kept_to_bypass()),
            false => !self.common.policy.bypasses_when_full() || self.try_reserve(work, missing),
        };
        if has_room {
            return Ok(prepared);
        }
        self.unreserve_slots(work);
        let bypassing = self.prepare_and_reserve(work, operations, Goes::DataToLog)?;
        let missing = more(&bypassing, work);
        if missing == 0 || self.try_reserve(work, missing) {
            return Ok(bypassing);
        }
        // Data that finds no room there either would be in the record whole, and make the record
        // longer.
        self.unreserve_slots(work);
        self.prepare_and_reserve(work, operations, Goes::ByPolicy)
    }

    /// Works out what a transaction takes whose images go there. The slots that it takes are
    /// reserved, and so are the blocks of the log, of which it may have some before.
    #[inline]
    pub(super) fn prepare_and_reserve<O: Operations + ?Sized>(
        &self,
        work: &mut Work,
        operations: &O,
        goes: Goes,
    ) -> Result<Prepared, CommitError> {
        if operations.count() == 0 {
            return Err(CommitError::Unchanged);
        }
        let lane = work.lane;
        let cell = self.lane(lane);
        if self.common.geometry.lane_log_blocks > 0 {
            work.make_room_to_log(operations.count());
        }
        let count = operations.count() as u64;
        if self.clean.is_some() && cell.unreserved_slots.left() < count {
            // A share whose holder panicked: the journal has failed.
            let _ = self.give_clean_back(Some(lane), count);
        }
        loop {
            let free = FreeRoom {
                slots: cell.unreserved_slots.left() as u32,
                log_blocks: (cell.unreserved_log.left() as u32).saturating_add(work.reserved_log),
                goes,
            };
            let (names, mut scratch, answers) = work.for_preparing();
            let mut versions = SharedVersions::new(self, lane, answers);
            let prepared =
                self.common.prepare(operations, names, &mut scratch, free, &mut versions);
            let is_lent_all = versions.is_lent_all;
            work.is_lent_all &= is_lent_all;
            let prepared = prepared?;
            let (slots, log_blocks) = (prepared.new_slots, prepared.log_blocks);
            if slots == 0 && log_blocks == 0 {
                return Ok(prepared);
            }
            // Other threads may have taken them meanwhile: then what finds none goes into the
            // record.
            if take(&cell.unreserved_slots, slots) {
                work.reserved_slots = slots;
                let more = log_blocks.saturating_sub(work.reserved_log);
                if take(&cell.unreserved_log, more) {
                    work.reserved_log += more;
                    let short_of_slots =
                        slots > 0 && u64::from(free.slots - slots) < self.levels.asks_below_slots();
                    let short_of_log = log_blocks > 0
                        && u64::from(free.log_blocks - log_blocks)
                            < self.levels.asks_below_log_blocks();
                    if short_of_slots || short_of_log {
                        self.ask_for_checkpoint();
                    }
                    return Ok(prepared);
                }
                self.unreserve_slots(work);
            }
        }
    }

    /// Stores the record of a prepared transaction, and gives back what the transaction holds.
    #[inline]
    pub(super) fn commit_and_give_back<O: Operations + ?Sized>(
        &self,
        work: &mut Work,
        operations: &O,
        keeps: Keeps,
        prepared: (Result<Prepared, CommitError>, Option<&Pieces<'_>>),
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let guard = self.failure.guard();
        let result = self.commit_held(work, operations, prepared, durability);
        guard.end();
        self.give_back_after(work, operations, keeps, &result);
        result
    }

    /// Gives back what a transaction holds, behind its record.
    #[inline(always)]
    fn give_back_after<O: Operations + ?Sized>(
        &self,
        work: &mut Work,
        operations: &O,
        keeps: Keeps,
        result: &Result<Option<Committed>, Error>,
    ) {
        self.after_record(operations, keeps, result);
        self.unreserve_slots_and_log(work);
        self.give_grants_back(work);
        if self.may_unlock(result) {
            self.unlock_blocks(work);
        }
        work.clear();
    }

    /// Unlocks the blocks of a transaction that has ended, and wakes those that wait for them.
    #[inline]
    pub(crate) fn unlock_blocks(&self, work: &Work) {
        for stripe in &work.held {
            self.blocks.unlock(*stripe);
        }
        if !work.held_beside.is_empty() {
            self.unlock_beside(&work.held_beside);
        }
        let asleep = self.waiting.asleep();
        if !asleep.is_nobody() {
            let beside = work.held_beside.iter().map(|block| self.blocks.stripe(*block));
            self.wake_waiters(asleep, work.held.iter().copied().chain(beside));
        }
    }

    /// Gives back blocks that are locked beside the table.
    #[cold]
    fn unlock_beside(&self, held: &[BlockNumber]) {
        for block in held {
            if let Ok(mut share) = self.lock_share(*block) {
                self.blocks.unlock_beside(&mut share.claims, *block);
            }
        }
    }

    /// Stores the record of a prepared transaction, and makes it durable if that is asked for.
    /// Its blocks are locked, and what the record takes is reserved. Where it consists of pieces,
    /// the caller may have them at hand.
    fn commit_held<O: Operations + ?Sized>(
        &self,
        work: &mut Work,
        operations: &O,
        (prepared, pieces): (Result<Prepared, CommitError>, Option<&Pieces<'_>>),
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        self.check_not_failed()?;
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                self.unreserve_bytes(work);
                self.release_slots(work);
                self.unreserve_frames(operations, &[]);
                if error != CommitError::Unchanged {
                    return Err(error.into());
                }
                if durability == Durability::Durable {
                    // What the transaction has read is to be durable all the same.
                    self.make_deferred_durable(None)?;
                }
                return Ok(None);
            }
        };
        self.make_deferred_durable(Some(work.lane))?;
        let appending = match prepared.is_ahead() {
            true => self.write_ahead(work, operations, &prepared)?,
            false => None,
        };
        let cell = self.lane(work.lane);
        let mut state = cell.turn.take_to_commit().map_err(|_| self.poisoned())?;
        self.check_not_failed()?;
        self.put_in_hand(&mut state, work, prepared.bytes);
        let (lane, overwritten) = (work.lane, work.overwritten);
        let mut bytes = prepared.bytes;
        if is_left_unfenced(durability, bytes) {
            bytes += self.slot_bytes(&mut state, work, operations, &prepared);
        }
        work.defers |= is_left_unfenced(durability, bytes);
        let is_noted = work.names.note().is_some();
        let to = RecordTo { lane, overwritten, durability, bytes, is_noted };
        let mut record = self.begin_record(&state, cell, to);
        let to = (&mut *state, &mut record.open);
        let frames = self.store_record(to, work, operations, &prepared, pieces);
        let committed = self.end_record(state, record, cell, frames)?;
        drop(appending);
        Ok(Some(committed))
    }

    /// About how many bytes a prepared transaction will write to slots. To stream a whole slot and
    /// fence it costs less than to flush its lines later. Nor does a chain then grow in which
    /// nothing is durable: none of its slots could be written again.
    #[inline(never)]
    fn slot_bytes<O: Operations + ?Sized>(
        &self,
        state: &mut LaneState<M>,
        work: &mut Work,
        operations: &O,
        prepared: &Prepared,
    ) -> u64 {
        let LaneState { lane, slots, .. } = state;
        let (in_lane, (_, scratch, _)) = (InLane { lane, states: slots }, work.for_preparing());
        self.common.slot_bytes(&in_lane, operations, prepared, &scratch)
    }

    /// Keeps `kept` reserved bytes of the lane, and gives back the rest.
    #[inline]
    fn unreserve_bytes_beyond(&self, work: &mut Work, kept: u64) {
        if work.reserved_bytes > kept {
            let more = work.reserved_bytes - kept;
            self.lane(work.lane).unreserved.give(more);
            work.reserved_bytes = kept;
        }
    }

    /// Puts what is reserved into the lane's hand, from which the record is taken. What is reserved
    /// beyond `needed` bytes goes back before, unless the lane's holder had better have it for the
    /// next transaction. Before anything streams (C4).
    #[inline]
    fn put_in_hand(&self, state: &mut LaneState<M>, work: &mut Work, needed: u64) {
        let kept = state.in_hand + work.reserved_bytes.saturating_sub(needed);
        // Where bytes are kept back, nobody takes them from a hand.
        let is_taken = kept <= self.in_hand_max() && self.kept_bytes(0) == 0;
        if !is_taken || self.is_room_awaited() {
            self.unreserve_bytes_beyond(work, needed);
        }
        state.in_hand += core::mem::take(&mut work.reserved_bytes);
    }

    /// What follows a record: the cache learns of it. Then the caller gives back what it holds.
    #[inline(always)]
    pub(super) fn after_record<O: Operations + ?Sized>(
        &self,
        operations: &O,
        keeps: Keeps,
        result: &Result<Option<Committed>, Error>,
    ) {
        if let (Ok(Some(committed)), true) = (result, self.caches) {
            self.keep_committed(operations, keeps, committed);
        }
    }

    /// Whether the blocks of a transaction that has ended come free. After a failure no thread may
    /// see what has become of them.
    #[inline(always)]
    pub(super) fn may_unlock(&self, result: &Result<Option<Committed>, Error>) -> bool {
        result.is_ok() || !self.has_failed()
    }

    /// Begins a record whose stamp is above those of what it overwrites. The caller stores it, and
    /// ends it with [`end_record`](Self::end_record), where a panic makes the journal fail.
    ///
    /// The two are no function around the store (C2): that would be a closure, which the compiler
    /// calls, and what it returns would be stored behind the fence.
    #[inline(always)]
    pub(super) fn begin_record(
        &self,
        state: &LaneState<M>,
        cell: &LaneCell<M>,
        to: RecordTo,
    ) -> Recording {
        let RecordTo { lane, overwritten, durability, bytes, is_noted } = to;
        let durability = match is_left_unfenced(durability, bytes) {
            true => Durability::Deferred,
            false => Durability::Durable,
        };
        let leaves_fence = cell.turn.is_busy() && state.group.has_room();
        let pace = match durability {
            Durability::Durable if !leaves_fence => Pace::AtOnce,
            _ => Pace::Deferred,
        };
        let overwritten = if self.keeps(Rule::StampAbove) { overwritten } else { Stamp(0) };
        let below = state.lane.last_stamp().max(overwritten);
        let stamp = match is_noted && self.keeps(Rule::NotesRise) {
            true => self.notes.stamp_above(below),
            false => Stamp(below.raw() + 1),
        };
        Recording { open: state.lane.begin(stamp, pace), lane, durability, leaves_fence }
    }

    /// Accounts for a record that is stored, with this number of frames, and makes it durable if
    /// that is asked for. Its bytes are taken from those in hand.
    #[inline(always)]
    pub(super) fn end_record(
        &self,
        mut state: LaneGuard<'_, M>,
        record: Recording,
        cell: &LaneCell<M>,
        frames: usize,
    ) -> Result<Committed, Error> {
        let bytes = record.open.bytes();
        debug_assert!(state.in_hand >= bytes, "all of the record was reserved");
        state.in_hand -= bytes;
        state.stats.add_record(frames as u64, bytes);
        let (lane, sequence, stamp) = (record.lane, record.open.sequence(), record.open.stamp());
        self.finish(state, record, cell)?;
        Ok(Committed { lane, sequence, stamp })
    }

    /// Stores a record that was begun, as it was prepared. Returns the number of its frames.
    #[inline]
    fn store_record<O: Operations + ?Sized>(
        &self,
        (state, open): (&mut LaneState<M>, &mut OpenRecord),
        work: &mut Work,
        operations: &O,
        prepared: &Prepared,
        pieces: Option<&Pieces<'_>>,
    ) -> usize {
        let mut placed = Vec::new();
        let all_placed = prepared.frames == operations.count();
        let (lane, takes_in_first) = (work.lane, work.takes_in_first);
        let (names, mut scratch, answers) = work.for_preparing();
        let ends = Ends::Record;
        // No reader sees the frames before the lane says that they may be read.
        let taken_in = (!all_placed).then_some(&mut placed);
        let mut versions =
            SharedVersions { takes_in_first, taken_in, ..SharedVersions::new(self, lane, answers) };
        let LaneState { lane, slots, .. } = state;
        let taken = if let Some(pieces) = pieces {
            let content = PiecesOf { operations, pieces, names, ends };
            self.common.store_pieces(lane, open, &content, scratch.front, &mut versions);
            0
        } else {
            let content = Content { operations, names, prepared, ends };
            let mut in_lane = InLane { lane, states: slots };
            self.common.store(&mut in_lane, open, &content, &mut scratch, &mut versions)
        };
        work.reserved_slots -= taken;
        self.unreserve_slots_and_log(work);
        if !all_placed {
            self.unreserve_frames(operations, &placed);
        }
        state.stats.appended_home += prepared.appends as u64;
        if self.common.geometry.lane_slots_and_log() > 0 {
            state.stats.logged += u64::from(prepared.log_blocks);
            state.stats.new_slots += u64::from(taken);
            state.stats.rewritten_slots += work.held_slots().count() as u64;
        }
        prepared.frames
    }

    /// Ends a record that is stored, and makes it durable if that is asked for.
    #[inline(always)]
    fn finish(
        &self,
        mut state: LaneGuard<'_, M>,
        record: Recording,
        cell: &LaneCell<M>,
    ) -> Result<(), Error> {
        let Recording { open, durability, leaves_fence, .. } = record;
        let sequence = open.sequence();
        let is_awaited = state.group.is_awaited();
        // A deferred record does not leave a group behind that no thread fences.
        let flushes_deferred = durability == Durability::Deferred && is_awaited && !leaves_fence;
        let LaneState { lane, slots, .. } = &mut *state;
        let fenced = lane.close_and_fence(open, slots, flushes_deferred);
        if !matches!(fenced, Ok(None)) {
            state.stats.fences += state.lane.fences();
            state.group.end();
            if let Err(error) = fenced {
                return failed_fence(self, error);
            }
            cell.reach.publish(state.lane.durable_to(), state.lane.has_deferred());
            give_back_and_tell(state, cell);
            return Ok(());
        }
        if durability == Durability::Deferred && !is_awaited {
            cell.reach.publish_deferred(state.lane.next_sequence());
            state.give_back();
            return Ok(());
        }
        state.group.leave();
        drop(state);
        self.await_durable(cell, sequence)
    }

    /// Waits until the group's last committer has fenced. That one may have panicked instead, and
    /// no other thread may ever ask for the lane. So a thread that has waited a while looks for a
    /// panic.
    #[cold]
    fn await_durable(&self, cell: &LaneCell<M>, sequence: Sequence) -> Result<(), Error> {
        self.await_lane(cell, || cell.reach.is_durable(sequence))
    }

    /// Waits until a lane has come so far, which it does unless a thread panics with it in hand.
    pub(super) fn await_lane(
        &self,
        cell: &LaneCell<M>,
        is_there: impl Fn() -> bool,
    ) -> Result<(), Error> {
        let mut patience = Patience::default();
        while !is_there() {
            self.check_not_failed()?;
            if patience.is_long() && cell.turn.is_poisoned() {
                return Err(self.poisoned());
            }
            patience.pause();
        }
        Ok(())
    }

    /// Makes deferred records durable, in all lanes except `but`.
    #[inline]
    pub(crate) fn make_deferred_durable(&self, but: Option<LaneNumber>) -> Result<(), Error> {
        for (number, cell) in (0..).map(LaneNumber).zip(&self.lanes) {
            if but != Some(number) && cell.reach.has_deferred() {
                self.make_lane_durable(cell, but.is_some())?;
            }
        }
        Ok(())
    }

    #[cold]
    pub(super) fn make_lane_durable(
        &self,
        cell: &LaneCell<M>,
        is_before_own: bool,
    ) -> Result<(), Error> {
        if is_before_own && !self.keeps(Rule::DeferredFirst) {
            return Ok(());
        }
        let mut state = self.lock_lane(cell)?;
        self.check_not_failed()?;
        let LaneState { lane, slots, .. } = &mut *state;
        let Some(in_flight) = lane.flush_all_deferred(slots) else { return Ok(()) };
        if let Err(error) = state.lane.fence(in_flight) {
            return failed_fence(self, error);
        }
        state.stats.fences += state.lane.fences();
        state.group.end();
        cell.reach.publish(state.lane.durable_to(), state.lane.has_deferred());
        give_back_and_tell(state, cell);
        Ok(())
    }

    /// Writes to the disk, and syncs, what the policy puts there.
    #[cold]
    fn write_ahead<O: Operations + ?Sized>(
        &self,
        work: &mut Work,
        operations: &O,
        prepared: &Prepared,
    ) -> Result<Option<Appending<'_>>, Error> {
        let lane = work.lane;
        let (names, mut scratch, answers) = work.for_preparing();
        let content = Content { operations, names, prepared, ends: Ends::Record };
        let (stored, appending) = self.write_to_disk(lane, &content, &mut scratch, answers)?;
        work.reserved_bytes -= stored;
        work.reserved_log -= prepared.log_blocks;
        Ok(appending)
    }
}

impl<L, M: Machine> Shared<L, M> {
    /// Takes in a frame for which room is reserved. Others may lock its share until then.
    #[inline(always)]
    pub(super) fn take_in(&self, frame: FrameAt) {
        // A share whose holder panicked: the journal has failed.
        let Ok(mut share) = self.lock_share(frame.block) else { return };
        let inserted = self.insert_frame(&mut share, frame);
        assert!(inserted.is_ok(), "room for the frame was reserved");
        share.reserved -= 1;
    }

    /// Takes a frame into its share of the index, and drops from it what nothing needs any more.
    #[inline(always)]
    pub(crate) fn insert_frame(&self, share: &mut Share, frame: FrameAt) -> Result<(), Full> {
        share.note_pin(self.evicts_to_log, &frame);
        let Share { index, cache, .. } = share;
        if let Some(cache) = cache {
            cache.forget(frame.block, frame.stamp);
        }
        // A lane's stamps ascend, and the stamps of what was overwritten in another lane are below.
        let rules = [Rule::StampAbove, Rule::StampFloor, Rule::MovedAbove];
        let ascend = rules.into_iter().all(|rule| self.keeps(rule));
        let newest = |index: &Index<_>| index.newest(frame.block).map(|id| index.frame(id).stamp);
        debug_assert!(!ascend || newest(index) <= Some(frame.stamp), "it becomes the newest");
        if self.common.geometry.lane_slots_and_log() > 0 {
            if let Some(slot) = frame.slot() {
                self.uses.note_write(slot.raw());
            }
            if let Some(clean) = &self.clean {
                clean.forget(share_of(frame.block, self.shares.len()), frame.block);
            }
        }
        // A snapshot may see what lies below.
        let is_kept = self.keeps_for_snapshots();
        let is_durable = |frame: &FrameAt| {
            if is_kept {
                return false;
            }
            let reach = &self.lane(frame.lane).reach;
            self.writes_home.all_find(|| reach.is_durable(frame.sequence))
        };
        index.insert_over(&frame, self.keeps(Rule::OneOfEachLane), is_durable)?;
        self.common.prefetch_next_node(index);
        Ok(())
    }
}

/// A medium error behind a failed fence: the outcome is unknown, and stays so.
pub(super) fn failed_fence<L, M: Machine, T>(
    shared: &Shared<L, M>,
    error: MediumError,
) -> Result<T, Error> {
    let error = Error::Medium(error);
    shared.fail_of(error);
    Err(error)
}

pub(crate) mod at_once;
mod give_back;
mod taken;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
