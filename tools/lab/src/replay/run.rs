//! A trace through the front door of a journal on plain memory, counted.
//!
//! One thread commits each transaction of the trace in one call, durable when it returns, into one
//! lane. Behind each it ticks, as a host does that has no thread for the upkeep: the journal makes
//! room by the policy's thresholds. When the trace has ended, every block is read through the
//! journal. Then the rings are emptied, and then everything goes home. The disk has to hold what
//! the trace says.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;
use std::io::Read;

use adaptive::Form;
use journal_core::policy::{Change, Class, Kind, Thresholds, Update};
use journal_core::units::LINE_BYTES;
use journal_core::{BlockDevice as _, BlockNumber, Durability, Operation};
use nvm_journal::{Error, Options, Region, Stats};

use crate::bounds::Place;
use crate::bounds::deltas::{BETWEEN_BYTES, Overwrites};
use crate::bounds::{Bound, Changed, Cost};
use crate::erased::{DynDisk, DynHook, DynJournal, DynPmem, DynPolicy, any_options};
use crate::replay::count::{Account, Counter, Framed, Records};
use crate::replay::media::{DiskCounts, PlainDisk};
use crate::replay::policies::{Known, Role};
use crate::trace::{State, Trace, TraceError, Write};

/// Why a replay came to no end.
#[derive(Debug)]
pub enum ReplayError {
    Trace(TraceError),
    Region(pmem_sys::MapError),
    Format(Error),
    Commit {
        transaction: u64,
        error: Error,
    },
    Journal(Error),
    /// The journal does not read what the trace ends with, or the disk does not hold it.
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
            Self::Region(error) => error.fmt(f),
            Self::Format(error) => error.fmt(f),
            Self::Commit { transaction, error } => write!(f, "transaction {transaction}: {error}"),
            Self::Journal(error) => error.fmt(f),
            Self::Wrong { block } => write!(f, "{block} is not as the trace has it"),
            Self::Miscounted { counted, written } => {
                write!(f, "records of {counted} bytes are {written} bytes long")
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
    /// All that the disk was asked for. The last checkpoint takes everything home.
    pub disk: DiskCounts,
    /// Of that, what was by the time when the trace had ended.
    pub disk_meanwhile: DiskCounts,
    /// And when the rings had been emptied behind it, which is a checkpoint of a policy that keeps
    /// content in slots or in the disk-side log.
    pub disk_with_rings: DiskCounts,
    /// What commits wrote to the disk's log, and what was moved there.
    pub log: DiskCounts,
    pub moved: DiskCounts,
    pub made: Made,
    /// Lines that were stored in each part of the memory, as the journal says.
    pub wear: Wear,
    /// Whether slots were written whole only where they had to be.
    pub whole_is_needed: bool,
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

/// How room was made, as the journal says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Checkpoints of any kind, and the batches that they wrote home.
    pub checkpoints: u64,
    pub batches: u64,
    /// Blocks that went home in them.
    pub home: u64,
    /// Frames that entries of slots say by now.
    pub folded: u64,
    /// Slots that came free without the disk, and by checkpoints.
    pub freed_slots: u64,
    pub homed_slots: u64,
    /// Blocks that were moved to the disk-side log.
    pub moved: u64,
    /// Blocks that were copied in persistent memory.
    pub copied: u64,
    /// Blocks that went through the shield on their way home.
    pub shielded: u64,
    /// How often a transaction had to stop, for whatever reason.
    pub stops: u64,
}

impl Made {
    fn of(stats: &Stats) -> Self {
        let Stats { checkpoints, checkpointed, folded, moved, copied, .. } = stats;
        Self {
            checkpoints: *checkpoints,
            batches: checkpointed.batches,
            home: checkpointed.blocks,
            folded: folded.folded,
            freed_slots: folded.freed_slots,
            homed_slots: checkpointed.freed_slots,
            moved: *moved,
            copied: *copied,
            shielded: checkpointed.shielded,
            stops: stats.stops(),
        }
    }
}

/// Lines that were stored, by what lies there and in which of up to sixteen parts of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    pub ring: [u64; 16],
    pub slots: [u64; 16],
    pub entries: [u64; 16],
    pub shield: [u64; 16],
}

impl Wear {
    fn of(stats: &Stats) -> Self {
        let total = stats.total();
        Self {
            ring: total.ring_wear,
            slots: total.slot_wear,
            entries: total.entry_wear,
            shield: stats.shield_wear,
        }
    }
}

/// Framing may add to the bound a tenth of it, and this many bytes for each frame.
const FRAME_ALLOWANCE: u64 = 24;
/// The bytes that framing may add for each record.
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
        self.nvm.commits().bytes <= self.allowed()
            && self.log.blocks <= self.bound.log_blocks
            && self.whole_is_needed
    }

    /// Bytes of all lines that commits flushed or streamed, which is how memory is written.
    pub const fn line_bytes(&self) -> u64 {
        self.nvm.commits().lines * LINE_BYTES as u64
    }

    pub const fn holds_in_lines(&self) -> bool {
        self.line_bytes() <= self.allowed()
    }
}

/// An update as the store would say it. Its blocks begin at one of the device.
pub fn operation<'a>(write: &'a Write, old: &'a [u8], first: u64) -> Operation<'a> {
    let change = Change::Image(&write.image);
    let mut update = Update::new(BlockNumber(first + write.block), change);
    update.class = if write.is_data() { Class::Data } else { Class::Metadata };
    update.kind = if write.is_new() { Kind::Append } else { Kind::Overwrite };
    update.old = Some(old);
    update.object_bytes = NonZeroU32::new(write.object_bytes.into());
    Operation::Update(update)
}

/// The operations of a transaction on a state that has all its blocks.
pub fn operations<'a>(writes: &'a [Write], state: &'a State, first: u64) -> Vec<Operation<'a>> {
    writes.iter().map(|write| operation(write, &state[&write.block], first)).collect()
}

/// What a journal has for a trace: the same for every policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of persistent memory, with slots, shield and superblocks.
    pub nvm_bytes: u64,
    /// Blocks of the disk-side log, and of a segment of it, where a policy wants one.
    pub log_blocks: u32,
    pub segment_blocks: u32,
    /// Frames in the index.
    pub index_frames: usize,
}

impl Room {
    /// A journal of one lane under a policy.
    pub fn options(&self, known: &Known, counter: &Counter) -> Options<DynPolicy, DynHook> {
        let mut options = any_options((known.policy)(), counter.clone()).lanes(1).relogs(true);
        if known.has_log() {
            options = options.lane_log_blocks(self.log_blocks).segment_blocks(self.segment_blocks);
        }
        if let Some((reclaim_at, checkpoint_at)) = known.thresholds {
            options = options.thresholds(Thresholds::new(reclaim_at, checkpoint_at));
        }
        options.index_frames(self.index_frames)
    }
}

/// A journal and the account that is kept of it.
pub struct Replay<'k> {
    journal: DynJournal,
    counter: Counter,
    known: &'k Known,
    figures: Figures,
    bound: Box<dyn Bound>,
}

/// Replays a trace under a policy.
pub fn replay<R: Read>(
    trace: &mut Trace<R>,
    known: &Known,
    room: &Room,
    mut progress: impl FnMut(f64),
) -> Result<Figures, ReplayError> {
    let (block_size, blocks) = (trace.header().block_size, trace.header().device_blocks);
    // The log lies behind the store.
    let log_blocks = if known.has_log() { room.log_blocks.into() } else { 0 };
    let disk = PlainDisk::new(block_size, blocks + log_blocks, trace.state());
    let counter = Counter::new(block_size.bytes());
    let options = room.options(known, &counter);
    let region = Region::anonymous(room.nvm_bytes).map_err(ReplayError::Region)?;
    let (nvm, on_disk) = (DynPmem::new(region), DynDisk::new(disk.clone()));
    let journal = DynJournal::format(nvm, on_disk, &options).map_err(ReplayError::Format)?;
    let (figures, bound) = (Figures::default(), (known.bound)());
    let mut replay = Replay { journal, counter, known, figures, bound };
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
        refused: impl Fn(Error) -> ReplayError,
    ) -> Result<(), ReplayError> {
        self.figures.transactions += 1;
        self.figures.updates += writes.len() as u64;
        self.figures.block_journal_blocks += block_journal_blocks(writes.len() as u64);
        let operations = operations(writes, state, 0);
        let committed = self.journal.commit(&operations, Durability::Durable).map_err(refused)?;
        let stored = self.counter.end_call(committed.is_some());
        self.figures.records += u64::from(committed.is_some());
        for write in writes {
            let place = stored.framed.iter().rev().find(|framed| framed.block == write.block);
            self.note(write, &state[&write.block], place.map(|framed| framed.place));
        }
        self.note_frames(&stored.framed, writes);
        // No clock comes with a trace, so nothing is due but room.
        self.journal.tick(Duration::ZERO).map_err(ReplayError::Journal)?;
        self.counter.end_call(false);
        Ok(())
    }

    /// Notes what the frames of a transaction are.
    fn note_frames(&mut self, framed: &[Framed], writes: &[Write]) {
        let block_bytes = self.journal.geometry().block_size.bytes();
        let coding = self.known.coding;
        for Framed { block, place } in framed {
            self.figures.coding_ns += coding.of_frame(*place, block_bytes);
            if let (Place::Encoded { first, bytes }, true) = (place, coding.says_forms()) {
                self.figures.forms.add(*first, *bytes);
            }
            let write = writes.iter().find(|write| write.block == *block && !write.is_new());
            if write.is_some() && self.known.role == Role::LeastBytes {
                self.figures.overwrites.logged += match place {
                    Place::Encoded { bytes, .. } => bytes - BETWEEN_BYTES,
                    _ => block_bytes as u64,
                };
            }
        }
    }

    /// Notes what is known of an update whatever is logged of it, and its bound.
    fn note(&mut self, write: &Write, old: &[u8], place: Option<Place>) {
        let (shield, update) =
            (self.journal.plan().geometry.shield_blocks, operation(write, old, 0));
        self.figures.coding_ns += self.known.coding.of_update(&update, shield);
        if !write.is_new() && self.known.role == Role::LeastBytes {
            self.figures.overwrites += Overwrites::of(old, &write.image);
        }
        let (block, object_bytes) = (write.block, write.object_bytes.into());
        let (is_append, is_data) = (write.is_new(), write.is_data());
        let new = &write.image;
        let changed = Changed { block, old, new, object_bytes, is_append, is_data, place };
        self.figures.bound += self.bound.cost(&changed);
    }

    /// Looks whether all is there, empties the rings, and writes home what is left.
    fn finish(mut self, disk: &PlainDisk, state: &State) -> Result<Figures, ReplayError> {
        self.figures.disk_meanwhile = disk.counts();
        let mut found = vec![0; disk.block_size().bytes()];
        for (block, image) in state {
            let block = BlockNumber(*block);
            self.journal.read(block, &mut found).map_err(ReplayError::Journal)?;
            if *found != **image {
                return Err(ReplayError::Wrong { block });
            }
        }
        let _ = self.journal.checkpoint_rings().map_err(ReplayError::Journal)?;
        self.figures.disk_with_rings = disk.counts();
        let _ = self.journal.checkpoint().map_err(ReplayError::Journal)?;
        let stats = self.journal.stats().map_err(ReplayError::Journal)?;
        self.figures.made = Made::of(&stats);
        self.figures.wear = Wear::of(&stats);
        self.journal.close().map_err(ReplayError::Journal)?;
        self.counter.end_call(false);
        if let Some(block) = disk.differs_from(state) {
            return Err(ReplayError::Wrong { block });
        }
        let mut figures = self.figures;
        figures.placed = self.counter.records();
        figures.nvm = self.counter.account();
        figures.disk = disk.counts();
        [figures.log, figures.moved] = self.counter.log();
        figures.block_bytes = disk.block_size().bytes() as u64;
        let freed = figures.made.freed_slots + figures.made.homed_slots;
        figures.whole_is_needed = self.bound.may_be_whole(figures.nvm.whole_slots, freed);
        let Records { payload, headers, padding, .. } = figures.placed;
        let (counted, written) = (payload + headers + padding, figures.nvm.records.bytes);
        if counted != written {
            return Err(ReplayError::Miscounted { counted, written });
        }
        Ok(figures)
    }
}
