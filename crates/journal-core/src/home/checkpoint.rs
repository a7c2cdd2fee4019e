//! Writing home, and giving back what lanes then need not hold any more.
//!
//! 1. Everything committed is made durable: only durable content goes home.
//! 2. Each block that is not home is written there once, sorted and merged, in batches. A batch
//!    that needs the shield goes through it first; each batch ends with a sync.
//! 3. One cut through all lanes says what can be dropped. All heads move in one superblock write
//!    (both copies); after the second fence the space is free.
//!
//! Commits may go on meanwhile: what is stored after the first step counts for nothing here, until
//! the next time. A newer frame never makes an older one necessary again.
//!
//! **Crash** before the superblock: the lanes still hold everything; what is home is written again
//! some time. After its first fence: nothing dropped is needed by anything that is left.

use crate::commit::batched::Batched;
use crate::common::Common;
use crate::format::record::{Form, Note};
use crate::home::chains::Chains;
use crate::home::content::ContentView;
use crate::home::error::JournalError;
use crate::home::oldest::Records;
use crate::home::report::{CheckpointReport, FoldReport, Scope};
use crate::home::search::{LeftBehind, Search, home_below};
use crate::home::shield::Intent;
use crate::home::{Home, HomeScratch, Lanes, NotPassed};
use crate::index::frame::{Bounds, FrameAt, NodeId};
use crate::index::{Index, IndexMemory, Indexes};
use crate::order::ordered::{Hook, Unsynced};
use crate::order::rule::Rule;
use crate::ports::block_device::BlockDevice;
use crate::ports::kernels::Kernels;
use crate::ports::pmem::Pmem;
use crate::ports::policy::Policy;
use crate::scan::reader::newer_note;
use crate::space::lane::InLane;
use crate::space::superblocks::Superblock;
use crate::units::{BlockNumber, LANES_MAX, LaneNumber, Sequence, Stamp};

crate::sites! {
    pub(crate) mod site {
        HOME: DiskWrite = "checkpoint.home";
        HOME_SYNC: DiskSync = "checkpoint.sync";
    }
}

/// Where each lane stood when everything in it had been fenced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FencedLanes {
    /// Records below are durable.
    pub(crate) bounds: Bounds,
    pub(super) tails: [u64; LANES_MAX as usize],
    /// At or above every stamp so far.
    stamp: Stamp,
    /// The newest note so far.
    noted: Option<(Stamp, Note)>,
}

impl<P: Pmem, D: BlockDevice, H: Hook> Home<P, D, H> {
    /// Makes every record durable that is stored by now.
    ///
    /// # Errors
    /// The medium's.
    pub fn make_durable<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
    ) -> Result<(), JournalError> {
        self.fence_all(common, lanes, true).map(drop)
    }

    pub(crate) fn fence_all<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        flushes: bool,
    ) -> Result<FencedLanes, JournalError> {
        let mut fenced = FencedLanes {
            bounds: [Sequence(0); LANES_MAX as usize],
            tails: [0; LANES_MAX as usize],
            stamp: self.superblock.stamp_floor(),
            noted: self.superblock.noted,
        };
        let ends = fenced.bounds.iter_mut().zip(fenced.tails.iter_mut());
        for (number, (bound, tail)) in (0..common.geometry.lanes).zip(ends) {
            lanes.with(LaneNumber(number), |InLane { lane, states }| {
                let deferred = if flushes { lane.flush_all_deferred(states) } else { None };
                if let Some(deferred) = deferred {
                    let _ = lane.fence(deferred).map_err(JournalError::Medium)?;
                }
                (*bound, *tail) = (lane.next_sequence, lane.tail);
                fenced.stamp = fenced.stamp.max(lane.last_stamp);
                fenced.noted = newer_note(fenced.noted, lane.noted);
                Ok(())
            })??;
        }
        Ok(fenced)
    }

    /// Writes one batch of blocks home; returns whether there was anything to write.
    ///
    /// # Errors
    /// The medium's or the device's. The journal must then refuse to go on.
    pub fn checkpoint_batch<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
        scope: Scope,
        report: &mut CheckpointReport,
    ) -> Result<bool, JournalError> {
        let fenced = self.fence_all(common, lanes, self.keeps(Rule::DurableGoesHome))?;
        let (count, left_out) = self.collect(common, indexes, &fenced.bounds, scope, scratch);
        if count == 0 {
            if scratch.waiting.is_listing() {
                return Ok(true);
            }
            // What stays is for another time.
            if scratch.waiting.before().is_some() {
                let has_more = scratch.waiting.has_more();
                if !has_more {
                    self.end_attempt();
                }
                return Ok(has_more);
            }
            if left_out || scratch.waiting.lacks_some() {
                return Ok(true);
            }
            // Where there is a shield, a block that seems left is being written by another thread.
            return match self.left_behind(common, indexes, &fenced.bounds, scope) {
                Some(LeftBehind { block, needs_shield: true }) => {
                    Err(JournalError::NoShield { block })
                }
                // It has come, or was written whole, since it was looked at for the list.
                Some(_) => Ok(true),
                None => {
                    self.end_attempt();
                    Ok(false)
                }
            };
        }
        let lanes = &*lanes;
        let view = ContentView { common, lanes, bounds: &fenced.bounds };
        let mut batch = Batch { view, indexes, count };
        self.write_home(&mut batch, scratch, report)?;
        Ok(true)
    }

    /// A block that cannot go home for want of a shield, if there is none and one needs it.
    ///
    /// # Errors
    /// As [`checkpoint_batch`](Self::checkpoint_batch).
    pub fn lacks_shield<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scope: Scope,
    ) -> Result<Option<BlockNumber>, JournalError> {
        if common.geometry.shield_blocks > 0 || !self.tears(common) {
            return Ok(None);
        }
        let fenced = self.fence_all(common, lanes, self.keeps(Rule::DurableGoesHome))?;
        let left = self.left_behind(common, indexes, &fenced.bounds, scope);
        Ok(left.filter(|left| left.needs_shield).map(|left| left.block))
    }

    /// Drops from the lanes what is home, as far as the order of records allows. Returns whether no
    /// append keeps a head from going further. If it `stops` for others that wait for the upkeep,
    /// it may return `None`, and no head has moved. It stops only without slots and a disk-side
    /// log.
    ///
    /// # Errors
    /// As [`checkpoint_batch`](Self::checkpoint_batch).
    pub fn let_heads_pass<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
        stops: bool,
        report: &mut CheckpointReport,
    ) -> Result<Option<bool>, JournalError> {
        self.end_attempt();
        let fenced = self.fence_all(common, lanes, true)?;
        if common.geometry.lane_slots_and_log() == 0 {
            return self.advance(common, lanes, indexes, scratch, (&fenced, true, stops), report);
        }
        loop {
            let mut voided = FoldReport::default();
            self.void_at_home(common, lanes, indexes, &fenced, scratch, &mut voided)?;
            let how = (&fenced, false, false);
            let is_whole = self.advance(common, lanes, indexes, scratch, how, report)?;
            report.freed_slots = report.freed_slots.saturating_add(voided.freed_slots);
            // An entry may have waited for older frames of its block to leave the rings.
            if is_whole != Some(true) || !self.has_entries_at_home(indexes, &fenced.bounds) {
                return Ok(is_whole);
            }
        }
    }

    /// Notes in the superblock that everything is durable: the next open then finds a loss even
    /// where nothing later covers it. Also notes that nothing will be stored before that open,
    /// which then need not look for anything stored later.
    ///
    /// # Errors
    /// As [`checkpoint_batch`](Self::checkpoint_batch).
    pub fn close<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
    ) -> Result<(), JournalError> {
        let fenced = self.fence_all(common, lanes, true)?;
        let mut superblock = self.superblock.clone();
        for (mark, bound) in superblock.marks_mut().iter_mut().zip(fenced.bounds) {
            mark.durable_to = bound.raw().into();
        }
        self.store_superblock(common, lanes, superblock, &fenced, true)
    }

    /// From now on records may have [notes](crate::parts::Names::set_note): readers that do not
    /// know them refuse the journal. It is one superblock write, and none where it was done.
    ///
    /// **Crash** before the first fence of the superblock: there are no notes. After it: records
    /// may have some, and none has.
    ///
    /// # Errors
    /// As [`checkpoint_batch`](Self::checkpoint_batch). `Geometry`, with nothing changed, where the
    /// media unit is too short for the superblock with a note.
    pub fn begin_notes<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
    ) -> Result<(), JournalError> {
        if self.superblock.has_notes() {
            return Ok(());
        }
        let mut superblock = self.superblock.clone();
        superblock.begin_notes().map_err(JournalError::Geometry)?;
        let fenced = self.fence_all(common, lanes, true)?;
        self.store_superblock(common, lanes, superblock, &fenced, false)
    }

    /// Whether records may have notes.
    pub const fn has_notes(&self) -> bool {
        self.superblock.has_notes()
    }

    /// Writes both copies of a superblock of the next generation, which all records name from then
    /// on.
    fn store_superblock<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        mut superblock: Superblock,
        fenced: &FencedLanes,
        closes: bool,
    ) -> Result<(), JournalError> {
        lanes.check_all_there()?;
        let stamp = if self.keeps(Rule::StampFloor) { fenced.stamp } else { Stamp(0) };
        if self.keeps(Rule::NoteKept) {
            superblock.noted = fenced.noted;
        }
        superblock.header.stamp_floor = stamp.raw().into();
        let generation = superblock.generation().raw().saturating_add(1);
        superblock.header.generation = generation.into();
        superblock.set_closed(closes);
        let stored = self.superblocks.store(&superblock, &common.kernels);
        let _ = stored.map_err(JournalError::Medium)?;
        let generation = superblock.generation();
        self.identity.generation = generation;
        self.superblock = superblock;
        // Later stamps exceed the stamps of dropped frames. A record that takes the space freed
        // names the generation that freed it.
        for number in 0..common.geometry.lanes {
            lanes.with(LaneNumber(number), |InLane { lane, .. }| {
                lane.last_stamp = lane.last_stamp.max(stamp);
                lane.identity.generation = generation;
            })?;
        }
        Ok(())
    }

    /// Fills the batch with blocks that are not home; returns how many, and whether some were left
    /// out because they are being written anew.
    fn collect<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        indexes: &mut impl Indexes,
        bounds: &Bounds,
        scope: Scope,
        scratch: &mut HomeScratch<'_>,
    ) -> (usize, bool) {
        let mut search = Search::of(self, common, bounds, scope);
        let HomeScratch { batch, waiting, .. } = scratch;
        // The oldest blocks are not taken in the order of their numbers.
        let collected = match scope {
            Scope::OldestInSlots => search.oldest(indexes, batch),
            _ if waiting.has_memory() => search.next_of(common, indexes, waiting, batch),
            _ => search.lowest(indexes, batch),
        };
        let (mut count, mut left_out) = (0_usize, search.left_out);
        if search.sets_leaving {
            return (collected, left_out);
        }
        for at in 0..collected {
            let Some(block) = batch.get(at).map(|batched| batched.block) else { break };
            // From here on no slot of the block is written again, and it is not appended. Since it
            // was collected either may have been.
            let found = indexes.of(block, |index| {
                let found = search.decide(index, block)?;
                search.set_leaving(index, block).then_some(found)
            });
            left_out |= found.is_none();
            if let Some((to, found)) = batch.get_mut(count).zip(found) {
                *to = found;
                count = count.saturating_add(1);
            }
        }
        (count, left_out)
    }

    /// Whether a torn overwrite may destroy a block.
    pub(super) fn tears<L, K>(&self, common: &Common<L, K>) -> bool {
        !self.device.device().facts().block_atomic(common.geometry.block_size)
            && self.keeps(Rule::ShieldFirst)
    }

    pub(super) fn write_home<L: Policy, K: Kernels, N: Lanes<P, H> + ?Sized, I: Indexes>(
        &mut self,
        batch: &mut Batch<'_, L, K, N, I>,
        scratch: &mut HomeScratch<'_>,
        report: &mut CheckpointReport,
    ) -> Result<(), JournalError> {
        let block_bytes = batch.view.common.block_bytes();
        let room = scratch.blocks.len().checked_div(block_bytes).unwrap_or(0);
        self.raise_shield(batch, scratch, report)?;
        let mut unsynced: Option<Unsynced> = None;
        let (mut at, mut chains) = (0, Chains::NONE);
        while at < batch.count {
            let Some(first) = scratch.batch.get(at).copied() else { break };
            if first.discarded {
                at = at.saturating_add(1);
                continue;
            }
            let run = run_length(scratch.batch, at, batch.count.min(at.saturating_add(room)));
            let run = self.load_run(batch, (at, run), &mut chains, scratch, report)?;
            if run == 0 {
                continue;
            }
            let bytes = scratch.blocks.get(..run.saturating_mul(block_bytes)).unwrap_or_default();
            let written = self.device.write(site::HOME, first.block, &[bytes]);
            let written = written.map_err(JournalError::Device)?;
            unsynced = Some(match unsynced {
                Some(before) => before.and(written),
                None => written,
            });
            report.blocks = report.blocks.saturating_add(run as u64);
            report.writes = report.writes.saturating_add(1);
            at = at.saturating_add(run);
        }
        if let Some(unsynced) = unsynced {
            let synced = self.device.sync(site::HOME_SYNC, unsynced);
            let _ = synced.map_err(JournalError::Device)?;
        }
        let written = scratch.batch.get(..batch.count).unwrap_or_default();
        report.batches = report.batches.saturating_add(u64::from(!written.is_empty()));
        for batched in written {
            let (block, stamp) = (batched.block, Stamp(batched.stamp));
            batch.indexes.of(block, |index| index.set_home(block, stamp));
        }
        Ok(())
    }

    /// Builds the content of a run's blocks, up to the first that cannot be read, which is left
    /// out. Returns how many there are before it.
    fn load_run<L: Policy, K: Kernels, N: Lanes<P, H> + ?Sized, I: Indexes>(
        &mut self,
        batch: &mut Batch<'_, L, K, N, I>,
        (at, run): (usize, usize),
        chains: &mut Chains,
        scratch: &mut HomeScratch<'_>,
        report: &mut CheckpointReport,
    ) -> Result<usize, JournalError> {
        for index in 0..run {
            let number = at.saturating_add(index);
            let Some(batched) = scratch.batch.get(number).copied() else { return Ok(index) };
            let ahead = scratch.batch.get(number..batch.count).unwrap_or_default();
            chains.look(batch.view.common, batch.view.lanes, batch.indexes, (number, ahead));
            match self.load_block(batch, batched, index, scratch) {
                Err(error) if error.is_of_its_block() => {
                    self.leave_out(batch, number, scratch, report);
                    return Ok(index);
                }
                loaded => loaded?,
            }
        }
        Ok(run)
    }

    /// Takes a block out of a batch: it cannot be read. Its frames stay, and so does what a read
    /// of it answers.
    fn leave_out<L: Policy, K: Kernels, N: Lanes<P, H> + ?Sized, I: Indexes>(
        &self,
        batch: &mut Batch<'_, L, K, N, I>,
        at: usize,
        scratch: &mut HomeScratch<'_>,
        report: &mut CheckpointReport,
    ) {
        let Some(left) = scratch.batch.get_mut(at..batch.count) else { return };
        let Some(Batched { block, .. }) = left.first().copied() else { return };
        left.rotate_left(1);
        batch.count = batch.count.saturating_sub(1);
        batch.indexes.of(block, |index| {
            index.set_leaving(block, false);
            index.set_unreadable(block, self.attempt);
        });
        report.unreadable = report.unreadable.saturating_add(1);
    }

    /// Builds a block's durable content in the `index`-th of the block buffers.
    fn load_block<L: Policy, K: Kernels, N: Lanes<P, H> + ?Sized, I: Indexes>(
        &mut self,
        batch: &mut Batch<'_, L, K, N, I>,
        Batched { block, is_chain, .. }: Batched,
        index: usize,
        scratch: &mut HomeScratch<'_>,
    ) -> Result<(), JournalError> {
        let block_bytes = batch.view.common.block_bytes();
        let start = index.saturating_mul(block_bytes);
        let into = scratch.blocks.get_mut(start..start.saturating_add(block_bytes));
        let into = into.unwrap_or_default();
        // What readers find in ordinary memory need not be built, if all of it is durable.
        let newest = |index: &Index<_>| {
            let durable = index.newest_below(block, batch.view.bounds);
            if self.keeps(Rule::KeptIsDurable) { durable } else { index.newest(block) }
        };
        if !(is_chain && batch.indexes.copy_kept(block, newest, into)) {
            self.content(&batch.view, batch.indexes, block, scratch.payload, into)?;
        }
        // `content` borrows the index twice; a share may be poisoned in between.
        batch.view.lanes.check_all_there()
    }

    /// Copies into the shield what a torn overwrite could not restore.
    fn raise_shield<L: Policy, K: Kernels, N: Lanes<P, H> + ?Sized, I: Indexes>(
        &mut self,
        batch: &mut Batch<'_, L, K, N, I>,
        scratch: &mut HomeScratch<'_>,
        report: &mut CheckpointReport,
    ) -> Result<(), JournalError> {
        let geometry = &batch.view.common.geometry;
        let (mut needing, mut begun) = self.begin_intent(batch, scratch);
        // Whether a block was left out. The front's length depends on how many images there are, so
        // the others are looked at, and then all is begun again.
        let (mut at, mut is_spoilt) = (0, false);
        while at < batch.count || is_spoilt {
            if at >= batch.count {
                ((needing, begun), at) = (self.begin_intent(batch, scratch), 0);
                is_spoilt = false;
                continue;
            }
            let batched = scratch.batch.get(at).copied().unwrap_or(Batched::EMPTY);
            at = at.saturating_add(1);
            let Some(intent) = begun.as_mut().filter(|_| batched.needs_shield) else { continue };
            match self.load_block(batch, batched, 0, scratch) {
                Err(error) if error.is_of_its_block() => {
                    at = at.saturating_sub(1);
                    self.leave_out(batch, at, scratch, report);
                    is_spoilt = true;
                    continue;
                }
                loaded => loaded?,
            }
            let image = scratch.blocks.get(..geometry.block_size.bytes()).unwrap_or_default();
            if let Some(shield) = self.shield.as_mut().filter(|_| !is_spoilt) {
                let stamp = Stamp(batched.stamp);
                shield.add(intent, scratch.front, batched.block, stamp, image);
            }
        }
        if let Some((shield, intent)) = self.shield.as_mut().zip(begun) {
            let (identity, kernels) = (&self.identity, &batch.view.common.kernels);
            let raised = shield.finish(intent, scratch.front, geometry, identity, kernels);
            let _ = raised.map_err(JournalError::Medium)?;
        }
        report.shielded = report.shielded.saturating_add(needing as u64);
        Ok(())
    }

    /// Begins the intent of a batch, if any of its blocks needs one; how many do.
    fn begin_intent<L: Policy, K: Kernels, N: Lanes<P, H> + ?Sized, I: Indexes>(
        &self,
        batch: &Batch<'_, L, K, N, I>,
        scratch: &HomeScratch<'_>,
    ) -> (usize, Option<Intent>) {
        let batched = scratch.batch.get(..batch.count).unwrap_or_default();
        let needing = batched.iter().filter(|batched| batched.needs_shield).count();
        let shield = self.shield.as_ref().filter(|_| needing > 0);
        (needing, shield.map(|shield| shield.begin(&batch.view.common.geometry, needing)))
    }

    /// The greatest cut such that nothing dropped is needed by what is left.
    ///
    /// - A block keeps its newest whole placement and everything newer, as far as that is newer
    ///   than what is home.
    /// - If it loses one of those that are home, it keeps nothing older: older frames would hide
    ///   what is home.
    ///
    /// Begins with `most`, and shortens a lane at each violation; each round but the last shortens
    /// one, so it ends.
    ///
    /// Where all frames lie in rings alone, a cut that drops everything leaves nothing of a block
    /// that is home, so its older frames need not be looked at.
    ///
    /// There is none if it `stops` for others that wait, and has.
    fn cut(
        &self,
        indexes: &mut impl Indexes,
        durable: &Bounds,
        (most, in_rings_alone): (&Bounds, bool),
        stops: bool,
    ) -> Option<Bounds> {
        let mut cut = *most;
        let mut drops_all = in_rings_alone && most == durable;
        loop {
            let mut shortened = false;
            let look = |index: &mut Index<_>| {
                for block in index.each_block() {
                    let newest = index.newest_below(block, durable);
                    let goes = |newest| {
                        index.is_home(newest) && !self.is_changed_discard(index, newest, durable)
                    };
                    if drops_all && newest.is_none_or(goes) {
                        continue;
                    }
                    shortened |= self.shorten_for(index, block, durable, &mut cut);
                    drops_all &= !shortened;
                }
            };
            if !stops {
                indexes.each(look);
            } else if !indexes.some(&mut 0, look) {
                return None;
            }
            if !shortened {
                return Some(cut);
            }
        }
    }

    /// Shortens the cut where it violates what a block needs.
    pub(super) fn shorten_for(
        &self,
        index: &Index<impl IndexMemory>,
        block: BlockNumber,
        durable: &Bounds,
        cut: &mut Bounds,
    ) -> bool {
        let Some(newest) = index.newest_below(block, durable) else { return false };
        let (mut next, home) = (Some(newest), home_below(index, newest));
        let mut shortened = false;
        let mut keep = |frame: &FrameAt, cut: &mut Bounds| {
            // What an entry says too, the ring need not keep.
            if !frame.is_below(cut) || frame.folded {
                return;
            }
            if let Some(bound) = cut.get_mut(usize::from(frame.lane.raw())) {
                *bound = frame.sequence;
                shortened = true;
            }
        };
        // 1. What is not home.
        while let Some(id) = next {
            let frame = index.frame(id);
            if frame.stamp <= home {
                break;
            }
            if self.keeps(Rule::CutKeepsNeeded) {
                keep(&frame, cut);
            }
            if frame.form != Form::Encoded {
                return shortened;
            }
            next = index.older(id);
        }
        // 2. What is home.
        let Some(newest_home) = next else { return shortened };
        if self.is_changed_discard(index, newest_home, durable) {
            if self.keeps(Rule::CutKeepsNeeded) {
                keep(&index.frame(newest_home), cut);
            }
            return shortened;
        }
        let stays_above = oldest_left(index, newest_home, cut);
        for depth in 0_usize.. {
            let Some(id) = next else { break };
            let frame = index.frame(id);
            if self.keeps(Rule::CutDropsOlder) && stays_above.is_some_and(|left| depth < left) {
                keep(&frame, cut);
            }
            if frame.form != Form::Encoded {
                break;
            }
            next = index.older(id);
        }
        shortened
    }

    /// Moves all heads to the greatest cut, or before what an append needs. Returns whether no
    /// append needs anything of what the greatest cut drops. If it `stops` for others that wait, it
    /// may return `None`, and no head has moved.
    pub(crate) fn advance<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
        how: (&FencedLanes, bool, bool),
        report: &mut CheckpointReport,
    ) -> Result<Option<bool>, JournalError> {
        indexes.note_passing(true);
        let passed = self.advance_to_cut(common, lanes, indexes, scratch, how, report)?;
        indexes.note_passing(false);
        Ok(passed)
    }

    fn advance_to_cut<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
        (fenced, in_rings_alone, stops): (&FencedLanes, bool, bool),
        report: &mut CheckpointReport,
    ) -> Result<Option<bool>, JournalError> {
        let durable = &fenced.bounds;
        let Some(cut) = self.cut(indexes, durable, (durable, in_rings_alone), stops) else {
            return Ok(None);
        };
        lanes.passing(|lanes, not_passed| {
            let not_passed = self.not_passed(not_passed);
            let mut most = *durable;
            for (most, (kept, _)) in
                most.iter_mut().zip(not_passed).filter_map(|(most, kept)| Some((most, kept?)))
            {
                *most = (*most).min(kept);
            }
            let is_whole = cut.iter().zip(&most).all(|(cut, most)| cut <= most);
            let cut = match is_whole {
                true => Some(cut),
                false => self.cut(indexes, durable, (&most, in_rings_alone), stops),
            };
            let Some(cut) = cut else { return Ok(None) };
            self.pass_cut(common, lanes, indexes, scratch, (fenced, &cut, &not_passed), report)?;
            Ok(Some(is_whole))
        })
    }

    /// The records that heads must not pass, where that is kept to.
    pub(super) fn not_passed(&self, not_passed: &NotPassed) -> NotPassed {
        if self.keeps(Rule::AppendsHeld) { *not_passed } else { [None; LANES_MAX as usize] }
    }

    /// Moves all heads to the cut, durably, and then takes the space.
    fn pass_cut<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        indexes: &mut impl Indexes,
        scratch: &mut HomeScratch<'_>,
        (fenced, cut, not_passed): (&FencedLanes, &Bounds, &NotPassed),
        report: &mut CheckpointReport,
    ) -> Result<(), JournalError> {
        let mut firsts: [Option<(Sequence, u64)>; LANES_MAX as usize] = [None; LANES_MAX as usize];
        let mut note_first = |frame: &FrameAt| {
            if let Some(first) = firsts.get_mut(usize::from(frame.lane.raw())) {
                let found = (frame.sequence, frame.record);
                *first = Some(first.map_or(found, |first| first.min(found)));
            }
        };
        // Where the cut is at the bounds, nothing is left between the two.
        if *cut != fenced.bounds {
            indexes.each(|index| {
                let frames = index.all().map(|id| index.frame(id));
                let left = frames.filter(|frame| !frame.is_below(cut) && !frame.folded);
                let left = left.filter(|frame| frame.is_below(&fenced.bounds));
                left.for_each(|frame| note_first(&frame));
            });
        }
        let mut records = [(Sequence(0), 0); LANES_MAX as usize];
        let ends = fenced.bounds.iter().zip(fenced.tails);
        for ((record, first), end) in records.iter_mut().zip(firsts).zip(ends) {
            *record = first.unwrap_or((*end.0, end.1));
        }
        // The index may know nothing of such a record.
        for (record, kept) in records.iter_mut().zip(not_passed) {
            *record = kept.map_or(*record, |kept| (*record).min(kept));
        }
        if !self.store_heads(common, lanes, fenced, &records)? {
            return Ok(());
        }
        if common.geometry.lane_slots_and_log() > 0 {
            self.drop_slots(common, lanes, indexes, scratch, cut, report)?;
        }
        let goes = |frame: &FrameAt| frame.is_below(cut);
        indexes.each(|index| index.remove_where(goes, |at| common.prefetch_line(at)));
        report.freed_bytes = report.freed_bytes.saturating_add(self.take_room(common, lanes)?);
        Ok(())
    }

    /// Moves all heads to these records, durably. Returns whether any has moved. The room behind
    /// them is not taken yet.
    pub(super) fn store_heads<L: Policy, K: Kernels>(
        &mut self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
        fenced: &FencedLanes,
        records: &Records,
    ) -> Result<bool, JournalError> {
        let mut superblock = self.superblock.clone();
        let mut moved = false;
        let ends = records.iter().zip(fenced.bounds);
        for (mark, ((sequence, head), durable_to)) in superblock.marks_mut().iter_mut().zip(ends) {
            moved |= *head != mark.head.get();
            mark.head = (*head).into();
            mark.head_sequence = sequence.raw().into();
            mark.durable_to = durable_to.raw().into();
            if moved && !self.keeps(Rule::HeadsTogether) {
                break;
            }
        }
        if !moved {
            return Ok(false);
        }
        if let Some(shield) = self.shield.as_ref().filter(|_| self.keeps(Rule::ShieldFloor)) {
            superblock.header.shield_floor = shield.next_batch.into();
        }
        self.store_superblock(common, lanes, superblock, fenced, false)?;
        Ok(true)
    }

    /// Gives the lanes the room behind their heads. Returns how many bytes that are.
    pub(super) fn take_room<L: Policy, K: Kernels>(
        &self,
        common: &Common<L, K>,
        lanes: &mut (impl Lanes<P, H> + ?Sized),
    ) -> Result<u64, JournalError> {
        let mut bytes = 0_u64;
        for (number, mark) in (0..common.geometry.lanes).zip(self.superblock.marks()) {
            bytes = lanes.with(LaneNumber(number), |InLane { lane, .. }| {
                let freed = mark.head.get().saturating_sub(lane.head);
                lane.head = mark.head.get();
                bytes.saturating_add(freed)
            })?;
        }
        Ok(bytes)
    }
}

/// A batch on its way home.
pub(super) struct Batch<'a, L, K, N: ?Sized, I> {
    pub(super) view: ContentView<'a, L, K, N>,
    pub(super) indexes: &'a mut I,
    pub(super) count: usize,
}

/// Blocks from `at` on that follow each other, up to `end`.
fn run_length(batch: &[Batched], at: usize, end: usize) -> usize {
    let batch = batch.get(at..end).unwrap_or_default();
    let first = batch.first().map_or(0, |batched| batched.block.raw());
    let expected = (first..).zip(batch);
    expected
        .take_while(|(block, batched)| batched.block.raw() == *block && !batched.discarded)
        .count()
        .max(1)
}

/// How many frames lie above the oldest one that is left, from `newest` on. One walk for all of
/// them: a block that is patched again and again has as many frames as a lane holds.
fn oldest_left(index: &Index<impl IndexMemory>, newest: NodeId, cut: &Bounds) -> Option<usize> {
    let chain = core::iter::successors(Some(newest), |id| index.older(*id));
    let is_left = |id: NodeId| {
        let frame = index.frame(id);
        frame.folded || !frame.is_below(cut)
    };
    chain.enumerate().filter(|(_, id)| is_left(*id)).map(|(depth, _)| depth).last()
}
