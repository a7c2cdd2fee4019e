//! Checkpoints, beside threads that commit.

use core::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use journal_core::parts::{Home, HomeScratch};
use journal_core::policy::Policy;
use journal_core::{
    Batched, BlockDevice, CheckpointReport, Geometry, Hook, Kernels, Needs, PmemShare,
};

use super::{LanesOf, Shared, SharesOf};
use crate::error::Error;

/// What writes home, with its memory.
#[derive(Debug)]
pub(crate) struct HomeRoom<P, D, H> {
    home: Home<P, D, H>,
    batch: Vec<Batched>,
    front: Vec<u8>,
    payload: Vec<u8>,
    blocks: Vec<u8>,
}

impl<P, D, H> HomeRoom<P, D, H> {
    pub(crate) fn new(home: Home<P, D, H>, geometry: &Geometry, batch_blocks: usize) -> Self {
        let needs = Needs::of(geometry, 1);
        Self {
            home,
            batch: vec![Batched::EMPTY; batch_blocks],
            front: vec![0; needs.front_bytes],
            payload: vec![0; needs.encoded_bytes],
            // A whole batch may lie in one run.
            blocks: vec![0; batch_blocks * geometry.block_size.bytes()],
        }
    }
}

impl<L, P, D, H, K> Shared<L, P, D, H, K>
where
    L: Policy,
    P: PmemShare,
    D: BlockDevice + Clone,
    H: Hook,
    K: Kernels,
{
    fn lock_home(&self) -> Result<MutexGuard<'_, HomeRoom<P, D, H>>, Error> {
        self.home.lock().map_err(|_| {
            self.fail();
            Error::Failed
        })
    }

    /// Writes home everything that is committed by now, and empties the lanes of it.
    pub(crate) fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        let mut room = self.lock_home()?;
        self.checkpoint_in(&mut room)
    }

    fn checkpoint_in(&self, room: &mut HomeRoom<P, D, H>) -> Result<CheckpointReport, Error> {
        self.check_not_failed()?;
        let mut report = CheckpointReport::default();
        let result = self.write_and_reclaim(room, &mut report);
        if !matches!(result, Ok(()) | Err(Error::NoShield { .. })) {
            self.fail();
        }
        result?;
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let (checkpoints, total) = &mut *done;
        *checkpoints += 1;
        total.blocks += report.blocks;
        total.writes += report.writes;
        total.batches += report.batches;
        total.shielded += report.shielded;
        total.freed_bytes += report.freed_bytes;
        Ok(report)
    }

    fn write_and_reclaim(
        &self,
        room: &mut HomeRoom<P, D, H>,
        report: &mut CheckpointReport,
    ) -> Result<(), Error> {
        let HomeRoom { home, batch, front, payload, blocks, .. } = room;
        let mut scratch = HomeScratch { batch, front, payload, blocks };
        let (mut lanes, mut shares) = (LanesOf(self), SharesOf(self));
        // Blocks that are written again and again meanwhile must not keep it from ending: as many
        // blocks as there are now go home, and what comes later is for the next time.
        let mut left = self.frames() as u64;
        loop {
            let before = report.blocks;
            let (common, lanes) = (&self.common, &mut lanes);
            let more = home.checkpoint_batch(common, lanes, &mut shares, &mut scratch, report)?;
            left = left.saturating_sub((report.blocks - before).max(1));
            if !more || left == 0 {
                break;
            }
        }
        home.reclaim(&self.common, &mut lanes, &mut shares, report)?;
        Ok(())
    }

    /// Frames in the lanes, more or less.
    fn frames(&self) -> usize {
        let frames = |share: &super::Share| share.index.frames();
        self.shares.iter().filter_map(|share| share.lock().ok().map(|share| frames(&share))).sum()
    }

    /// Makes room, by a checkpoint, unless `is_there` says that another thread has already.
    pub(crate) fn make_room(&self, is_there: impl Fn() -> bool) -> Result<(), Error> {
        let mut room = self.lock_home()?;
        if !is_there() {
            self.checkpoint_in(&mut room)?;
        }
        Ok(())
    }

    /// Asks the checkpointing thread to work, if there is one.
    #[cold]
    pub(crate) fn ask_for_checkpoint(&self) {
        if let Some(thread) = self.checkpointer.get() {
            if !self.asked.swap(true, Ordering::Relaxed) {
                thread.unpark();
            }
        }
    }

    /// Notes in the superblock that all is durable.
    pub(crate) fn note_durable(&self) -> Result<(), Error> {
        self.check_not_failed()?;
        let mut room = self.lock_home()?;
        let noted = room.home.note_durable(&self.common, &mut LanesOf(self));
        if noted.is_err() {
            self.fail();
        }
        Ok(noted?)
    }

    /// How many checkpoints have ended, and what they did.
    pub(crate) fn checkpointed(&self) -> (u64, CheckpointReport) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
