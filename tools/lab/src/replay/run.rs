//! A trace through a journal on plain memory, counted.
//!
//! One owner, one lane, one transaction of the trace per commit, each durable when it returns. The
//! lane and its slots are reclaimed and written home by the policy's thresholds (`room.rs`), and
//! once more at the end; then the disk has to hold what the trace says.

use core::fmt;
use core::num::NonZeroU32;
use std::io::Read;

use adaptive::Form;
use journal_core::Buffers;
use journal_core::policy::{Change, Class, Kind, Update};
use journal_core::slot::SlotEntry;
use journal_core::units::{LINE_BYTES, LaneNumber};
use journal_core::{
    BlockDevice as _, BlockNumber, BlockSize, CommitError, Durability, Geometry, GeometryError,
    Journal, JournalError, On, OpenError, Operation, Protocol,
};
use pmem_sys::NativeKernels;

use crate::bounds::deltas::{BETWEEN_BYTES, Overwrites};
use crate::bounds::{Bound, Changed, Cost};
use crate::replay::count::{Account, Counter, Framed, Place, Records};
use crate::replay::media::{DiskCounts, PlainDisk, PlainNvm};
use crate::replay::policies::{Chosen, Known, Role};
use crate::trace::versions::Versions;
use crate::trace::{State, Trace, TraceError, Write};

/// Blocks that a batch of a checkpoint holds, and that a write of it merges at most.
const BATCH_BLOCKS: usize = 1024;
const RUN_BLOCKS: usize = 64;
const SHIELD_BLOCKS: u32 = 64;
/// Frames of the smallest size that an index has room for, by the bytes of a lane: those of
/// objects, and those that name slots or the shortest deltas.
const BYTES_PER_FRAME: u64 = 64;
const BYTES_PER_SHORT_FRAME: u64 = 32;

pub const LANE: LaneNumber = LaneNumber(0);

/// Why a replay came to no end.
#[derive(Debug)]
pub enum ReplayError {
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
    /// Slots were freed, or not, that should not have been, or should.
    Misfreed {
        freed: u64,
        expected: u64,
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
            Self::Misfreed { freed, expected } => {
                write!(f, "{freed} slots became free, and should have been {expected}")
            }
        }
    }
}

impl core::error::Error for ReplayError {}

/// What a trace cost under a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub transactions: u64,
    /// Those that changed something.
    pub records: u64,
    /// Blocks written by the trace.
    pub updates: u64,
    pub placed: Records,
    pub nvm: Account,
    pub disk: DiskCounts,
    /// Of that, what commits wrote to the disk's log.
    pub log: DiskCounts,
    /// Of the blocks written to the disk, those that were when the trace had ended.
    pub disk_at_end: u64,
    pub made: Made,
    pub bound: Cost,
    /// Forms that deltas have, where they say it.
    pub forms: Forms,
    /// Nanoseconds of encoding, by the policies' model.
    pub coding_ns: u64,
    /// What coders make of the updates, where the policy is one of them.
    pub overwrites: Overwrites,
    /// What a block journal on the disk writes.
    pub block_journal_blocks: u64,
    pub block_bytes: u64,
}

/// The forms of deltas: how many there are of each, and how long they all are without what says
/// between which images they lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forms {
    /// By the byte that says it; zero for all others.
    pub counts: [u64; 7],
    pub bytes: u64,
}

impl Forms {
    fn add(&mut self, first: u8, bytes: u64) {
        let place = Form::of(&[first]).map_or(0, |form| form as usize);
        self.counts[place] += 1;
        self.bytes += bytes.saturating_sub(BETWEEN_BYTES);
    }

    pub fn of(&self, form: Form) -> u64 {
        self.counts[form as usize]
    }
}

/// Blocks that a block journal writes for `writes` blocks: these, a descriptor for each 254 of
/// them, and a commit.
const fn block_journal_blocks(writes: u64) -> u64 {
    writes + writes.div_ceil(254) + 1
}

/// How room was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Everything home.
    pub checkpoints: u64,
    /// What rings would have to keep, home.
    pub ring_checkpoints: u64,
    /// Batches of slots that went home.
    pub evictions: u64,
    pub folds: u64,
    /// Older versions given up.
    pub collections: u64,
    /// Segments of the disk-side log that were cleaned.
    pub cleanings: u64,
    /// Reclaims inside the lane, and the bytes that they copied.
    pub reclaims: u64,
    pub copied: u64,
    /// Blocks that went through the shield on their way home.
    pub shielded: u64,
}

/// What framing may add to the bound: a tenth of it, and so much for a frame and for a record.
const FRAME_ALLOWANCE: u64 = 24;
const RECORD_ALLOWANCE: u64 = 128;

impl Figures {
    /// Updates that changed nothing. What a trace gives up is not known: a discard belongs to a
    /// block that goes home.
    pub const fn unchanged(&self) -> u64 {
        self.updates - (self.placed.frames() - self.placed.discards)
    }

    /// What the bound allows, framing and padding included.
    pub const fn allowed(&self) -> u64 {
        let framing = self.placed.frames() * FRAME_ALLOWANCE + self.records * RECORD_ALLOWANCE;
        self.bound.bytes + self.bound.bytes / 10 + framing
    }

    /// Versions that were rewritten in a slot, as far as they differ.
    pub const fn rewritten(&self) -> u64 {
        self.placed.slots.saturating_sub(self.nvm.whole_slots)
    }

    pub const fn holds(&self) -> bool {
        self.nvm.commits().bytes <= self.allowed() && self.log.blocks <= self.bound.log_blocks
    }

    /// Bytes of all lines that commits flushed or streamed, which is how memory is written.
    pub const fn line_bytes(&self) -> u64 {
        self.nvm.commits().lines * LINE_BYTES as u64
    }

    pub const fn holds_in_lines(&self) -> bool {
        self.line_bytes() <= self.allowed()
    }
}

/// An update as the store would say it.
pub fn operation<'a>(write: &'a Write, old: &'a [u8]) -> Operation<'a> {
    let change = Change::Image(&write.image);
    let mut update = Update::new(BlockNumber(write.block), change);
    update.class = if write.is_data() { Class::Data } else { Class::Metadata };
    update.kind = if write.is_new() { Kind::Append } else { Kind::Overwrite };
    update.old = Some(old);
    update.object_bytes = NonZeroU32::new(write.object_bytes.into());
    Operation::Update(update)
}

/// The operations of a transaction on a state that has all its blocks.
pub fn operations<'a>(writes: &'a [Write], state: &'a State) -> Vec<Operation<'a>> {
    writes.iter().map(|write| operation(write, &state[&write.block])).collect()
}

/// A journal of one lane or more.
pub const fn geometry(
    block_size: BlockSize,
    lanes: u16,
    lane_bytes: u64,
    lane_slots: u32,
) -> Geometry {
    Geometry {
        block_size,
        lanes,
        lane_bytes,
        shield_blocks: SHIELD_BLOCKS,
        unit_bytes: 256,
        protocol: Protocol::OneFence,
        lane_slots,
        lane_log_blocks: 0,
        segment_blocks: 0,
    }
}

/// The persistent memory of a lane, and its blocks on the disk: the same for every policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub lane_bytes: u64,
    /// The share of it that slots have, with their entries, in 256ths, where a policy needs them.
    pub slot_share: u64,
    /// Blocks of the disk-side log, and of a segment of it, where a policy wants one. Their entries
    /// are in the lane's bytes too.
    pub log_blocks: u32,
    pub segment_blocks: u32,
}

impl Room {
    /// How a policy has it: a ring alone, or a ring and slots, or the disk-side log's entries.
    pub fn geometry(&self, block_size: BlockSize, known: &Known) -> Geometry {
        let each = (block_size.bytes() + size_of::<SlotEntry>()) as u64;
        let slots = self.lane_bytes / 256 * self.slot_share.min(256) / each;
        let slots = if known.has_slots { u32::try_from(slots).unwrap_or(u32::MAX) } else { 0 };
        let mut all = geometry(block_size, 1, 0, slots);
        if known.has_log() {
            (all.lane_log_blocks, all.segment_blocks) = (self.log_blocks, self.segment_blocks);
        }
        let ring = self.lane_bytes.saturating_sub(all.slots_bytes() + all.entries_bytes());
        Geometry { lane_bytes: ring - ring % LINE_BYTES as u64, ..all }
    }
}

/// A journal's memory.
pub fn memory<P, H>(geometry: &Geometry, known: &Known) -> Buffers<P, H> {
    let least = if known.has_short_frames() { BYTES_PER_SHORT_FRAME } else { BYTES_PER_FRAME };
    let frames = geometry.lane_bytes * u64::from(geometry.lanes) / least + geometry.slots();
    let frames = usize::try_from(frames).expect("lanes fit into memory");
    Buffers::new(geometry, frames, BATCH_BLOCKS).run_blocks(RUN_BLOCKS, geometry)
}

type Opened<'m> = Journal<'m, Chosen, On<PlainNvm, PlainDisk, Counter, NativeKernels>>;

/// A journal and the account that is kept of it.
pub struct Replay<'m> {
    pub journal: Opened<'m>,
    pub counter: Counter,
    pub known: &'m Known,
    pub figures: Figures,
    pub bound: Box<dyn Bound>,
    /// Bytes of the lane in use.
    pub used: u64,
    /// Slots in use, and whose they are.
    pub versions: Versions<()>,
    /// Slots that the journal has freed, and that it should have.
    pub freed: u64,
    pub to_be_freed: u64,
}

/// Replays a trace under a policy.
pub fn replay<R: Read>(
    trace: &mut Trace<R>,
    known: &Known,
    room: &Room,
    mut progress: impl FnMut(f64),
) -> Result<Figures, ReplayError> {
    let (block_size, blocks) = (trace.header().block_size, trace.header().device_blocks);
    let geometry = room.geometry(block_size, known);
    geometry.check().map_err(ReplayError::Geometry)?;
    let disk = PlainDisk::new(block_size, blocks + geometry.log_blocks(), trace.state());
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
    let mut memory = memory(&geometry, known);
    let (hook, policy) = (counter.clone(), known.policy);
    let journal = Journal::open(nvm, disk.clone(), policy, hook, kernels, memory.borrow());
    let journal = journal.map_err(ReplayError::Open)?;
    let mut replay = Replay::new(journal, counter, known);
    while trace.advance().map_err(ReplayError::Trace)? {
        let transaction = trace.transaction();
        let error = |error| ReplayError::Commit { transaction: transaction.number, error };
        replay.commit(&transaction.writes, trace.state(), error)?;
        progress(trace.progress());
    }
    replay.finish(&disk, trace.state())
}

impl<'m> Replay<'m> {
    fn new(journal: Opened<'m>, counter: Counter, known: &'m Known) -> Self {
        Self {
            journal,
            counter,
            known,
            figures: Figures::default(),
            bound: (known.bound)(),
            used: 0,
            versions: Versions::new(),
            freed: 0,
            to_be_freed: 0,
        }
    }

    fn commit(
        &mut self,
        writes: &[Write],
        state: &State,
        refused: impl Fn(CommitError) -> ReplayError,
    ) -> Result<(), ReplayError> {
        self.figures.transactions += 1;
        self.figures.updates += writes.len() as u64;
        self.figures.block_journal_blocks += block_journal_blocks(writes.len() as u64);
        self.make_room(writes.len() as u64)?;
        let operations = operations(writes, state);
        let before = self.counter.account().records.bytes;
        let block_bytes = self.journal.geometry().block_size.bytes();
        let mut result = self.journal.commit(LANE, &operations, Durability::Durable);
        if let Err(CommitError::NoSpace { .. } | CommitError::IndexFull { .. }) = result {
            self.empty_lane()?;
            result = self.journal.commit(LANE, &operations, Durability::Durable);
        }
        // Behind what was given up for it.
        for write in writes {
            let cost = self.bound(write, state);
            self.figures.bound += cost;
            self.measure(write, &state[&write.block]);
        }
        match result {
            Ok(_) => self.figures.records += 1,
            Err(CommitError::Unchanged) => return Ok(()),
            Err(error) => return Err(refused(error)),
        }
        self.used += self.counter.account().records.bytes - before;
        let coding = self.known.coding;
        for framed in self.counter.take_framed() {
            let Framed { block, place } = framed;
            self.figures.coding_ns += coding.of_frame(place, block_bytes);
            match place {
                Place::Slot => drop(self.versions.write(block, ())),
                Place::Log => self.versions.write_logged(block, ()),
                Place::Elsewhere => self.versions.write_elsewhere(block),
                Place::Encoded { first, bytes } if coding.says_forms() => {
                    self.figures.forms.add(first, bytes);
                }
                Place::Encoded { .. } => {}
            }
            let write = writes.iter().find(|write| write.block == block && !write.is_new());
            if write.is_some() && self.known.role == Role::LeastBytes {
                self.figures.overwrites.logged += match place {
                    Place::Encoded { bytes, .. } => bytes - BETWEEN_BYTES,
                    _ => block_bytes as u64,
                };
            }
        }
        self.make_room(0)
    }

    /// What is known of an update whatever is logged of it.
    fn measure(&mut self, write: &Write, old: &[u8]) {
        self.figures.coding_ns += self.known.coding.of_update(&operation(write, old));
        if !write.is_new() && self.known.role == Role::LeastBytes {
            self.figures.overwrites += Overwrites::of(old, &write.image);
        }
    }

    fn bound(&mut self, write: &Write, state: &State) -> Cost {
        let (block, object_bytes) = (write.block, write.object_bytes.into());
        let (old, new) = (&*state[&block], &write.image);
        let (is_append, is_data) = (write.is_new(), write.is_data());
        self.bound.cost(&Changed { block, old, new, object_bytes, is_append, is_data })
    }

    /// Writes home what is left, and looks whether all of it is there.
    fn finish(mut self, disk: &PlainDisk, state: &State) -> Result<Figures, ReplayError> {
        let before = disk.counts().blocks;
        self.checkpoint()?;
        self.journal.close().map_err(ReplayError::Journal)?;
        if let Some(block) = disk.differs_from(state) {
            return Err(ReplayError::Wrong { block });
        }
        let mut figures = self.figures;
        figures.placed = self.counter.records();
        figures.nvm = self.counter.account();
        figures.disk = disk.counts();
        figures.log = self.counter.log();
        figures.block_bytes = disk.block_size().bytes() as u64;
        figures.disk_at_end = figures.disk.blocks - before;
        let Records { payload, headers, padding, .. } = figures.placed;
        let (counted, written) = (payload + headers + padding, figures.nvm.records.bytes);
        if counted != written {
            return Err(ReplayError::Miscounted { counted, written });
        }
        Ok(figures)
    }
}
