//! The journal: one owner, `&mut self`, no locks.
//!
//! What is durable when:
//!
//! | after | survives every crash |
//! |---|---|
//! | a commit that is [`Durability::Durable`] | the transaction, and all before it in its lane |
//! | a commit that is [`Durability::Deferred`] | nothing yet; readable at once |
//! | [`Journal::sync`] | every transaction committed so far |
//! | [`Journal::checkpoint`] | the same, and the device alone holds it |
//!
//! A transaction that was not acknowledged as durable is after a crash wholly there or not at all.
//! After a failed fence, write or sync, or a panic of a policy or a device, the journal refuses to
//! go on. The outcome of what was under way is unknown until the journal is opened again.

use crate::commit::batched::Batched;
use crate::commit::error::CommitError;
use crate::commit::one_operation::{Alone, Sole};
use crate::commit::operation::Operation;
use crate::commit::patches::PiecesOf;
use crate::commit::prepared::{Content, Decided, Prepared, Scratch, Versions as _};
use crate::common::Common;
use crate::format::geometry::Geometry;
use crate::home::content::ContentView;
use crate::home::error::JournalError;
use crate::home::report::{CheckpointReport, Scope};
use crate::home::waiting::Waiting;
use crate::home::{Home, HomeScratch};
use crate::index::frame::NO_BOUNDS;
use crate::index::{Index, Lead, LentMemory};
use crate::order::ordered::Pace;
use crate::order::rule::Rule;
use crate::owner::lanes::{Indexed, OwnLanes};
use crate::owner::machine::Machine;
use crate::ports::error::{DeviceError, MediumError};
use crate::ports::policy::Policy;
use crate::reclaim::unreadable::segment_to_clean;
use crate::scan::reader::IndexError;
use crate::scan::verdict::Recovery;
use crate::space::lane::{Ends, FreeRoom, Goes, InLane, Lane, Names, OpenRecord};
use crate::units::{BlockNumber, LINE_BYTES, LaneNumber, Sequence, Stamp};

/// When a commit is to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// When it returns: one fence.
    Durable,
    /// At the next [`Journal::sync`], or durable commit in the same lane. A crash before may lose
    /// it, and everything behind it in its lane.
    ///
    /// The journal of many threads, in `nvm-journal`, fences a deferred record at once that stores
    /// more than about 1 KiB, in slots or in the lane. Deferring whole blocks saves nothing there.
    Deferred,
}

/// Which transaction it was: unique in the journal's life as long as it is not formatted anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Committed {
    /// The lane it went into.
    pub lane: LaneNumber,
    /// Its sequence there.
    pub sequence: Sequence,
    /// Its place in the order of versions.
    pub stamp: Stamp,
}

/// An open journal with the policy `L`, on the [machine](Machine) `M`.
///
/// [`open`](Self::open) infers both. A program that keeps a journal spells them, for example as
/// `Journal<'m, L, On<P, D>>` with [`On`](crate::On).
#[derive(Debug)]
pub struct Journal<'m, L, M: Machine> {
    pub(crate) common: Common<L, M::Kernels>,
    pub(crate) lanes: OwnLanes<'m, M::Pmem, M::Hook>,
    pub(crate) index: Index<LentMemory<'m>>,
    pub(crate) home: Home<M::Pmem, M::Disk, M::Hook>,
    pub(crate) batch: &'m mut [Batched],
    pub(crate) front: &'m mut [u8],
    pub(crate) encoded: &'m mut [u8],
    pub(crate) blocks: &'m mut [u8],
    pub(crate) decided: Decided,
    pub(crate) recovery: Recovery,
    pub(crate) failed: bool,
}

/// A journal in the middle of something. Forgotten when that is done: dropped by a panic only,
/// it makes the journal fail.
struct PanicGuard<'w, 'm, L, M: Machine>(&'w mut Journal<'m, L, M>);

impl<L, M: Machine> Drop for PanicGuard<'_, '_, L, M> {
    fn drop(&mut self) {
        self.0.failed = true;
    }
}

/// The scratch memory of a journal, leaving the rest of it free to be borrowed.
macro_rules! scratch {
    ($journal:expr) => {
        Scratch {
            front: &mut *$journal.front,
            encoded: &mut *$journal.encoded,
            decided: &mut $journal.decided,
            logged: &mut *$journal.batch,
        }
    };
}
pub(crate) use scratch;

/// What the index knows of versions of blocks, likewise.
macro_rules! versions {
    ($journal:expr, $lane:expr) => {
        Indexed {
            keeps: {
                let home = &$journal.home;
                let rules = [Rule::NewestSpared, Rule::AppendsNotLive, Rule::OneOfEachLane];
                rules.map(|rule| home.keeps(rule))
            },
            durable_to: $journal.lanes.lane($lane).durable_to(),
            index: &mut $journal.index,
            geometry: &$journal.common.geometry,
            lane: $lane,
        }
    };
}

impl<'m, L, M: Machine> Journal<'m, L, M> {
    /// Does what has no end but its own: where it panics, the journal refuses to go on.
    #[inline(always)]
    pub(crate) fn fail_on_panic<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let guard = PanicGuard(self);
        let done = work(&mut *guard.0);
        core::mem::forget(guard);
        done
    }
}

impl<'m, L: Policy, M: Machine> Journal<'m, L, M> {
    /// The geometry it was formatted with.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.common.geometry
    }

    /// Bytes of a lane's ring that records can take before a head advances; `None` when there is no
    /// such lane. For an owner that makes room by a policy's thresholds.
    #[must_use]
    pub fn free_bytes(&self, lane: LaneNumber) -> Option<u64> {
        (lane.raw() < self.common.geometry.lanes).then(|| self.lane(lane).free_bytes())
    }

    /// Slots of a lane that hold nothing; `None` when there is no such lane.
    #[must_use]
    pub fn free_slots(&self, lane: LaneNumber) -> Option<u32> {
        (lane.raw() < self.common.geometry.lanes).then(|| self.lane(lane).free_slots())
    }

    /// Blocks of a lane in the disk-side log that can be taken; `None` when there is no such lane.
    #[must_use]
    pub fn free_log_blocks(&self, lane: LaneNumber) -> Option<u32> {
        (lane.raw() < self.common.geometry.lanes).then(|| self.lane(lane).free_log_blocks())
    }

    /// What recovery found when this journal was opened.
    #[must_use]
    pub const fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Commits a transaction through `lane`. The operations ascend by block, each block once.
    ///
    /// # Errors
    /// Before anything is stored: an operation that cannot be, or too little space (a checkpoint
    /// makes some). After that only `Medium`: the outcome is unknown, the journal refuses to go on.
    pub fn commit(
        &mut self,
        lane: LaneNumber,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Committed, CommitError> {
        self.commit_as(lane, operations, None, durability, Goes::ByPolicy)
    }

    /// Like [`commit`](Self::commit); `goes` says where images go. A function of its own, so that
    /// what a caller keeps in registers leaves no fewer for it (C2).
    #[inline(never)]
    pub(crate) fn commit_as(
        &mut self,
        lane: LaneNumber,
        operations: &[Operation<'_>],
        note: Option<[u64; 2]>,
        durability: Durability,
        goes: Goes,
    ) -> Result<Committed, CommitError> {
        self.common.prefetch(operations);
        self.check_usable(lane)?;
        self.common.validate(operations)?;
        let pace = match durability {
            Durability::Durable => Pace::AtOnce,
            Durability::Deferred => Pace::Deferred,
        };
        if let ([operation], None, Goes::ByPolicy) = (operations, note, goes) {
            if let Some(sole) = Sole::of(&self.common, operation, self.encoded) {
                return self.commit_sole(lane, sole, pace);
            }
        }
        let mut names = Names::NONE;
        let mut overwritten = self.overwritten(lane, operations, &mut names);
        if note.is_some() {
            names.set_note(note);
            overwritten = overwritten.max(self.last_noted());
        }
        if goes == Goes::DataToLog && !self.keeps(Rule::MovedAbove) {
            overwritten = Stamp(0);
        }
        if let Some(pieces) = &self.common.pieces(operations) {
            if let Some(prepared) = self.common.prepared(pieces, &names) {
                let content = PiecesOf { operations, pieces, names: &names, ends: Ends::Record };
                return self.commit_pieces(lane, overwritten, &content, &prepared, pace);
            }
        }
        let free = FreeRoom { goes, ..self.lane(lane).free_room() };
        let mut versions = versions!(self, lane);
        let mut scratch = scratch!(self);
        let mut prepared =
            self.common.prepare(operations, &names, &mut scratch, free, &mut versions)?;
        // What finds no room in the log either would be in the record whole, and that longer.
        for goes in [Goes::DataToLog, goes] {
            let is_full = prepared.bytes > self.lane(lane).free_bytes();
            if is_full && self.common.policy.bypasses_when_full() {
                let free = FreeRoom { goes, ..free };
                let (mut versions, mut scratch) = (versions!(self, lane), scratch!(self));
                prepared =
                    self.common.prepare(operations, &names, &mut scratch, free, &mut versions)?;
            }
        }
        self.make_way(lane, prepared.bytes, prepared.frames)?;
        if prepared.is_ahead() {
            self.write_ahead(lane, operations, &names, &prepared)?;
        }
        self.recording(lane, overwritten, pace, |journal, open| {
            let (mut scratch, mut versions) = (scratch!(journal), versions!(journal, lane));
            let mut at = journal.lanes.in_lane(lane);
            let (names, prepared) = (&names, &prepared);
            let content = Content { operations, names, prepared, ends: Ends::Record };
            journal.common.store(&mut at, open, &content, &mut scratch, &mut versions);
        })
    }

    /// Commits one operation, all of a transaction.
    #[inline]
    fn commit_sole(
        &mut self,
        lane: LaneNumber,
        mut sole: Sole<'_>,
        pace: Pace,
    ) -> Result<Committed, CommitError> {
        let lead = self.lead(sole.block());
        let overwritten = sole.overwrite(&self.index, lead, lane);
        self.make_way(lane, self.common.sole_bytes(&sole), 1)?;
        self.recording(lane, overwritten, pace, |journal, open| {
            let InLane { lane: at, .. } = journal.lanes.in_lane(lane);
            let frame = sole.store(&journal.common, at, open, journal.front, journal.encoded);
            let taken_in = versions!(journal, lane).take_in(frame);
            assert!(taken_in.is_ok(), "room for the frame was seen to");
        })
    }

    /// Commits a transaction that consists of pieces.
    #[inline]
    fn commit_pieces(
        &mut self,
        lane: LaneNumber,
        overwritten: Stamp,
        content: &PiecesOf<'_, [Operation<'_>]>,
        prepared: &Prepared,
        pace: Pace,
    ) -> Result<Committed, CommitError> {
        self.make_way(lane, prepared.bytes, prepared.frames)?;
        self.recording(lane, overwritten, pace, |journal, open| {
            let mut versions = versions!(journal, lane);
            let InLane { lane: at, .. } = journal.lanes.in_lane(lane);
            journal.common.store_pieces(at, open, content, journal.front, &mut versions);
        })
    }

    /// Makes sure that there is room for a record and its frames, and that all which the record
    /// may depend on is durable.
    #[inline]
    fn make_way(&mut self, lane: LaneNumber, bytes: u64, frames: usize) -> Result<(), CommitError> {
        self.see_to_space(lane, bytes, frames)?;
        self.make_other_lanes_durable(lane)
    }

    /// The frame around each record. It begins the record with a stamp above those of what it
    /// overwrites, has `store` store it, and makes it durable unless it is deferred.
    ///
    /// `store` may ask the policy between parts. Where that panics, some parts are in the index.
    /// Then the journal refuses to go on.
    #[inline(always)]
    fn recording(
        &mut self,
        lane: LaneNumber,
        overwritten: Stamp,
        pace: Pace,
        store: impl FnOnce(&mut Self, &mut OpenRecord),
    ) -> Result<Committed, CommitError> {
        let overwritten = if self.keeps(Rule::StampAbove) { overwritten } else { Stamp(0) };
        let highest = self.lane(lane).last_stamp.max(overwritten);
        let mut open = self.lane(lane).begin(Stamp(highest.raw().saturating_add(1)), pace);
        self.fail_on_panic(|journal| {
            store(journal, &mut open);
            journal.finish(lane, open)
        })
    }

    /// Ends a record that is stored, and makes it durable unless it is deferred.
    #[inline(always)]
    fn finish(&mut self, lane: LaneNumber, open: OpenRecord) -> Result<Committed, CommitError> {
        let (sequence, stamp) = (open.sequence, open.stamp);
        let at = self.lanes.in_lane(lane);
        match at.lane.close_and_fence(open, at.states, false) {
            Ok(durable) => {
                debug_assert!(durable.is_none_or(|durable| *durable.what() == sequence));
                Ok(Committed { lane, sequence, stamp })
            }
            Err(error) => {
                self.fail();
                Err(CommitError::Medium(error))
            }
        }
    }

    pub(crate) fn check_usable(&self, lane: LaneNumber) -> Result<(), CommitError> {
        if self.failed {
            return Err(CommitError::Failed);
        }
        if lane.raw() >= self.common.geometry.lanes {
            return Err(CommitError::NoSuchLane { lane });
        }
        Ok(())
    }

    /// Refuses to go on.
    pub(crate) fn fail(&mut self) {
        self.failed |= self.keeps(Rule::Sticky);
    }

    #[inline]
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.home.keeps(rule)
    }

    /// What the index says of a block's newest frame, of which it begins to bring the rest.
    #[inline(always)]
    fn lead(&self, block: BlockNumber) -> Option<Lead> {
        self.common.prefetch_next_node(&self.index);
        let lead = self.index.lead(block)?;
        self.common.prefetch_lead(&self.index, &lead);
        Some(lead)
    }

    /// Names the records of other lanes that hold the newest frames of these blocks; returns the
    /// highest stamp of those frames.
    #[inline]
    pub(crate) fn overwritten(
        &self,
        lane: LaneNumber,
        operations: &[Operation<'_>],
        names: &mut Names,
    ) -> Stamp {
        let mut stamp = Stamp(0);
        for operation in operations {
            let lead = self.lead(operation.block());
            let newest = lead.and_then(|lead| self.index.overwritten_by(lead, lane));
            let Some(frame) = newest else { continue };
            stamp = stamp.max(frame.stamp);
            names.name(frame.lane, frame.sequence);
        }
        stamp
    }

    pub(crate) fn lane(&self, lane: LaneNumber) -> &Lane<M::Pmem, M::Hook> {
        self.lanes.lane(lane)
    }

    /// Writes to the device, and syncs, what the policy places there.
    #[cold]
    fn write_ahead(
        &mut self,
        lane: LaneNumber,
        operations: &[Operation<'_>],
        names: &Names,
        prepared: &Prepared,
    ) -> Result<(), CommitError> {
        let written = self.fail_on_panic(|journal| {
            let (mut versions, mut scratch) = (versions!(journal, lane), scratch!(journal));
            let content = Content { operations, names, prepared, ends: Ends::Record };
            let (common, lanes) = (&journal.common, &mut journal.lanes);
            let (home, scratch) = (&mut journal.home, &mut scratch);
            let gives_up = home.keeps(Rule::AppendsGivenUp);
            let versions = &mut versions;
            let at = (lane, gives_up);
            common.discard_before_append(lanes, at, &content, scratch, versions)?;
            let take = || Ok::<_, DeviceError>(lanes.in_lane(lane).take_log_block());
            let written = home.device.write_ahead(common, &content, scratch, versions, take);
            written.map(drop).map_err(JournalError::Device)
        });
        written.map_err(|error| {
            self.fail();
            match error {
                JournalError::Device(error) => CommitError::Device(error),
                JournalError::Medium(error) => CommitError::Medium(error),
                _ => CommitError::Failed,
            }
        })
    }

    pub(crate) fn check_space(
        &self,
        lane: LaneNumber,
        bytes: u64,
        frames: usize,
    ) -> Result<(), CommitError> {
        let capacity = self.lane(lane).capacity_bytes();
        if bytes > capacity {
            return Err(CommitError::TooLarge { needed: bytes, capacity });
        }
        let free = self.lane(lane).free_bytes();
        let spare = if self.keeps(Rule::LastLineChecked) { 0 } else { LINE_BYTES as u64 };
        if bytes > free.saturating_add(spare) && self.keeps(Rule::SpaceChecked) {
            return Err(CommitError::NoSpace { needed: bytes, free });
        }
        let free = self.index.free_frames();
        if frames > free {
            return Err(CommitError::IndexFull { needed: frames, free });
        }
        Ok(())
    }

    /// Deferred records of other lanes are readable, so this transaction may depend on them: they
    /// are durable before any of it is stored.
    #[inline]
    pub(crate) fn make_other_lanes_durable(&mut self, lane: LaneNumber) -> Result<(), CommitError> {
        if self.common.geometry.lanes == 1 || !self.keeps(Rule::DeferredFirst) {
            return Ok(());
        }
        self.fail_on_panic(|journal| journal.flush_other_lanes(lane))
    }

    fn flush_other_lanes(&mut self, lane: LaneNumber) -> Result<(), CommitError> {
        for number in (0..self.common.geometry.lanes).map(LaneNumber) {
            let InLane { lane: at, states } = self.lanes.in_lane(number);
            let deferred = if number == lane { None } else { at.flush_all_deferred(states) };
            let Some(deferred) = deferred else { continue };
            if let Err(error) = at.fence(deferred) {
                self.fail();
                return Err(CommitError::Medium(error));
            }
        }
        Ok(())
    }

    /// Makes every transaction committed so far durable.
    ///
    /// # Errors
    /// The medium's; the journal then refuses to go on.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.check_not_failed()?;
        let make_durable =
            |journal: &mut Self| journal.home.make_durable(&journal.common, &mut journal.lanes);
        let result = self.fail_on_panic(make_durable);
        self.fail_unless(result)
    }

    pub(crate) fn check_not_failed(&self) -> Result<(), JournalError> {
        if self.failed { Err(JournalError::Failed) } else { Ok(()) }
    }

    pub(crate) fn fail_unless<T>(
        &mut self,
        result: Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        // A block that cannot go home yet, or a unit that is too short, has changed nothing.
        let changed_nothing =
            matches!(result, Err(JournalError::NoShield { .. } | JournalError::Geometry(_)));
        if result.is_err() && !changed_nothing {
            self.fail();
        }
        result
    }

    /// Writes everything home and empties the lanes. Blocks that cannot be read stay, and so does
    /// what lies behind them; the report counts those blocks.
    ///
    /// # Errors
    /// The medium's or the device's. No head has moved past what is not home; the journal refuses
    /// to go on. `NoShield`, where a block needs one and there is none: it stays, all others are
    /// home, and the journal goes on.
    pub fn checkpoint(&mut self) -> Result<CheckpointReport, JournalError> {
        let mut report = CheckpointReport::default();
        let stays = self.write_all_home(Scope::All, &mut report)?;
        self.let_heads_pass(&mut report)?;
        stays.map_or(Ok(report), Err)
    }

    /// Writes batches home until nothing is left, or nothing except what needs a shield where there
    /// is none. Returns the error of what needs one: what others had can be given back.
    fn write_all_home(
        &mut self,
        scope: Scope,
        report: &mut CheckpointReport,
    ) -> Result<Option<JournalError>, JournalError> {
        loop {
            match self.checkpoint_batch(scope, report) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error @ JournalError::NoShield { .. }) => return Ok(Some(error)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Empties the lanes: folds what is in slots, which stays there, and writes home what is not.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn checkpoint_rings(&mut self) -> Result<CheckpointReport, JournalError> {
        let folded = self.fold()?;
        let mut report = CheckpointReport {
            freed_bytes: folded.freed_bytes,
            freed_slots: folded.freed_slots,
            ..CheckpointReport::default()
        };
        let stays = self.write_all_home(Scope::Rings, &mut report)?;
        self.let_heads_pass(&mut report)?;
        stays.map_or(Ok(report), Err)
    }

    /// Makes slots free: writes home one batch of what they hold, those written longest ago.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn evict(&mut self) -> Result<CheckpointReport, JournalError> {
        let mut report = CheckpointReport::default();
        self.checkpoint_batch(Scope::OldestInSlots, &mut report)?;
        self.let_heads_pass(&mut report)?;
        Ok(report)
    }

    /// Makes blocks of the disk-side log free. It gives back those of older versions. In each lane
    /// it also writes home what is left in the segment that has least left. Some blocks at home
    /// still have log blocks that a ring speaks of, because of what lies before them there. Those
    /// log blocks come free with a [checkpoint](Self::checkpoint_rings).
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn clean_log(&mut self) -> Result<CheckpointReport, JournalError> {
        let given_back = self.collect_garbage()?;
        let freed_slots = given_back.freed_slots;
        let mut report = CheckpointReport { freed_slots, ..CheckpointReport::default() };
        let mut stays = None;
        for lane in (0..self.common.geometry.lanes).map(LaneNumber) {
            let segment = segment_to_clean(&mut self.lanes, &mut self.index, lane)?;
            let Some(segment) = segment else { continue };
            stays = stays.or(self.write_all_home(segment, &mut report)?);
        }
        self.let_heads_pass(&mut report)?;
        stays.map_or(Ok(report), Err)
    }

    /// Writes one batch of blocks home. Commits may come between batches, and between the last one
    /// and [`let_heads_pass`](Self::let_heads_pass). Returns whether there was anything to write.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn checkpoint_batch(
        &mut self,
        scope: Scope,
        report: &mut CheckpointReport,
    ) -> Result<bool, JournalError> {
        self.at_home(|home, common, lanes, index, scratch| {
            home.checkpoint_batch(common, lanes, index, scratch, scope, report)
        })
    }

    /// Does what is done on the way home, where nothing has failed.
    pub(crate) fn at_home<R>(
        &mut self,
        work: impl FnOnce(
            &mut Home<M::Pmem, M::Disk, M::Hook>,
            &Common<L, M::Kernels>,
            &mut OwnLanes<'m, M::Pmem, M::Hook>,
            &mut Index<LentMemory<'m>>,
            &mut HomeScratch<'_>,
        ) -> Result<R, JournalError>,
    ) -> Result<R, JournalError> {
        self.check_not_failed()?;
        let result = self.fail_on_panic(|journal| {
            let mut scratch = HomeScratch {
                batch: journal.batch,
                front: journal.front,
                payload: journal.encoded,
                blocks: journal.blocks,
                waiting: Waiting::in_memory(&mut []),
            };
            let (home, index) = (&mut journal.home, &mut journal.index);
            work(home, &journal.common, &mut journal.lanes, index, &mut scratch)
        });
        self.fail_unless(result)
    }

    /// Drops from the lanes what is home, as far as the order of records allows.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn let_heads_pass(&mut self, report: &mut CheckpointReport) -> Result<(), JournalError> {
        self.at_home(|home, common, lanes, index, scratch| {
            home.let_heads_pass(common, lanes, index, scratch, false, report).map(drop)
        })
    }

    /// Ends the journal's use, everything committed being durable, and notes that in the journal.
    /// The blocks stay in the lanes; [`checkpoint`](Self::checkpoint) before if they are to go
    /// home.
    ///
    /// # Errors
    /// The medium's. What was durable is.
    pub fn close(mut self) -> Result<(), JournalError> {
        self.check_not_failed()?;
        let result = self.home.close(&self.common, &mut self.lanes);
        self.fail_unless(result)
    }

    /// Reads a block's newest committed content, from the lanes and from home.
    ///
    /// # Errors
    /// The medium's or the device's, or a payload that does not apply.
    pub fn read(&mut self, block: BlockNumber, into: &mut [u8]) -> Result<(), JournalError> {
        self.check_not_failed()?;
        if !self.common.has(block) || into.len() != self.common.block_bytes() {
            return Err(JournalError::BadRequest { block, bytes: into.len() });
        }
        let view = ContentView { common: &self.common, lanes: &self.lanes, bounds: &NO_BOUNDS };
        self.home.content(&view, &mut self.index, block, self.encoded, into)
    }

    /// Puts the frames of a record that was stored part by part into the index.
    pub(crate) fn index_parts(
        &mut self,
        lane: LaneNumber,
        open: &OpenRecord,
    ) -> Result<(), MediumError> {
        let lane = self.lanes.lane(lane);
        let insert = |frame| self.index.insert(frame).map(drop);
        self.common.read_frames(lane, open, self.front, insert).map_err(unreadable)
    }
}

/// Why a record that was just stored cannot be read back: its outcome is unknown.
fn unreadable(error: IndexError) -> MediumError {
    match error {
        IndexError::Medium(error) => error,
        IndexError::Full => unreachable!("the room was checked"),
    }
}
