//! Trims: the device forgets blocks that are not live. Zeroes: it makes such blocks zero.
//!
//! TR1. The device forgets a block only while its newest frame is a durable discard, and the trim
//!      has the block. Nobody writes it then, and no read builds on what the disk holds.
//! TR2. No step of a checkpoint is under way meanwhile. One that began before the discard could
//!      write the block's old content behind the trim.
//!      Nor is anything written ahead of its record (AP4).
//! TR3. The trim gives the blocks back behind a sync. What the disk holds of them then is what a
//!      crash leaves: once the discard's frame is gone, patches apply to that.
//!
//! **Crash**: behind the discard, each block reads as zeroes as long as its frame is there. The
//! next open trusts no home block, so a checkpoint writes the zeroes before that frame goes.

use journal_core::policy::Policy;
use journal_core::record::Form;
use journal_core::{BlockDevice as _, BlockNumber, Rule};

use crate::error::Error;
use crate::machine::Machine;
use crate::shared::Shared;
use crate::shared::home_cell::one_sync::DiskOf;
use crate::staging::seat::Seat;

/// What blocks hold on the device when the journal has forgotten them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Becoming {
    /// What they held, or zeroes.
    Undefined,
    /// Zeroes.
    Zero,
}

impl<L: Policy, M: Machine> Shared<L, M> {
    /// Lets the device forget those of some blocks that are not live, or makes them zero there, and
    /// returns which these are. The caller's transaction has all of the blocks, which ascend.
    pub(crate) fn forget_home(
        &self,
        seat: &mut Seat<DiskOf<M>>,
        blocks: core::ops::Range<u64>,
        becoming: Becoming,
    ) -> Result<Vec<u64>, Error> {
        self.fail_on_panic(|| {
            // 1. No batch is on its way home.
            let home = self.lock_home()?;
            // 2. The blocks whose content nobody has.
            let mut free = Vec::new();
            for block in blocks {
                if self.is_forgotten(BlockNumber(block))? {
                    free.push(block);
                }
            }
            // 3. The device forgets them, run by run.
            let device = seat.for_reading().device;
            let mut forget = || {
                free.chunk_by(|block, next| block + 1 == *next).try_for_each(|run| {
                    let [first, ..] = run else { return Ok(()) };
                    let (first, blocks) = (BlockNumber(*first), run.len() as u64);
                    match becoming {
                        Becoming::Undefined => device.discard(first, blocks),
                        Becoming::Zero => device.write_zeroes(first, blocks),
                    }
                })
            };
            let discarded = match self.keeps(Rule::TrimsAlone) {
                true => self.appends.forgetting(forget),
                false => forget(),
            };
            // 4. Durably: also where a part was refused, as it may have been done.
            let synced = device.sync().map_err(Error::Device);
            drop(home);
            synced.inspect_err(|error| self.fail_of(*error))?;
            discarded.map_err(Error::Device)?;
            Ok(free)
        })
    }

    /// Whether a block is discarded for certain, and nobody looks at what the disk holds of it.
    fn is_forgotten(&self, block: BlockNumber) -> Result<bool, Error> {
        if self.keeps_for_snapshots() {
            return Ok(false);
        }
        // What is gathered may be at home already, by an append. The index is asked later (G3).
        if self.gathering.has(block) {
            return Ok(false);
        }
        let share = self.lock_share(block)?;
        let Some(newest) = share.index.newest(block) else { return Ok(false) };
        let frame = share.index.frame(newest);
        let is_durable = self.lane(frame.lane).reach.is_durable(frame.sequence);
        let is_behind = is_durable || !self.keeps(Rule::TrimsDurable);
        let is_free = frame.form == Form::Discard && is_behind;
        Ok(is_free && !share.index.is_leaving(block))
    }
}

#[cfg(test)]
mod tests {
    use journal_core::units::LaneNumber;
    use journal_core::{BlockDevice as _, BlockNumber, BlockSize};
    use pmem_sys::Region;
    use sim_disk::Mutator;

    use super::Becoming;
    use crate::machine::tests::{TinyDisk, TinyMachine};
    use crate::{AnyPolicy, ByteDelta, FullBlock, Journal, Options, Transaction};

    /// TR1: a block that was written since its discard is left alone.
    #[test]
    fn a_live_block_is_not_forgotten() {
        let mut disk = TinyDisk::of(BlockSize::DEFAULT, 8);
        let nvm = Region::anonymous(1 << 20).expect("memory");
        let options = Options::new().policy(FullBlock.into()).hook(Mutator::new());
        let journal: Journal<AnyPolicy, TinyMachine> =
            Journal::format(nvm, disk.clone(), &options).expect("a journal");
        let write = |value: u8| {
            let image = [value; 4096];
            journal.transact(|transaction| transaction.write(BlockNumber(3), &image))
        };
        let forget = || {
            let mut transaction = journal.begin().expect("begins");
            transaction.lock(BlockNumber(3)).expect("is free");
            transaction.forget_home(3..4, Becoming::Undefined).expect("a disk that works").len()
        };
        write(7).expect("commits");
        assert_eq!(forget(), 0, "it has a frame");
        journal.checkpoint().expect("goes home");
        assert_eq!(forget(), 0, "it is home");
        let mut home = [0; 4096];
        disk.read(BlockNumber(3), &mut home).expect("reads");
        assert_eq!(home, [7; 4096]);
        let discard = |transaction: &mut Transaction<'_, _, _>| transaction.discard(BlockNumber(3));
        journal.transact_deferred(discard).expect("commits");
        assert_eq!(forget(), 0, "the discard is not durable");
        journal.sync().expect("it is now");
        assert_eq!(forget(), 1);
    }

    /// TR1: an append that is gathered goes home before its record. A trim that comes in between
    /// leaves the block alone.
    #[test]
    fn a_gathered_append_at_home_is_not_forgotten() {
        let disk = TinyDisk::of(BlockSize::DEFAULT, 8);
        let nvm = Region::anonymous(4 << 20).expect("memory");
        let options = Options::new().policy(ByteDelta::new().into()).lanes(1).hook(Mutator::new());
        let journal: Journal<AnyPolicy, TinyMachine> =
            Journal::format(nvm, disk.clone(), &options).expect("a journal");
        let block = BlockNumber(3);
        // The first step of a trim.
        journal.transact(|tx| tx.discard(block)).expect("commits");
        journal.transact_gathered(|tx| tx.append(block, &[7; 4096])).expect("gathers");
        let shared = journal.shared();
        let cell = shared.lane(LaneNumber(0));
        std::thread::scope(|scope| {
            // The lane is taken when the committer has begun the append.
            let handle = shared.seats.handle();
            let syncs = handle.hold_syncs();
            let committer = scope.spawn(|| shared.commit_batch());
            let mut home = [0; 4096];
            while home != [7; 4096] {
                let mut disk = disk.clone();
                disk.read(block, &mut home).expect("reads");
                std::thread::yield_now();
            }
            let lane = shared.lock_lane(cell).expect("free");
            drop(syncs);
            while !cell.turn.is_busy() {
                std::thread::yield_now();
            }
            // The second step, while the committer waits for its lane.
            let mut transaction = journal.begin().expect("begins");
            transaction.lock(block).expect("is free");
            let forgotten = transaction.forget_home(3..4, Becoming::Zero).expect("works");
            assert!(forgotten.is_empty(), "{forgotten:?}");
            drop(lane);
            committer.join().expect("no panic").expect("commits");
        });
        let mut found = [1; 4096];
        journal.read(block, &mut found).expect("reads");
        assert_eq!(found, [7; 4096]);
    }
}
