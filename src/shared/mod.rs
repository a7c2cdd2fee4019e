//! One journal for many threads: the core's parts, each behind a lock of its own.
//!
//! | part | behind | which thread takes it |
//! |---|---|---|
//! | a block | [`block_locks`]: a word, or the map | a transaction: from first touch till durable |
//! | that map | a mutex | any that locks a block or looks at it, with nothing under it |
//! | a lane | a [`StoreLock`] each | one that stores or fences a record there |
//! | a share of the index | a [`StoreLock`] each | any, for a moment or for a short record |
//! | the upkeep | a mutex | one step of a checkpoint at a time |
//! | what writes home | a mutex | a batch, a fold, heads that pass, a trim, or a waiting append |
//! | what appends hold | a mutex | any for a moment, or heads that pass |
//! | the sync of the device | a mutex | one that syncs, with nothing taken under it |
//! | what is gathered | a mutex | any, for a moment, once anything was gathered |
//! | the turn to commit that | a mutex | one at a time |
//! | the threads that wait for a block | a mutex | a waiter, or a waker, with nothing under it |
//! | the threads that wait for room | a mutex | a waiter, or a waker, with nothing under it |
//!
//! Locks are taken in this order:
//!
//! 1. blocks
//! 2. the turn to commit what is gathered
//! 3. the upkeep
//! 4. what writes home
//! 5. what appends hold
//! 6. a lane
//! 7. what is gathered
//! 8. a share of the index
//! 9. the threads that wait long
//!
//! No thread holds two lanes, except a snapshot that begins: it takes all of them in their order.
//! No thread that holds a share waits for another. A block is taken
//! with its share in hand, but no thread waits for it like that. A thread waits for a block only
//! while it holds nothing but other blocks, and [`block_locks`] says why that ends. A short commit
//! ([`commit_short`]) takes shares and blocks with a lane in hand, if they are free.
//!
//! [`block_locks`]: crate::threads::block_locks
//! [`commit_short`]: crate::engine::commit_short
//!
//! What is released after a commit's fence is released by plain stores (C3).

pub(crate) mod cache;
pub(crate) mod failure;
pub(crate) mod gathering;
pub(crate) mod home_cell;
pub(crate) mod index_memory;
pub(crate) mod lane_cell;
pub(crate) mod lending;
pub(crate) mod levels;
pub(crate) mod notes;
pub(crate) mod share;
pub(crate) mod snapshots;

use core::time::Duration;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use crossbeam_utils::CachePadded;
use journal_core::parts::{Common, EntryAddresses, is_of_run, share_of};
use journal_core::units::LaneNumber;
use journal_core::{
    BlockNumber, CheckpointReport, FoldReport, Hook, LINE_BYTES, Operation, Recovery, Rule,
};
use pmem_sys::{StoreLock, StoreLockGuard};

use crate::error::Error;
use crate::machine::Machine;
use crate::shared::cache::clean::CleanSlots;
use crate::shared::cache::last_use::LastUse;
use crate::shared::failure::Failure;
use crate::shared::gathering::Gathering;
use crate::shared::home_cell::appends::Appends;
use crate::shared::home_cell::one_sync::DiskOf;
use crate::shared::home_cell::{HomeCell, InTurn, UpkeepCell};
use crate::shared::lane_cell::{LaneCell, LaneState};
use crate::shared::levels::Levels;
use crate::shared::notes::Notes;
use crate::shared::share::Share;
use crate::shared::snapshots::Snapshots;
use crate::staging::seat::Seats;
use crate::threads::block_locks::BlockLocks;
use crate::threads::checkpoint_flag::UnderWay;
use crate::threads::sync::{AtomicBool, Mutex, MutexGuard};
use crate::threads::waiting::Waiting;
use crate::threads::wake::Bell;

/// Everything of a journal that its threads share.
pub(crate) struct Shared<L, M: Machine> {
    pub(crate) common: Common<L, M::Kernels>,
    pub(crate) hook: M::Hook,
    pub(crate) lanes: Box<[CachePadded<LaneCell<M>>]>,
    pub(crate) shares: Box<[CachePadded<StoreLock<Share>>]>,
    /// The entries of each share.
    pub(crate) entries: Box<[EntryAddresses]>,
    pub(crate) blocks: BlockLocks,
    pub(crate) seats: Seats<DiskOf<M>>,
    /// One step of an upkeep at a time.
    pub(crate) upkeep: InTurn<UpkeepCell>,
    pub(crate) home: HomeCell<M>,
    pub(crate) appends: Appends<DiskOf<M>, M::Hook>,
    pub(crate) done: Mutex<Done>,
    pub(crate) recovery: Recovery,
    pub(crate) failure: Failure,
    /// How the checkpointing thread is asked to work.
    pub(crate) bell: Bell,
    pub(crate) snapshots: Snapshots,
    pub(crate) notes: Notes,
    /// How little free room makes the upkeep begin.
    pub(crate) levels: Levels,
    /// How many blocks a transaction that needs room writes home in one step.
    pub(crate) step_blocks: usize,
    /// How many nanoseconds that step is to take, on fast memory.
    pub(crate) step_nanos: u64,
    /// After how many changes a block is logged whole; zero: however many there are.
    pub(crate) whole_after: u8,
    /// Whether room is made by copies in the memory.
    pub(crate) relogs: bool,
    pub(crate) gathering: Gathering,
    /// When slots were used last.
    pub(crate) uses: LastUse,
    /// Slots that hold what was read from the disk, if any may.
    pub(crate) clean: Option<CleanSlots>,
    /// Whether contents are kept in the shares of the index.
    pub(crate) caches: bool,
    /// Whether the checks of contents are kept with them, since the policy uses those.
    pub(crate) keeps_checks: bool,
    /// Whether logged blocks are pinned there (CA3, CA5).
    pub(crate) pins: bool,
    /// Whether blocks that the cache has no room to pin are moved to the disk-side log.
    pub(crate) evicts_to_log: bool,
    /// Whether a checkpoint is under way.
    pub(crate) writes_home: UnderWay,
    /// Whether heads are passing frames, which then leave the index. The upkeep notes it before it
    /// takes any share for that. So a thread that holds a share sees whether it has begun there.
    pub(crate) heads_pass: AtomicBool,
    /// Threads that wait long, for blocks or for room.
    pub(crate) waiting: Arc<Waiting>,
}

/// Transactions that stopped until something was written home or freed, or another gave room back;
/// and commits that made room at their end, or waited for what writes home.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stops {
    pub(crate) for_bytes: u64,
    pub(crate) for_frames: u64,
    pub(crate) for_slots: u64,
    pub(crate) in_commits: u64,
    pub(crate) for_home: u64,
    pub(crate) for_moved: u64,
    pub(crate) time: Duration,
    /// The longest one for each reason, in this order.
    pub(crate) longest: [Duration; 6],
}

/// What was done to make room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Checkpoints that have ended.
    pub(crate) checkpoints: u64,
    /// What they did, added up.
    pub(crate) checkpointed: CheckpointReport,
    /// What was freed without the device, added up.
    pub(crate) folded: FoldReport,
    /// Blocks that were moved to the disk-side log.
    pub(crate) moved: u64,
    /// Blocks that were copied in the memory so that heads go on.
    pub(crate) copied: u64,
    /// How long checkpoints took, added up.
    pub(crate) checkpointing: Duration,
    /// How long transactions were stopped for want of room.
    pub(crate) stops: Stops,
}

impl Done {
    /// Bytes and slots that have come free, and frames that were folded, or moved.
    pub(crate) const fn freed(&self) -> (u64, u64, u64) {
        let Self { checkpointed, folded, .. } = self;
        let bytes = checkpointed.freed_bytes + folded.freed_bytes;
        let frames = folded.folded + self.moved + self.copied;
        (bytes, checkpointed.freed_slots + folded.freed_slots, frames)
    }
}

/// What a transaction was short of, or had to wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ShortOf {
    Bytes,
    Frames,
    Slots,
    /// Room for those to come, of which a commit makes some at its end.
    RoomAhead,
    /// A batch of an upkeep, which had a block that is appended, or a trim.
    Home,
    /// A block that an upkeep copies or moves.
    Moved,
}

impl<L, M: Machine> Shared<L, M> {
    /// Does what stops a transaction, and notes how long it takes.
    #[cold]
    pub(crate) fn stopped<R>(&self, short_of: ShortOf, call: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = call();
        let took = start.elapsed();
        let stops = &mut self.lock_done().stops;
        match short_of {
            ShortOf::Bytes => stops.for_bytes += 1,
            ShortOf::Frames => stops.for_frames += 1,
            ShortOf::Slots => stops.for_slots += 1,
            ShortOf::RoomAhead => stops.in_commits += 1,
            ShortOf::Home => stops.for_home += 1,
            ShortOf::Moved => stops.for_moved += 1,
        }
        stops.time += took;
        let longest = &mut stops.longest[short_of as usize];
        *longest = took.max(*longest);
        result
    }

    pub(crate) fn lock_done(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.hook.keeps(rule)
    }

    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.has_come()
    }

    #[inline]
    pub(crate) fn check_not_failed(&self) -> Result<(), Error> {
        if self.has_failed() { Err(Error::Failed) } else { Ok(()) }
    }

    /// Makes the journal fail, before the caller that met the reason is told of it and notes it.
    #[cold]
    pub(crate) fn fail(&self) {
        if self.keeps(Rule::Sticky) {
            self.failure.come();
        }
    }

    /// Makes the journal fail because of this error.
    #[cold]
    pub(crate) fn fail_of(&self, error: Error) {
        if self.keeps(Rule::Sticky) {
            self.failure.come_of(error);
        }
    }

    pub(crate) fn lane(&self, lane: LaneNumber) -> &LaneCell<M> {
        &self.lanes[usize::from(lane.raw())]
    }

    /// Takes a lane for anything but a commit, which takes its turn.
    pub(crate) fn lock_lane<'s>(
        &'s self,
        cell: &'s LaneCell<M>,
    ) -> Result<StoreLockGuard<'s, LaneState<M>>, Error> {
        cell.turn.take().map_err(|_| self.poisoned())
    }

    /// Makes the journal fail: a thread panicked inside, and what it held may be half done.
    #[cold]
    pub(crate) fn poisoned(&self) -> Error {
        self.failure.come_of_a_panic();
        Error::Failed
    }

    /// Locks the share of the index that has a block. Inlined, so that the guard does not come back
    /// by memory (C1).
    #[inline(always)]
    pub(crate) fn lock_share(
        &self,
        block: BlockNumber,
    ) -> Result<StoreLockGuard<'_, Share>, Error> {
        let share = &self.shares[share_of(block, self.shares.len())];
        share.lock().map_err(|_| self.poisoned())
    }

    /// Begins to bring into the caches what a look-up of a block needs. Call it before taking a
    /// lock (C9).
    #[inline(always)]
    pub(crate) fn prefetch_block(&self, block: BlockNumber) {
        let number = share_of(block, self.shares.len());
        let share = core::ptr::from_ref(&self.shares[number]).cast::<u8>();
        let holder = self.blocks.address_of(self.blocks.stripe(block));
        for at in
            [share, share.wrapping_add(LINE_BYTES), holder, self.entries[number].address_of(block)]
        {
            self.common.prefetch_line(at);
        }
    }

    /// Like [`prefetch_block`](Self::prefetch_block), for several blocks. What a run of them has in
    /// common is brought once.
    pub(crate) fn prefetch_blocks(&self, operations: &[Operation<'_>]) {
        for run in operations.chunk_by(|a, b| is_of_run(a.block(), b.block())) {
            let [first, others @ ..] = run else { continue };
            self.prefetch_block(first.block());
            let entries = &self.entries[share_of(first.block(), self.shares.len())];
            for other in others {
                self.common.prefetch_line(entries.address_of(other.block()));
            }
        }
    }

    /// Begins to bring into the processor's caches the entry that the journal's cache has of a
    /// block, if it has one.
    #[inline]
    pub(crate) fn prefetch_entry(&self, share: &Share, block: BlockNumber) {
        if let Some(line) = share.cache.as_ref().and_then(|cache| cache.line_of(block)) {
            self.common.prefetch_line(line);
        }
    }

    /// Begins to bring into the caches these ranges of what is kept of a block: of each, the line
    /// that its first byte lies in, and the line of its last.
    #[inline]
    pub(crate) fn prefetch_kept(
        &self,
        share: &Share,
        block: BlockNumber,
        ranges: impl IntoIterator<Item = (usize, usize)>,
    ) {
        let kept = share.cache.as_ref().and_then(|cache| cache.image_of(block));
        let Some(image) = kept else { return };
        for (at, len) in ranges {
            let first = image.as_ptr().wrapping_add(at);
            self.common.prefetch_line(first);
            self.common.prefetch_line(first.wrapping_add(len.saturating_sub(1)));
        }
    }

    /// Whether two blocks belong to the same share.
    pub(crate) fn share_together(&self, a: BlockNumber, b: BlockNumber) -> bool {
        share_of(a, self.shares.len()) == share_of(b, self.shares.len())
    }
}
