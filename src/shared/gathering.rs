//! Gathered transactions, before they commit as one record.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use journal_core::parts::Operations;
use journal_core::policy::Pacing;
use journal_core::units::LaneNumber;
use journal_core::{Active, BlockNumber, Geometry};

use crate::staging::staged::Staged;
use crate::staging::work::Work;
use crate::stats::GatherStats;
use crate::threads::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};

/// Several transactions that commit as one.
#[derive(Debug)]
pub(crate) struct Batch {
    /// What lies in ordinary memory. Of a block that is active too, it is newer.
    pub(crate) staged: Staged,
    /// What lies in slots of the lane, and is named by no record yet.
    pub(crate) active: BTreeMap<BlockNumber, Active>,
    /// Blocks in ordinary memory that are active too.
    pub(crate) both: usize,
    /// Blocks in ordinary memory that are sure to go home, so that its record has their names
    /// alone.
    pub(crate) homeward: BTreeSet<BlockNumber>,
    /// What its record takes at worst, in this lane.
    pub(crate) lane: LaneNumber,
    pub(crate) reserved_bytes: u64,
    /// Blocks of the disk-side log for it, and whether those bytes suffice only with them.
    pub(crate) reserved_log: u32,
    pub(crate) bypasses: bool,
    /// Objects that it names.
    pub(crate) objects: u64,
    /// The note of each of its transactions.
    pub(crate) note: Option<[u64; 2]>,
    /// Transactions in it.
    pub(crate) transactions: u64,
    /// The host's time before the first of them.
    pub(crate) since: Duration,
}

impl Batch {
    pub(crate) fn new(block_bytes: usize) -> Self {
        Self {
            staged: Staged::new(block_bytes),
            active: BTreeMap::new(),
            both: 0,
            homeward: BTreeSet::new(),
            lane: LaneNumber(0),
            reserved_bytes: 0,
            reserved_log: 0,
            bypasses: false,
            objects: 0,
            note: None,
            transactions: 0,
            since: Duration::ZERO,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.transactions == 0
    }

    /// Whether it changes a block.
    pub(crate) fn has(&self, block: BlockNumber) -> bool {
        self.staged.has(block) || self.active.contains_key(&block)
    }

    /// How many blocks are in ordinary memory alone. Those that are active take no more in the
    /// record than their names.
    pub(crate) fn not_active(&self) -> usize {
        self.staged.count() - self.both
    }

    /// An empty one in the same memory.
    pub(crate) fn emptied(mut self) -> Self {
        self.staged.clear();
        Self { staged: self.staged, ..Self::new(0) }
    }
}

/// Whether the record of a batch may have been stored by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    Not,
    Perhaps,
}

/// What is gathered now.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) running: Batch,
    pub(crate) committing: Option<Arc<Batch>>,
    /// A batch that was committed, and whose memory the next one takes.
    pub(crate) spare: Option<Batch>,
    pub(crate) stats: GatherStats,
}

/// Everything about gathering.
#[derive(Debug)]
pub(crate) struct Gathering {
    gathered: Mutex<Gathered>,
    /// Held by the thread that commits what is gathered, with the memory for it.
    pub(crate) turn: Mutex<Box<Work>>,
    /// Whether anything is gathered. Most journals never ask further.
    pub(crate) is_there: AtomicBool,
    pub(crate) pacing: Pacing,
    pub(crate) block_bytes: usize,
    pub(crate) blocks_max: usize,
    /// The host's time in nanoseconds, as far as it has said, and the time of the last checkpoint.
    pub(crate) now: AtomicU64,
    pub(crate) checkpointed: AtomicU64,
    /// Whether the limit of a tick has ended the last one.
    pub(crate) was_cut: AtomicBool,
}

impl Gathering {
    pub(crate) fn new(geometry: &Geometry, pacing: Pacing, buffer_bytes: usize) -> Self {
        let block_bytes = geometry.block_size.bytes();
        let running = Batch::new(block_bytes);
        let stats = GatherStats::default();
        let gathered = Gathered { running, committing: None, spare: None, stats };
        Self {
            gathered: Mutex::new(gathered),
            turn: Mutex::new(Box::new(Work::new(LaneNumber(0), geometry))),
            is_there: AtomicBool::new(false),
            pacing,
            block_bytes,
            blocks_max: (buffer_bytes / block_bytes).max(1),
            now: AtomicU64::new(0),
            checkpointed: AtomicU64::new(0),
            was_cut: AtomicBool::new(false),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Gathered> {
        // Other code is asked for its answers before anything changes in here.
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything is gathered and not committed yet. The caller has locked the block that it
    /// asks about, so it sees what gathered that block before.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.is_there.load(Ordering::Acquire)
    }

    /// Whether the host has said what time it is, as far as this thread knows.
    pub(crate) fn was_ticked(&self) -> bool {
        self.now.load(Ordering::Relaxed) > 0
    }

    /// Whether anything with a note is gathered and not committed yet.
    pub(crate) fn is_noted(&self) -> bool {
        if !self.has_any() {
            return false;
        }
        let gathered = self.lock();
        let committing = gathered.committing.as_ref();
        gathered.running.note.is_some() || committing.is_some_and(|batch| batch.note.is_some())
    }

    /// Whether a block is gathered and not committed yet, for a caller that has locked it.
    pub(crate) fn has(&self, block: BlockNumber) -> bool {
        if !self.has_any() {
            return false;
        }
        let gathered = self.lock();
        let committing = gathered.committing.as_ref();
        gathered.running.has(block) || committing.is_some_and(|committing| committing.has(block))
    }

    /// Copies what is gathered of a block; returns whether the block is live then. `read_slot`
    /// copies what an active slot holds, and says whether that is still the block's.
    #[inline]
    pub(crate) fn read<E>(
        &self,
        block: BlockNumber,
        into: &mut [u8],
        read_slot: impl FnOnce(LaneNumber, &Active, Stored, &mut [u8]) -> Result<bool, E>,
    ) -> Result<Option<bool>, E> {
        if !self.is_there.load(Ordering::Acquire) {
            return Ok(None);
        }
        let gathered = self.lock();
        let committing = gathered.committing.as_deref();
        let both = [Some((&gathered.running, Stored::Not)), committing.zip(Some(Stored::Perhaps))];
        let batch = both.into_iter().flatten().find(|(batch, _)| batch.has(block));
        let Some((Batch { staged, active, lane, .. }, stored)) = batch else { return Ok(None) };
        // With the gathered blocks in hand: nothing changes an active slot meanwhile (G5).
        match (staged.image(block), active.get(&block)) {
            (Some(image), _) => pmem_sys::copy_block(into, image),
            (None, Some(active)) if !staged.has(block) => {
                return read_slot(*lane, active, stored, into).map(|is_it| is_it.then_some(true));
            }
            (None, _) => {
                into.fill(0);
                return Ok(Some(false));
            }
        }
        Ok(Some(true))
    }

    /// How many blocks of a lane's disk-side log the running transaction may need more than it has
    /// reserved.
    pub(crate) fn log_blocks_of_running(&self, lane: LaneNumber) -> u64 {
        if !self.has_any() {
            return 0;
        }
        let gathered = self.lock();
        let Batch { reserved_log, lane: its, .. } = gathered.running;
        let more = (gathered.running.not_active() as u64).saturating_sub(reserved_log.into());
        if its == lane { more } else { 0 }
    }

    pub(crate) fn stats(&self) -> GatherStats {
        let gathered = self.lock();
        let Batch { transactions, active, .. } = &gathered.running;
        let (waiting, active) = (*transactions, active.len() as u64);
        GatherStats { waiting, active, ..gathered.stats }
    }

    pub(crate) fn is_full(&self) -> bool {
        let gathered = self.lock();
        let staged = &gathered.running.staged;
        // The image of a block that is discarded stays until the commit.
        staged.count() >= self.blocks_max || staged.images() >= self.blocks_max.saturating_mul(2)
    }

    /// Whether the memory is so full that spilling the rest again and again costs more than a
    /// commit. A spill that moves nothing leaves images of discarded blocks there.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let gathered = self.lock();
        let staged = &gathered.running.staged;
        staged.count() > self.blocks_max / 2 || staged.images() > self.blocks_max
    }

    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.now.load(Ordering::Relaxed))
    }
}
