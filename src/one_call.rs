//! Calls that need no transaction of the caller: operations that are committed in one call, what
//! the journal says of what it holds, ticks, and an open that gives its partners back.

use core::ops::Range;
use core::time::Duration;

use journal_core::parts::{Found, FrameAt, Several};
use journal_core::policy::{Kind, Policy};
use journal_core::{
    BlockDevice, BlockNumber, CommitError, Committed, DeviceOperation, Durability, Hook, Needs,
    Operation, PmemShare, PmemSplit, Rule,
};
use pmem_sys::NativeKernels;

use crate::engine::commit::at_once::Sees;
use crate::engine::upkeep::trim::Becoming;
use crate::error::Error;
use crate::journal::Journal;
use crate::machine::{Machine, On};
use crate::options::Options;
use crate::shared::home_cell::one_sync::DiskOf;
use crate::staging::old_images::is_image_alone;
use crate::staging::seat::Seated;
use crate::stats::Totals;
use crate::threads::block_locks::Age;
use crate::trace;
use crate::transaction::Transaction;

/// True if the policy may see an old image. The caller's may be stale, so the image is read again
/// under the lock. Patches that are logged as they come need none.
fn has_old(operation: &Operation<'_>, logs_patches: bool) -> bool {
    match operation {
        Operation::Update(update) if logs_patches && update.change.image().is_none() => false,
        Operation::Update(update) => update.old.is_some() || update.kind == Kind::Overwrite,
        _ => false,
    }
}

/// Whether an operation is compared with what is kept of its block.
fn is_compared(operation: &Operation<'_>) -> bool {
    matches!(operation, Operation::Update(update) if is_image_alone(update))
}

/// Whether an operation says all of a block's new content, or that it has none, or all that is
/// logged of it.
fn says_all(operation: &Operation<'_>, logs_patches: bool) -> bool {
    match operation {
        Operation::Update(update) => logs_patches || update.change.image().is_some(),
        Operation::Discard(_) => true,
        _ => false,
    }
}

impl<L: Policy, M: Machine> Journal<L, M> {
    /// Commits these operations as one transaction. The images are copied from where they are to
    /// the medium. Where [blocks are kept](crate::Options::cache_bytes), those that the next writer
    /// of a block looks for are copied to the cache. The operations ascend by block, each block
    /// once.
    ///
    /// The call waits for the holder of each block. It answers `Conflict` instead where the holder
    /// is this thread itself, or waits for a transaction that this thread has open.
    ///
    /// An update may come with the ranges in which its image differs, or as patches alone
    /// ([`Change`](crate::policy::Change)). A policy that cannot log patches answers
    /// `CannotPlace`.
    ///
    /// A policy that [compares images](Policy::wants_old) is shown what is committed when the call
    /// has its blocks, and finds the ranges itself. This holds whatever old image an update brings.
    /// A policy that compares with images [that are kept](Policy::wants_cached_old) is shown them
    /// of updates that are whole images and bring nothing else.
    ///
    /// `None` when there was nothing to log.
    ///
    /// # Errors
    /// With nothing changed: `NotAscending`, `OutOfDevice`, `OutOfBlock`, `BadRange`, `TooLarge`,
    /// `TooManyBlocks`, `CannotPlace`, `Conflict`, and those of [`read`](Self::read) where an image
    /// has to be made first.
    ///
    /// When the journal is full the call makes room first, with the errors of
    /// [`checkpoint`](Self::checkpoint), and `Unreadable` where a checkpoint makes no room.
    ///
    /// `Medium`, `Device` and `Failed` mean what they mean for [`Transaction::commit`]. What is
    /// durable when depends on `durability`: it is as for [`Transaction::commit`] or as for
    /// [`Transaction::commit_deferred`]. A deferred record that stores more than about 1 KiB, in
    /// slots or in the lane, is fenced at once. So deferring whole blocks saves nothing.
    ///
    /// ```no_run
    /// # use nvm_journal::{Error, Journal};
    /// # fn example(journal: &Journal, image: &[u8]) -> Result<(), Error> {
    /// use nvm_journal::{BlockNumber, Durability, Operation};
    ///
    /// let operations = [
    ///     Operation::write(BlockNumber(7), image),
    ///     Operation::Discard(BlockNumber(9)),
    /// ];
    /// journal.commit(&operations, Durability::Durable)?;
    /// # Ok(())
    /// # }
    /// ```
    // C2: not inlined, so that what a caller keeps in registers leaves no fewer here.
    #[inline(never)]
    pub fn commit(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let result = self.commit_now(operations, durability);
        self.shared().see_to_room(result.is_ok());
        result
    }

    #[inline(always)]
    fn commit_now(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let shared = self.shared();
        shared.common.prefetch(operations);
        shared.prefetch_first(operations);
        shared.check_not_failed()?;
        match shared.common.validate(operations) {
            Err(CommitError::Empty) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        if shared.pins && !operations.iter().all(|one| says_all(one, false)) {
            return self.stage_and_commit(operations, durability);
        }
        let policy = &shared.common.policy;
        let has_old = |one| has_old(one, policy.logs_patches());
        if policy.wants_old() && operations.iter().any(has_old) {
            return self.commit_on_olds(operations, durability, Sees::Olds);
        }
        if shared.compares_cached() && operations.iter().any(is_compared) {
            return self.commit_on_olds(operations, durability, Sees::CachedOlds);
        }
        let mut seat = shared.seats.sit();
        shared.choose_lane(&mut seat);
        let age = seat.next_age(shared.blocks.age_behind());
        if let [operation] = operations {
            if Several::may_be(operation) {
                let result = shared.commit_several(&mut seat, age, operation, durability);
                if !matches!(result, Ok(None)) {
                    seat.leave();
                    return result;
                }
            }
            let result = shared.commit_sole(&mut seat, age, operation, durability);
            if !matches!(result, Ok(None)) {
                seat.leave();
                return result;
            }
        }
        self.commit_waiting(seat, age, operations, durability, Sees::Operations)
    }

    /// Commits operations. After a conflict it waits for its turn and tries again.
    #[inline(never)]
    fn commit_waiting(
        &self,
        mut seat: Seated<'_, DiskOf<M>>,
        age: Age,
        operations: &[Operation<'_>],
        durability: Durability,
        sees: Sees,
    ) -> Result<Option<Committed>, Error> {
        let shared = self.shared();
        let few = match sees {
            Sees::Operations => shared.commit_few(&mut seat, age, operations, durability)?,
            Sees::Olds | Sees::CachedOlds => None,
        };
        if few.is_some() {
            return Ok(few);
        }
        if shared.ends_any_chain(operations, sees) {
            drop(seat);
            return self.stage_and_commit(operations, durability);
        }
        seat.work.forget_wants();
        loop {
            match shared.commit_at_once(&mut seat, age, operations, durability, sees) {
                Err(Error::Conflict { block }) => {
                    shared.choose_lane(&mut seat);
                    shared.await_turn(&mut seat.work, age, block)?;
                }
                result => return result,
            }
        }
    }

    /// Commits operations for a policy that compares with old images, or with those that are kept.
    fn commit_on_olds(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
        sees: Sees,
    ) -> Result<Option<Committed>, Error> {
        let shared = self.shared();
        let logs_patches = shared.common.policy.logs_patches();
        if sees == Sees::Olds && !operations.iter().all(|one| says_all(one, logs_patches)) {
            return self.stage_and_commit(operations, durability);
        }
        let mut seat = shared.seats.sit();
        shared.choose_lane(&mut seat);
        let age = seat.next_age(shared.blocks.age_behind());
        self.commit_waiting(seat, age, operations, durability, sees)
    }

    /// Commits operations whose new images have to be made from the old ones first. It does so as a
    /// transaction that reads them.
    #[cold]
    fn stage_and_commit(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        let mut committed = None;
        let body = |transaction: &mut Transaction<'_, L, M>| {
            operations.iter().try_for_each(|operation| transaction.stage(operation))
        };
        self.begin()?.run(body, |transaction| {
            committed = match durability {
                Durability::Durable => transaction.commit()?,
                Durability::Deferred => transaction.commit_deferred()?,
            };
            Ok(())
        })?;
        Ok(committed)
    }
}

/// Blocks of one transaction where a call has many.
const RUN_BLOCKS: u64 = 32;

/// The parts of a run of blocks that one transaction each takes.
fn parts(blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let (first, end) = (blocks.start, blocks.end);
    (0..(end - first).div_ceil(RUN_BLOCKS)).map(move |part| {
        let at = first + part * RUN_BLOCKS;
        at..(at + RUN_BLOCKS).min(end)
    })
}

impl<L: Policy, M: Machine> Journal<L, M> {
    /// Commits like [`commit`](Self::commit), but never waits: where it would have to, for a block
    /// of another transaction or for room, it answers an error with nothing changed. It is for
    /// hosts that must not wait.
    ///
    /// The fence of the commit is not cut short, nor is what makes room.
    ///
    /// # Errors
    /// `OutOfTime` and `Conflict`: not now. The errors of [`commit`](Self::commit).
    ///
    /// ```no_run
    /// # use nvm_journal::Journal;
    /// # fn example(journal: &Journal, image: &[u8]) -> Result<bool, nvm_journal::Error> {
    /// use nvm_journal::{BlockNumber, Durability, Error, Operation};
    ///
    /// let operations = [Operation::write(BlockNumber(7), image)];
    /// match journal.try_commit(&operations, Durability::Durable) {
    ///     Err(Error::OutOfTime | Error::Conflict { .. }) => Ok(false), // Not now.
    ///     committed => committed.map(|_| true),
    /// }
    /// # }
    /// ```
    pub fn try_commit(
        &self,
        operations: &[Operation<'_>],
        durability: Durability,
    ) -> Result<Option<Committed>, Error> {
        match self.shared().common.validate(operations) {
            Err(CommitError::Empty) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        let mut transaction = self.begin_within(Duration::ZERO)?;
        operations.iter().try_for_each(|operation| transaction.stage(operation))?;
        match durability {
            Durability::Durable => transaction.commit(),
            Durability::Deferred => transaction.commit_deferred(),
        }
    }

    /// The numbers of a run of blocks, if the store has all of them.
    fn run(&self, first: BlockNumber, blocks: u64) -> Result<Range<u64>, Error> {
        let count = self.block_count();
        let end = first.raw().checked_add(blocks).filter(|end| *end <= count);
        let block = BlockNumber(first.raw().max(count));
        end.map(|end| first.raw()..end).ok_or(Error::OutOfDevice { block })
    }

    /// Makes blocks zero, durably. It does so in transactions of at most 32 blocks: a crash leaves
    /// some of them done.
    ///
    /// The zeroes are not logged. The blocks are discarded, and the disk makes them zero
    /// ([`BlockDevice::write_zeroes`](crate::ports::BlockDevice::write_zeroes)). Where it refuses,
    /// and for blocks that another thread writes in between, images of zeroes are logged after all,
    /// and so for all blocks while a [snapshot](Self::snapshot) is open. A reader meanwhile may see
    /// a block's zeroes, and then what it held, until this returns.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit), and a sync that failed. The parts before the failure are
    /// zero. The content of the part that failed is undefined, until it is written.
    pub fn write_zeroes(&self, first: BlockNumber, blocks: u64) -> Result<(), Error> {
        let zeroes = vec![0; self.shared().common.block_bytes()];
        for part in parts(self.run(first, blocks)?) {
            // 1. What the blocks hold is not needed any more, durably.
            self.discard_run(part.clone())?;
            // 2. With all of them in hand, the disk makes zero what nobody has written since, and
            //    the rest is logged.
            self.begin()?.run(
                |transaction| {
                    let mut all = part.clone().map(BlockNumber);
                    all.try_for_each(|block| transaction.lock(block))?;
                    let done = match transaction.forget_home(part.clone(), Becoming::Zero) {
                        // The disk may have done a part, so that a block holds anything.
                        Err(Error::Device(error)) if error.operation != DeviceOperation::Sync => {
                            vec![]
                        }
                        done => done?,
                    };
                    let mut rest = part.clone().filter(|block| !done.contains(block));
                    rest.try_for_each(|block| transaction.write(BlockNumber(block), &zeroes))
                },
                Transaction::commit,
            )?;
        }
        Ok(())
    }

    /// Discards blocks, durably: they are not live any more.
    fn discard_run(&self, blocks: Range<u64>) -> Result<(), Error> {
        let discards = blocks.map(|block| Operation::Discard(BlockNumber(block)));
        let discards: Vec<_> = discards.collect();
        let is_durable = self.shared().keeps(Rule::TrimsDurable);
        let durability = if is_durable { Durability::Durable } else { Durability::Deferred };
        self.commit(&discards, durability).map(drop)
    }

    /// Does what is due at the time `now`, by a clock of the host that never goes back:
    ///
    /// - It commits the running transaction when that is as old as [`Options::pacing`] allows.
    /// - It makes a checkpoint when the last checkpoint is as old as the pacing allows. Where
    ///   slots are where content lives, that is one [of the rings](Self::checkpoint_rings).
    /// - It makes room where the [thresholds](Options::thresholds) are crossed.
    ///
    /// Call it about as often as the timing has to be exact. Do not call it where
    /// [`Options::background_checkpoint`] is on: that thread does so by a clock of its own.
    ///
    /// # Errors
    /// The errors of [`checkpoint`](Self::checkpoint).
    pub fn tick(&self, now: Duration) -> Result<(), Error> {
        self.shared().tick(now, None).map(drop)
    }

    /// A [`tick`](Self::tick) for a thread that must not stop for long. It makes room in the steps
    /// that [`Options::longest_stop`] speaks of, and a checkpoint batch by batch. It begins no
    /// further one when `limit` is over, and does one at least. So a tick without end is cut into
    /// many.
    ///
    /// Returns whether all is done that was due. If not, call it again, at any time: it goes on.
    /// What no step can do is left to the transaction that needs the room, or to a `tick`.
    ///
    /// The commit of what is gathered is not cut. Nor is what a due checkpoint does besides its
    /// batches: with slots or a disk-side log it first folds and moves what it can, and behind the
    /// last batch one pass goes through the index. Where [`Options::relogs`] is on, copies are
    /// made until there is room, or none is worth it.
    ///
    /// # Errors
    /// The errors of [`checkpoint`](Self::checkpoint).
    pub fn tick_within(&self, now: Duration, limit: Duration) -> Result<bool, Error> {
        self.shared().tick(now, Some(limit))
    }

    /// Discards blocks, and gives their space on the disk back
    /// ([`BlockDevice::discard`](crate::ports::BlockDevice::discard)). Their content is undefined
    /// until they are written again. Returns how many blocks the disk was told of.
    ///
    /// It does so in transactions of at most 32 blocks, each followed by a sync of the disk: a
    /// crash leaves some of them done. No other thread can write one of these blocks meanwhile. A
    /// block that another thread writes in between is left alone, and so are all blocks while
    /// a [snapshot](Self::snapshot) is open, because it may see what the disk holds.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit), and the disk's. After a failed sync the journal has
    /// failed. After a discard that the disk refused it goes on.
    pub fn trim(&self, first: BlockNumber, blocks: u64) -> Result<u64, Error> {
        let mut trimmed = 0;
        for part in parts(self.run(first, blocks)?) {
            // 1. The blocks are not live any more, durably.
            self.discard_run(part.clone())?;
            // 2. With all of them in hand, the disk forgets those that nobody has written since.
            let forgotten = self.begin()?.run(
                |transaction| {
                    let mut all = part.clone().map(BlockNumber);
                    all.try_for_each(|block| transaction.lock(block))?;
                    transaction.forget_home(part.clone(), Becoming::Undefined)
                },
                |transaction| {
                    transaction.abort();
                    Ok(())
                },
            )?;
            trimmed += forgotten.len() as u64;
        }
        Ok(trimmed)
    }
}

impl<L: Policy, M: Machine> Journal<L, M> {
    /// What the journal has done so far, and how full it is: few numbers, for a loop that watches
    /// it. The call copies some words of each lane under that lane's lock. Unlike
    /// [`stats`](Self::stats) it locks no share of the index, so it is in no reader's way, and
    /// allocates nothing.
    ///
    /// # Errors
    /// `Failed`, after a panic inside.
    pub fn totals(&self) -> Result<Totals, Error> {
        let shared = self.shared();
        let mut totals = Totals::default();
        for cell in &shared.lanes {
            let state = shared.lock_lane(cell)?;
            let (lane, stats) = (&state.lane, &state.stats);
            totals.commits += stats.commits;
            totals.fences += stats.fences;
            totals.frames += stats.frames;
            totals.bytes += stats.bytes;
            totals.used_bytes += lane.capacity_bytes() - lane.free_bytes();
            totals.capacity_bytes += lane.capacity_bytes();
            totals.free_slots += lane.free_slots();
            totals.free_log_blocks += lane.free_log_blocks();
        }
        Ok(totals)
    }

    /// Blocks that the last checkpoint left out because they could not be read, in ascending order.
    /// Blocks that were written anew since are not among them. A read of each says why.
    ///
    /// # Errors
    /// `Failed`.
    pub fn unreadable(&self) -> Result<Vec<BlockNumber>, Error> {
        let mut blocks = Vec::new();
        for share in &self.shared().shares {
            blocks.extend(share.lock().map_err(|_| Error::Failed)?.index.each_unreadable());
        }
        blocks.sort_unstable();
        Ok(blocks)
    }

    /// Calls `each` for every block of every record in the lanes whose transaction had a
    /// [note](Transaction::note): with the block, the note, and what the commit has answered. It
    /// goes from lane to lane. In a lane older records come first. Of two records the one with the
    /// higher stamp is newer, in whatever lanes they are.
    ///
    /// Of records that checkpoints have removed nothing is told: what they logged is home, or in a
    /// slot, or in the disk-side log.
    ///
    /// # Errors
    /// `Failed`, and `Medium`, where a record cannot be read.
    pub fn each_noted(
        &self,
        mut each: impl FnMut(BlockNumber, [u64; 2], Committed),
    ) -> Result<(), Error> {
        let shared = self.shared();
        let mut front = vec![0; Needs::of(self.geometry(), 1).record_front_bytes];
        for cell in &shared.lanes {
            let (mut found, state) = (Vec::new(), shared.lock_lane(cell)?);
            shared.check_not_failed()?;
            let tell = |frame: &FrameAt, note| {
                let FrameAt { lane, sequence, stamp, .. } = *frame;
                found.push((frame.block, note, Committed { lane, sequence, stamp }));
            };
            let told = shared.common.each_noted(&state.lane, &mut front, tell);
            drop(state);
            told.map_err(Error::Medium)?;
            found.into_iter().for_each(|(block, note, committed)| each(block, note, committed));
        }
        Ok(())
    }
}

impl<L, P, D, H> Journal<L, On<P, D, H>>
where
    L: Policy + Clone + Send + Sync + 'static,
    P: PmemSplit + PmemShare + Send + Sync + 'static,
    D: BlockDevice + Clone + Send + 'static,
    H: Hook + Clone + Send + Sync + 'static,
{
    /// Opens like [`open`](Self::open), and gives `nvm` and `disk` back if that fails: to format
    /// them, or to try another policy. `nvm` is given back unless the lanes themselves were found
    /// damaged or unreadable; the failed open has used it up then.
    ///
    /// Where [`resizes`](Options::resizes) meets a smaller disk, the lanes are read once more than
    /// by [`open`](Self::open): a disk that lacks a block of theirs is refused with `nvm` whole.
    ///
    /// ```
    /// use nvm_journal::{BlockSize, FileDisk, Journal, Options, Region};
    ///
    /// # let path = std::env::temp_dir().join(format!("try-open-{}", std::process::id()));
    /// let disk = FileDisk::create(&path, BlockSize::DEFAULT, 100)?;
    /// let options = Options::new();
    /// let journal = match Journal::try_open(Region::anonymous(1 << 20)?, disk, &options) {
    ///     Err((error, Some(nvm), disk)) if error.is_no_journal() => {
    ///         Journal::format(nvm, disk, &options)?
    ///     }
    ///     opened => opened.map_err(|(error, ..)| error)?,
    /// };
    /// # drop(journal);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn try_open(
        mut nvm: P,
        disk: D,
        options: &Options<L, H>,
    ) -> Result<Self, (Error, Option<P>, D)> {
        let kernels = NativeKernels::detect();
        let found = Found::load(&mut nvm, options.hook.clone(), &kernels);
        let checked = found.map_err(Error::from).and_then(|found| {
            let found = found.resizing(options.settings.resizes);
            found.suits(&options.policy, &disk)?;
            options.plan_of(*found.geometry())?;
            if options.settings.resizes {
                let mut front = vec![0; Needs::of(found.geometry(), 1).front_bytes];
                found.cuts_nothing(&disk, &kernels, &mut front)?;
            }
            Ok(())
        });
        if let Err(error) = checked {
            trace::refused(error);
            return Err((error, Some(nvm), disk));
        }
        Self::open(nvm, disk.clone(), options).map_err(|error| (error, None, disk))
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::mpsc;

    use journal_core::{BlockNumber, BlockSize};
    use pmem_sys::Region;
    use sim_disk::Mutator;

    use crate::machine::tests::{TinyDisk, TinyMachine};
    use crate::{AnyPolicy, FullBlock, Journal, Options};

    /// Totals are what the stats add up to, and wait for no share of the index.
    #[test]
    fn totals_are_told_while_every_share_of_the_index_is_taken() {
        let disk = TinyDisk::of(BlockSize::DEFAULT, 8);
        let nvm = Region::anonymous(1 << 20).expect("memory");
        let policy = AnyPolicy::from(FullBlock);
        let options = Options::new().policy(policy).lanes(2).hook(Mutator::new());
        let journal: Journal<AnyPolicy, TinyMachine> =
            Journal::format(nvm, disk, &options).expect("a journal");
        for number in 0..7 {
            let image = [7; 4096];
            journal.transact(|tx| tx.write(BlockNumber(number), &image)).expect("room");
        }
        let stats = journal.stats().expect("works");
        let (told, waits) = mpsc::channel();
        std::thread::scope(|scope| {
            let shares = &journal.shared().shares;
            let taken: Vec<_> = shares.iter().map(|share| share.lock().expect("works")).collect();
            assert!(taken.len() > 1);
            let journal = &journal;
            scope.spawn(move || told.send(journal.totals()));
            let totals = waits.recv_timeout(Duration::from_secs(60));
            let totals = totals.expect("no share is waited for").expect("works");
            let total = stats.total();
            assert_eq!((totals.commits, totals.frames), (7, 7));
            assert_eq!((totals.fences, totals.bytes), (total.fences, total.bytes));
            assert_eq!((totals.used_bytes, totals.free_slots), (total.used_bytes, 0));
            assert!(totals.used_bytes > 7 * 4096 && totals.used_bytes < totals.capacity_bytes);
            assert_eq!(totals.capacity_bytes, 2 * stats.lane_bytes);
        });
    }
}
