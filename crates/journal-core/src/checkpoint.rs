//! Writing home, and giving back what lanes then need not hold any more.
//!
//! 1. Everything committed is made durable: only durable content goes home.
//! 2. Each block that is not home is written there once, sorted and merged, in batches; a batch
//!    that needs it goes through the shield first; each batch ends with a sync.
//! 3. One cut through all lanes says what can be dropped. All heads move in one superblock write
//!    (both copies); after the second fence the space is free.
//!
//! **Crash** before the superblock: the lanes still hold everything; what is home is written again
//! some time. After its first fence: nothing dropped is needed by anything that is left.

use crate::block_device::BlockDevice;
use crate::check::Kernels;
use crate::errors::JournalError;
use crate::geometry::LANES_MAX;
use crate::hook::{Hook, Rule};
use crate::index::{FrameAt, NodeId};
use crate::journal::Journal;
use crate::memory::Batched;
use crate::order::Unsynced;
use crate::pmem::Pmem;
use crate::policy::Policy;
use crate::record::Form;
use crate::units::{BlockNumber, LaneNumber, Sequence, Stamp};

crate::sites! {
    pub(crate) mod site {
        HOME: DiskWrite = "checkpoint.home";
        HOME_SYNC: DiskSync = "checkpoint.sync";
    }
}

/// What a checkpoint did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Blocks written home.
    pub blocks: u64,
    /// Writes that took, neighbouring blocks being merged.
    pub writes: u64,
    /// Batches, each ended by a sync.
    pub batches: u64,
    /// Of the blocks, those that went through the shield first.
    pub shielded: u64,
    /// Bytes of the lanes that became free.
    pub freed_bytes: u64,
}

/// Per lane: records below this sequence are dropped.
type Cut = [Sequence; LANES_MAX as usize];

impl<P, D, L, H, K> Journal<'_, P, D, L, H, K>
where
    P: Pmem,
    D: BlockDevice,
    L: Policy,
    H: Hook,
    K: Kernels,
{
    /// Writes everything home and empties the lanes.
    ///
    /// # Errors
    /// The medium's or the device's. No head has moved past what is not home; the journal refuses
    /// to go on.
    pub fn checkpoint(&mut self) -> Result<CheckpointReport, JournalError> {
        let mut report = CheckpointReport::default();
        while self.checkpoint_batch(&mut report)? {}
        self.reclaim(&mut report)?;
        Ok(report)
    }

    /// Writes one batch of blocks home. Commits may come between batches, and between the last one
    /// and [`reclaim`](Self::reclaim). Returns whether there was anything to write.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn checkpoint_batch(
        &mut self,
        report: &mut CheckpointReport,
    ) -> Result<bool, JournalError> {
        if self.keeps(Rule::DurableGoesHome) {
            self.settle_all_lanes()?;
        }
        let count = self.collect();
        if count == 0 {
            // What is left has to be shielded, and nothing can be.
            let mut blocks = self.index.blocks_from(0).map(|(_, block)| block);
            return match blocks.find(|block| !self.index.is_home(*block)) {
                Some(block) => Err(JournalError::NoShield { block }),
                None => Ok(false),
            };
        }
        let result = self.write_home(count, report);
        if result.is_err() {
            self.fail();
        }
        result.map(|()| true)
    }

    /// Drops from the lanes what is home, as far as the order of records allows.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub fn reclaim(&mut self, report: &mut CheckpointReport) -> Result<(), JournalError> {
        self.settle_all_lanes()?;
        let cut = self.cut();
        let result = self.advance(&cut, report);
        if result.is_err() {
            self.fail();
        }
        result
    }

    /// Fills the batch with blocks that are not home; returns how many.
    fn collect(&mut self) -> usize {
        let shield_room = self.geometry.shield_blocks as usize;
        let (mut count, mut shielded) = (0_usize, 0_usize);
        for (_, block) in self.index.blocks_from(0) {
            if self.index.is_home(block) {
                continue;
            }
            let needs_shield = self.needs_shield(block);
            if needs_shield && shielded >= shield_room {
                continue;
            }
            let Some(place) = self.batch.get_mut(count) else { break };
            let newest = self.index.newest(block).map(|id| self.index.frame(id));
            let stamp = newest.map_or(0, |frame| frame.stamp.raw());
            let discarded = newest.is_some_and(|frame| frame.form == Form::Discard);
            *place = Batched { block, stamp, needs_shield, discarded };
            count = count.saturating_add(1);
            shielded = shielded.saturating_add(usize::from(needs_shield));
        }
        if let Some(batch) = self.batch.get_mut(..count) {
            batch.sort_unstable_by_key(|batched| batched.block);
        }
        count
    }

    /// Whether a torn overwrite of the block's home would leave no whole copy of it.
    fn needs_shield(&self, block: BlockNumber) -> bool {
        let facts = self.device.device().facts();
        if facts.block_atomic(self.geometry.block_size) || !self.keeps(Rule::ShieldFirst) {
            return false;
        }
        let mut next = self.index.newest(block);
        while let Some(id) = next {
            if self.index.frame(id).form != Form::Encoded {
                return false;
            }
            next = self.index.older(id);
        }
        true
    }

    fn write_home(
        &mut self,
        count: usize,
        report: &mut CheckpointReport,
    ) -> Result<(), JournalError> {
        self.raise_shield(count, report)?;
        let block_bytes = self.geometry.block_size.bytes();
        let room = self.blocks.len().checked_div(block_bytes).unwrap_or(0);
        let mut unsynced: Option<Unsynced> = None;
        let mut at = 0;
        while at < count {
            let Some(first) = self.batch.get(at).copied() else { break };
            if first.discarded {
                at = at.saturating_add(1);
                continue;
            }
            let run = self.run_length(at, count.min(at.saturating_add(room)));
            for index in 0..run {
                self.load_block(first.block.raw().saturating_add(index as u64), index)?;
            }
            let bytes = self.blocks.get(..run.saturating_mul(block_bytes)).unwrap_or_default();
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
        report.batches = report.batches.saturating_add(1);
        for batched in self.batch.get(..count).unwrap_or_default() {
            self.index.set_home(batched.block, Stamp(batched.stamp));
        }
        Ok(())
    }

    /// Blocks from `at` on that follow each other, up to `end`.
    fn run_length(&self, at: usize, end: usize) -> usize {
        let batch = self.batch.get(at..end).unwrap_or_default();
        let first = batch.first().map_or(0, |batched| batched.block.raw());
        let expected = (first..).zip(batch);
        expected
            .take_while(|(block, batched)| batched.block.raw() == *block && !batched.discarded)
            .count()
            .max(1)
    }

    /// Builds a block's newest content in the `index`-th of the block buffers.
    fn load_block(&mut self, block: u64, index: usize) -> Result<(), JournalError> {
        let block_bytes = self.geometry.block_size.bytes();
        let start = index.saturating_mul(block_bytes);
        // Taken out while the content is built, since that borrows the rest of the journal.
        let blocks = core::mem::take(&mut self.blocks);
        let into = blocks.get_mut(start..start.saturating_add(block_bytes)).unwrap_or_default();
        let result = self.content(BlockNumber(block), into);
        self.blocks = blocks;
        result
    }

    /// Copies into the shield what a torn overwrite could not restore.
    fn raise_shield(
        &mut self,
        count: usize,
        report: &mut CheckpointReport,
    ) -> Result<(), JournalError> {
        let batch = self.batch.get(..count).unwrap_or_default();
        let needing = batch.iter().filter(|batched| batched.needs_shield).count();
        let Some(shield) = self.shield.as_ref().filter(|_| needing > 0) else { return Ok(()) };
        let mut intent = shield.begin(&self.geometry, needing);
        for at in 0..count {
            let batched = self.batch.get(at).copied().unwrap_or(Batched::EMPTY);
            if !batched.needs_shield {
                continue;
            }
            self.load_block(batched.block.raw(), 0)?;
            let image = self.blocks.get(..self.geometry.block_size.bytes()).unwrap_or_default();
            if let Some(shield) = &mut self.shield {
                let stamp = Stamp(batched.stamp);
                shield.add(&mut intent, self.front, batched.block, stamp, image);
            }
        }
        if let Some(shield) = &mut self.shield {
            let (geometry, identity) = (&self.geometry, &self.identity);
            let raised = shield.finish(intent, self.front, geometry, identity, &self.kernels);
            let _ = raised.map_err(JournalError::Medium)?;
        }
        report.shielded = report.shielded.saturating_add(needing as u64);
        Ok(())
    }

    /// The greatest cut such that nothing dropped is needed by what is left.
    ///
    /// - A block that is not home keeps its newest whole placement and everything newer.
    /// - A block that is home and loses one of those keeps nothing older, and nothing at all if it
    ///   loses its newest: older frames would hide what is home.
    ///
    /// Begins with everything and shortens a lane at each violation; each round but the last
    /// shortens one, so it ends.
    fn cut(&self) -> Cut {
        let mut cut = [Sequence(0); LANES_MAX as usize];
        for (bound, slot) in cut.iter_mut().zip(self.lanes.iter()) {
            *bound = slot.0.as_ref().map_or(Sequence(0), |lane| lane.next_sequence);
        }
        loop {
            let mut shortened = false;
            for (_, block) in self.index.blocks_from(0) {
                shortened |= self.shorten_for(block, &mut cut);
            }
            if !shortened {
                return cut;
            }
        }
    }

    /// Shortens the cut where it violates what a block needs.
    fn shorten_for(&self, block: BlockNumber, cut: &mut Cut) -> bool {
        let is_home = self.index.is_home(block);
        let newest = self.index.newest(block);
        let mut next = newest;
        let mut shortened = false;
        while let Some(id) = next {
            let frame = self.index.frame(id);
            let must_stay = if is_home {
                self.keeps(Rule::CutDropsOlder) && self.keeps_older(id, cut)
            } else {
                self.keeps(Rule::CutKeepsNeeded)
            };
            if must_stay && is_dropped(cut, &frame) {
                if let Some(bound) = cut.get_mut(usize::from(frame.lane.raw())) {
                    *bound = frame.sequence;
                    shortened = true;
                }
            }
            if frame.form != Form::Encoded {
                break;
            }
            next = self.index.older(id);
        }
        shortened
    }

    /// Whether a frame older than this one is left.
    fn keeps_older(&self, id: NodeId, cut: &Cut) -> bool {
        let mut next = self.index.older(id);
        while let Some(older) = next {
            if !is_dropped(cut, &self.index.frame(older)) {
                return true;
            }
            next = self.index.older(older);
        }
        false
    }

    /// Moves all heads to the cut, durably, and then takes the space.
    fn advance(&mut self, cut: &Cut, report: &mut CheckpointReport) -> Result<(), JournalError> {
        let mut superblock = self.superblock.clone();
        let mut moved = false;
        let mut stamp = superblock.stamp_floor();
        for (number, note) in (0_u16..).zip(superblock.notes_mut()) {
            let lane = self.lane(LaneNumber(number));
            let first_left = self
                .index
                .all()
                .map(|id| self.index.frame(id))
                .filter(|frame| frame.lane == lane.number && !is_dropped(cut, frame))
                .min_by_key(|frame| frame.sequence);
            let (head, sequence) = first_left
                .map_or((lane.tail, lane.next_sequence), |frame| (frame.record, frame.sequence));
            moved |= head != lane.head;
            note.head = head.into();
            note.head_sequence = sequence.raw().into();
            note.durable_to = lane.durable_to.raw().into();
            stamp = stamp.max(lane.last_stamp);
        }
        if !moved {
            return Ok(());
        }
        superblock.head.stamp_floor = stamp.raw().into();
        let generation = superblock.generation().raw().saturating_add(1);
        superblock.head.generation = generation.into();
        if let Some(shield) = self.shield.as_ref().filter(|_| self.keeps(Rule::ShieldFloor)) {
            superblock.head.shield_floor = shield.next_batch.into();
        }
        let stored = self.superblocks.store(&superblock, &self.kernels);
        let _ = stored.map_err(JournalError::Medium)?;
        self.identity.generation = superblock.generation();
        self.index.remove_where(|frame| is_dropped(cut, frame));
        for (number, note) in (0_u16..).zip(superblock.notes()) {
            let lane = self.lane_mut(LaneNumber(number));
            let freed = note.head.get().saturating_sub(lane.head);
            lane.head = note.head.get();
            report.freed_bytes = report.freed_bytes.saturating_add(freed);
        }
        self.superblock = superblock;
        Ok(())
    }
}

fn is_dropped(cut: &Cut, frame: &FrameAt) -> bool {
    cut.get(usize::from(frame.lane.raw())).is_some_and(|bound| frame.sequence < *bound)
}
