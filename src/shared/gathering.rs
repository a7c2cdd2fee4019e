//! What is gathered, before it commits as one record.

use core::time::Duration;
use std::sync::{Arc, PoisonError};

use journal_core::parts::Operations;
use journal_core::policy::Pacing;
use journal_core::units::LaneNumber;
use journal_core::{BlockNumber, Geometry};

use crate::staging::staged::Staged;
use crate::staging::work::Work;
use crate::stats::GatherStats;
use crate::threads::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};

/// Several transactions that commit as one.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) staged: Staged,
    /// What its record takes at worst, in this lane.
    pub(crate) lane: LaneNumber,
    pub(crate) reserved_bytes: u64,
    /// Objects that it names.
    pub(crate) objects: u64,
    /// Transactions in it.
    pub(crate) transactions: u64,
    /// The host's time before the first of them.
    pub(crate) since: Duration,
}

impl Batch {
    pub(crate) fn new(block_bytes: usize) -> Self {
        Self {
            staged: Staged::new(block_bytes),
            lane: LaneNumber(0),
            reserved_bytes: 0,
            objects: 0,
            transactions: 0,
            since: Duration::ZERO,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.transactions == 0
    }

    /// An empty one in the same memory.
    pub(crate) fn emptied(mut self) -> Self {
        self.staged.clear();
        Self { staged: self.staged, ..Self::new(0) }
    }
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

    /// Whether a block is gathered and not committed yet, for a caller that has locked it.
    pub(crate) fn has(&self, block: BlockNumber) -> bool {
        if !self.has_any() {
            return false;
        }
        let gathered = self.lock();
        let committing = gathered.committing.as_ref();
        gathered.running.staged.has(block)
            || committing.is_some_and(|committing| committing.staged.has(block))
    }

    /// Copies what is gathered of a block; returns whether the block is live then.
    #[inline]
    pub(crate) fn read(&self, block: BlockNumber, into: &mut [u8]) -> Option<bool> {
        if !self.is_there.load(Ordering::Acquire) {
            return None;
        }
        let gathered = self.lock();
        let committing = gathered.committing.as_ref().map(|committing| &committing.staged);
        let both = [Some(&gathered.running.staged), committing];
        let staged = both.into_iter().flatten().find(|staged| staged.has(block))?;
        match staged.image(block) {
            Some(image) => pmem_sys::copy_block(into, image),
            None => into.fill(0),
        }
        Some(staged.image(block).is_some())
    }

    pub(crate) fn stats(&self) -> GatherStats {
        let gathered = self.lock();
        GatherStats { waiting: gathered.running.transactions, ..gathered.stats }
    }

    pub(crate) fn is_full(&self) -> bool {
        let gathered = self.lock();
        let staged = &gathered.running.staged;
        // The image of a block that is discarded stays until the commit.
        staged.count() >= self.blocks_max || staged.images() >= self.blocks_max.saturating_mul(2)
    }

    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.now.load(Ordering::Relaxed))
    }
}
