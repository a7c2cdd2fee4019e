//! Reading one committed state while writers go on ([`crate::shared::snapshots`]).

use core::fmt;

use full_block::FullBlock;
use journal_core::BlockDevice as _;
use journal_core::parts::NodeId;
use journal_core::policy::Policy;
use journal_core::units::{Sequence, Stamp};
use journal_core::{BlockNumber, Rule};

use crate::error::Error;
use crate::machine::{Machine, Native};
use crate::shared::Shared;
use crate::shared::home_cell::one_sync::DiskOf;
use crate::shared::share::Share;
use crate::shared::snapshots::Opened;
use crate::staging::seat::Reading;

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Begins a snapshot of all that is committed, deferred or gathered by now.
    pub(crate) fn open_snapshot(&self) -> Result<Opened, Error> {
        self.check_not_failed()?;
        self.commit_batch()?;
        // No step of an upkeep is under way when it begins, nor begins unseen.
        let upkeep = self.upkeep.lock_behind().map_err(|_| self.poisoned())?;
        let mut opened = self.snapshots.open();
        let stamped = self.stamp_snapshot(&mut opened);
        drop(upkeep);
        let bounds = stamped.inspect_err(|_| self.snapshots.close(&opened))?;
        // What was stored by then is soon readable.
        for (cell, bound) in self.lanes.iter().zip(bounds) {
            if let Some(last) = bound.raw().checked_sub(1).filter(|last| *last > 0) {
                let is_there = || cell.reach.is_readable(Sequence(last));
                let awaited = self.await_lane(cell, is_there);
                awaited.inspect_err(|_| self.snapshots.close(&opened))?;
            }
        }
        Ok(opened)
    }

    /// Gives a snapshot its stamp (SN1). Returns the sequences below which it sees the records of
    /// each lane.
    fn stamp_snapshot(&self, opened: &mut Opened) -> Result<Vec<Sequence>, Error> {
        // No other thread waits for a lane while it has another one.
        let mut held = Vec::new();
        for cell in &self.lanes {
            let state = self.lock_lane(cell)?;
            opened.stamp = opened.stamp.max(state.lane.last_stamp());
            if self.keeps(Rule::SnapshotsAtOnce) {
                held.push(state);
            }
        }
        let (stamp, mut held) = (opened.stamp, held.into_iter());
        let raised = self.lanes.iter().map(|cell| {
            let mut state = held.next().map_or_else(|| self.lock_lane(cell), Ok)?;
            if self.keeps(Rule::SnapshotsStamped) {
                state.lane.raise_stamp(stamp);
            }
            Ok(state.lane.next_sequence())
        });
        raised.collect()
    }

    /// Reads a block as a snapshot sees it. The content counts only if the snapshot was not ended
    /// meanwhile.
    pub(crate) fn read_as_of(
        &self,
        reading: Reading<'_, DiskOf<M>>,
        opened: &Opened,
        block: BlockNumber,
        into: &mut [u8],
    ) -> Result<(), Error> {
        let result = self.read_up_to(reading, opened.stamp, block, into);
        match result {
            Err(Error::Failed) => Err(Error::Failed),
            _ if self.snapshots.is_ended(opened) => Err(Error::SnapshotTooOld),
            result => result,
        }
    }

    fn read_up_to(
        &self,
        reading: Reading<'_, DiskOf<M>>,
        stamp: Stamp,
        block: BlockNumber,
        into: &mut [u8],
    ) -> Result<(), Error> {
        self.check_not_failed()?;
        let Reading { device, payload } = reading;
        let mut share = self.lock_share(block)?;
        let newest = newest_up_to(&share, block, stamp);
        if let Some(below) = self.common.block_below(&share.index, block, newest) {
            drop(share);
            device.read(below, into).map_err(Error::Device)?;
            share = self.lock_share(block)?;
        }
        // As long as the snapshot is kept this is the same one.
        let newest = newest_up_to(&share, block, stamp);
        self.apply_frames(&share, newest, payload, into)
    }
}

/// The newest frame of a block that a snapshot with this stamp sees.
fn newest_up_to(share: &Share, block: BlockNumber, stamp: Stamp) -> Option<NodeId> {
    let mut next = share.index.newest(block);
    while let Some(id) = next.filter(|id| share.index.frame(*id).stamp > stamp) {
        next = share.index.older(id);
    }
    next
}

/// One committed state, which can be read while writers go on. [`Journal::snapshot`] makes it.
///
/// It sees all transactions that had been committed when it was made, and none that began later. It
/// sees each transaction wholly or not at all, and none without those that it builds on. Threads
/// may read it at once.
///
/// **Costs**: no memory of its own. Writers wait for it only while it begins, until what other
/// writers store just then is stored. But nothing that it may see goes home or is forgotten
/// meanwhile, so the journal fills. All snapshots end when blocks have to
/// go home for their room, and by a checkpoint that is asked for or due. Reads then answer
/// [`Error::SnapshotTooOld`]. How long a snapshot lives at least thus depends on how full the
/// journal is, on the second of its [thresholds](crate::Options::thresholds), and on how much is
/// written.
///
/// ```no_run
/// # fn example(journal: &nvm_journal::Journal) -> Result<(), nvm_journal::Error> {
/// use nvm_journal::BlockNumber;
///
/// let snapshot = journal.snapshot()?;
/// journal.transact(|tx| tx.write_at(BlockNumber(1), 0, b"later"))?;
/// let mut image = vec![0; 4096];
/// snapshot.read(BlockNumber(1), &mut image)?; // As it was before.
/// # Ok(())
/// # }
/// ```
///
/// [`Journal::snapshot`]: crate::Journal::snapshot
pub struct Snapshot<'j, L: Policy = FullBlock, M: Machine = Native> {
    shared: &'j Shared<L, M>,
    opened: Opened,
}

impl<'j, L: Policy, M: Machine> Snapshot<'j, L, M> {
    pub(crate) fn open(shared: &'j Shared<L, M>) -> Result<Self, Error> {
        Ok(Self { shared, opened: shared.open_snapshot()? })
    }

    /// Reads a block as it was when the snapshot was made. A block that was discarded then, and not
    /// written since, may hold anything.
    ///
    /// # Errors
    /// `SnapshotTooOld`, and those of [`Journal::read`](crate::Journal::read).
    pub fn read(&self, block: BlockNumber, into: &mut [u8]) -> Result<(), Error> {
        self.shared.check_request(block, into.len())?;
        let mut seat = self.shared.seats.sit();
        self.shared.read_as_of(seat.for_reading(), &self.opened, block, into)
    }

    /// Reads bytes of a block, like [`read`](Self::read).
    ///
    /// # Errors
    /// The errors of [`read`](Self::read), and `OutOfBlock` when the bytes do not lie in the block.
    pub fn read_at(&self, block: BlockNumber, at: usize, into: &mut [u8]) -> Result<(), Error> {
        self.shared.check_range(block, at, into.len())?;
        let mut seat = self.shared.seats.sit();
        let (reading, image) = seat.for_reading_spare();
        self.shared.read_as_of(reading, &self.opened, block, image)?;
        pmem_sys::copy_block(into, &image[at..][..into.len()]);
        Ok(())
    }

    /// Whether room was needed, so that the snapshot has ended.
    #[must_use]
    pub fn is_too_old(&self) -> bool {
        self.shared.snapshots.is_ended(&self.opened)
    }
}

impl<L: Policy, M: Machine> Drop for Snapshot<'_, L, M> {
    fn drop(&mut self) {
        self.shared.snapshots.close(&self.opened);
    }
}

impl<L: Policy, M: Machine> fmt::Debug for Snapshot<'_, L, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("is_too_old", &self.is_too_old()).finish_non_exhaustive()
    }
}
