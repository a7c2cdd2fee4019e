//! A trace through a journal on plain memory, counted.
//!
//! One owner, one lane, one transaction of the trace per commit, each durable when it returns. The
//! lane is reclaimed and written home by the policy's thresholds, and once more at the end; then
//! the disk has to hold what the trace says.

use core::fmt;
use core::num::NonZeroU32;
use std::io::Read;

use journal_core::policy::{Change, Class, Kind, Update};
use journal_core::units::LaneNumber;
use journal_core::{
    Batched, BlockNumber, BlockSize, CommitError, Durability, Entry, Geometry, GeometryError, Hook,
    Journal, JournalError, JournalMemory, LaneSlot, Needs, Node, OpenError, Operation, PmemSplit,
    Policy as _, Protocol, SlotState,
};
use pmem_sys::NativeKernels;

use crate::count::{Counter, Records, Written};
use crate::media::{DiskCounts, PlainDisk, PlainNvm};
use crate::policies::{Changed, Chosen, Known};
use crate::trace::{State, Trace, TraceError, Write, class};

/// Blocks that a batch of a checkpoint holds, and that a write of it merges at most.
const BATCH_BLOCKS: usize = 1024;
const RUN_BLOCKS: usize = 64;
const SHIELD_BLOCKS: u32 = 64;
/// Frames of the smallest size that an index has room for, by the bytes of a lane.
const BYTES_PER_FRAME: u64 = 64;

pub(crate) const LANE: LaneNumber = LaneNumber(0);

/// Why a replay came to no end.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum ReplayError {
    Trace(TraceError),
    Geometry(GeometryError),
    Open(OpenError),
    Commit {
        transaction: u64,
        error: CommitError,
    },
    Journal(JournalError),
    /// The disk does not hold what the trace ends with.
    Wrong {
        block: BlockNumber,
    },
    /// A record was not what the format says.
    Miscounted {
        counted: u64,
        written: u64,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Geometry(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Commit { transaction, error } => write!(f, "transaction {transaction}: {error}"),
            Self::Journal(error) => error.fmt(f),
            Self::Wrong { block } => write!(f, "{block} is not home as the trace has it"),
            Self::Miscounted { counted, written } => {
                write!(f, "records of {counted} bytes are {written} bytes long")
            }
        }
    }
}

impl core::error::Error for ReplayError {}

/// What a trace cost under a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) transactions: u64,
    /// Those that changed something.
    pub(crate) records: u64,
    /// Blocks written by the trace.
    pub(crate) updates: u64,
    pub(crate) placed: Records,
    pub(crate) commits: Written,
    pub(crate) upkeep: Written,
    pub(crate) disk: DiskCounts,
    pub(crate) checkpoints: u64,
    /// Reclaims inside the lane, and the bytes that they copied.
    pub(crate) reclaims: u64,
    pub(crate) copied: u64,
    /// Blocks that went through the shield on their way home.
    pub(crate) shielded: u64,
    pub(crate) bound: u64,
}

/// What framing may add to the bound: a tenth of it, and so much for a frame and for a record.
const FRAME_ALLOWANCE: u64 = 24;
const RECORD_ALLOWANCE: u64 = 128;

impl Figures {
    /// Updates that changed nothing.
    pub(crate) const fn unchanged(&self) -> u64 {
        self.updates - self.placed.frames()
    }

    /// What the bound allows, framing and padding included.
    pub(crate) const fn allowed(&self) -> u64 {
        let framing = self.placed.frames() * FRAME_ALLOWANCE + self.records * RECORD_ALLOWANCE;
        self.bound + self.bound / 10 + framing
    }

    pub(crate) const fn holds(&self) -> bool {
        self.commits.bytes <= self.allowed()
    }
}

/// An update as the store would say it.
pub(crate) fn operation<'a>(write: &'a Write, old: &'a [u8]) -> Operation<'a> {
    let change = Change::Image(&write.image);
    let mut update = Update::new(BlockNumber(write.block), change);
    let is_data = write.class == class::FILE_DATA || write.class >= class::SQLITE;
    update.class = if is_data { Class::Data } else { Class::Metadata };
    update.kind = if write.is_new() { Kind::Append } else { Kind::Overwrite };
    update.old = Some(old);
    update.object_bytes = NonZeroU32::new(write.object_bytes.into());
    Operation::Update(update)
}

/// The operations of a transaction on a state that has all its blocks.
pub(crate) fn operations<'a>(writes: &'a [Write], state: &'a State) -> Vec<Operation<'a>> {
    writes.iter().map(|write| operation(write, &state[&write.block])).collect()
}

/// A journal of one lane or more.
pub(crate) const fn geometry(block_size: BlockSize, lanes: u16, lane_bytes: u64) -> Geometry {
    Geometry {
        block_size,
        lanes,
        lane_bytes,
        shield_blocks: SHIELD_BLOCKS,
        unit_bytes: 256,
        protocol: Protocol::OneFence,
        lane_slots: 0,
    }
}

/// A journal's memory, owned.
pub(crate) struct Memory<P, H> {
    lanes: Vec<LaneSlot<P, H>>,
    entries: Vec<Entry>,
    nodes: Vec<Node>,
    batch: Vec<Batched>,
    front: Vec<u8>,
    encoded: Vec<u8>,
    blocks: Vec<u8>,
    slots: Vec<SlotState>,
}

impl<P: PmemSplit, H: Hook + Clone> Memory<P, H> {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let frames = geometry.lane_bytes * u64::from(geometry.lanes) / BYTES_PER_FRAME;
        let needs = Needs::of(geometry, usize::try_from(frames).expect("lanes fit into memory"));
        Self {
            lanes: (0..needs.lanes).map(|_| LaneSlot::EMPTY).collect(),
            entries: vec![Entry::EMPTY; needs.entries],
            nodes: vec![Node::EMPTY; needs.nodes],
            batch: vec![Batched::EMPTY; BATCH_BLOCKS],
            front: vec![0; needs.front_bytes],
            encoded: vec![0; needs.encoded_bytes],
            blocks: vec![0; RUN_BLOCKS * needs.blocks_bytes],
            slots: vec![SlotState::EMPTY; needs.slots],
        }
    }

    pub(crate) fn lend(&mut self) -> JournalMemory<'_, P, H> {
        JournalMemory {
            lanes: &mut self.lanes,
            entries: &mut self.entries,
            nodes: &mut self.nodes,
            batch: &mut self.batch,
            front: &mut self.front,
            encoded: &mut self.encoded,
            blocks: &mut self.blocks,
            slots: &mut self.slots,
        }
    }
}

type Opened<'m> = Journal<'m, PlainNvm, PlainDisk, Chosen, Counter, NativeKernels>;

/// A journal and the account that is kept of it.
struct Replay<'m> {
    journal: Opened<'m>,
    counter: Counter,
    known: &'m Known,
    figures: Figures,
    /// Bytes of the lane in use.
    used: u64,
}

/// Replays a trace under a policy.
pub(crate) fn replay<R: Read>(
    trace: &mut Trace<R>,
    known: &Known,
    lane_bytes: u64,
    mut progress: impl FnMut(f64),
) -> Result<Figures, ReplayError> {
    let (block_size, blocks) = (trace.header().block_size, trace.header().device_blocks);
    let geometry = geometry(block_size, 1, lane_bytes);
    geometry.check().map_err(ReplayError::Geometry)?;
    let disk = PlainDisk::new(block_size, blocks, trace.state());
    let counter = Counter::new(block_size.bytes());
    let kernels = NativeKernels::detect();
    let span = geometry.span_bytes().and_then(|bytes| usize::try_from(bytes).ok());
    let mut nvm = PlainNvm::new(span.expect("the geometry was checked"));
    let id = *b"a replayed trace";
    journal_core::format(
        &mut nvm,
        journal_core::NoHook,
        &kernels,
        &geometry,
        id,
        &known.policy,
        blocks,
    )
    .map_err(ReplayError::Open)?;
    let mut memory = Memory::new(&geometry);
    let (hook, policy) = (counter.clone(), known.policy);
    let journal = Journal::open(nvm, disk.clone(), policy, hook, kernels, memory.lend());
    let journal = journal.map_err(ReplayError::Open)?;
    let figures = Figures::default();
    let mut replay = Replay { journal, counter, known, figures, used: 0 };
    while trace.advance().map_err(ReplayError::Trace)? {
        let transaction = trace.transaction();
        let error = |error| ReplayError::Commit { transaction: transaction.number, error };
        replay.commit(&transaction.writes, trace.state(), error)?;
        progress(trace.progress());
    }
    replay.finish(&disk, trace.state())
}

impl Replay<'_> {
    fn commit(
        &mut self,
        writes: &[Write],
        state: &State,
        refused: impl Fn(CommitError) -> ReplayError,
    ) -> Result<(), ReplayError> {
        self.figures.transactions += 1;
        self.figures.updates += writes.len() as u64;
        self.figures.bound += writes.iter().map(|write| self.bound(write, state)).sum::<u64>();
        let operations = operations(writes, state);
        let before = self.counter.commits().bytes;
        let mut result = self.journal.commit(LANE, &operations, Durability::Durable);
        if let Err(CommitError::NoSpace { .. } | CommitError::IndexFull { .. }) = result {
            self.checkpoint()?;
            result = self.journal.commit(LANE, &operations, Durability::Durable);
        }
        match result {
            Ok(_) => self.figures.records += 1,
            Err(CommitError::Unchanged) => return Ok(()),
            Err(error) => return Err(refused(error)),
        }
        self.used += self.counter.commits().bytes - before;
        self.make_room()
    }

    fn bound(&self, write: &Write, state: &State) -> u64 {
        let (old, new) = (&*state[&write.block], &*write.image);
        if old == new {
            return 0;
        }
        let object_bytes = write.object_bytes.into();
        self.known.bound.bytes(&Changed { old, new, object_bytes, is_append: write.is_new() })
    }

    /// Whether more of the lane is in use than a threshold says, in 256ths.
    fn is_above(&self, threshold: u8) -> bool {
        let capacity = self.journal.geometry().lane_bytes;
        self.used * 256 >= capacity * u64::from(threshold)
    }

    fn make_room(&mut self) -> Result<(), ReplayError> {
        let thresholds = self.known.policy.thresholds();
        while self.is_above(thresholds.reclaim_at) {
            let report = self.journal.relog(LANE).map_err(ReplayError::Journal)?;
            if report.freed_bytes == 0 {
                break;
            }
            self.figures.reclaims += 1;
            self.figures.copied += report.copied_bytes;
            self.used = self.used + report.copied_bytes - report.freed_bytes;
        }
        if self.is_above(thresholds.checkpoint_at) {
            self.checkpoint()?;
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), ReplayError> {
        let report = self.journal.checkpoint().map_err(ReplayError::Journal)?;
        self.figures.checkpoints += 1;
        self.figures.shielded += report.shielded;
        self.used -= report.freed_bytes;
        Ok(())
    }

    /// Writes home what is left, and looks whether all of it is there.
    fn finish(mut self, disk: &PlainDisk, state: &State) -> Result<Figures, ReplayError> {
        self.checkpoint()?;
        self.journal.close().map_err(ReplayError::Journal)?;
        if let Some(block) = disk.differs_from(state) {
            return Err(ReplayError::Wrong { block });
        }
        let mut figures = self.figures;
        figures.placed = self.counter.records();
        figures.commits = self.counter.commits();
        figures.upkeep = self.counter.upkeep();
        figures.disk = disk.counts();
        let Records { payload, headers, padding, .. } = figures.placed;
        let (counted, written) = (payload + headers + padding, figures.commits.bytes);
        if counted != written {
            return Err(ReplayError::Miscounted { counted, written });
        }
        Ok(figures)
    }
}
