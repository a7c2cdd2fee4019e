//! What tests of the on-media format share: small journals on simulated media, driven by lists of
//! acts, with the content that they have to show.

mod blocks;
pub mod examine;
pub mod forge;
pub mod images;
pub mod layout;
pub mod parts;
pub mod reader;
pub mod tiny;
pub mod versions;
pub mod words;

use std::collections::BTreeSet;

use byte_delta::ByteDelta;
use full_block::FullBlock;
use journal_core::policy::{
    ApplyError, Change, Encoder, Kind as UpdateKind, Patch, Placement, Policy, PolicyId, Update,
};
use journal_core::superblock::SuperblockError;
use journal_core::units::LaneNumber;
use journal_core::{
    Batched, BlockNumber, BlockSize, CommitError, DeviceFacts, Durability, Entry, Geometry,
    Journal, JournalMemory, LaneMemory, MediumErrorKind, Needs, NoHook, Node, On, OpenError,
    Operation, Overwrite, PmemSplit, PortableKernels, Protocol, SlotState,
};
use sim_disk::{DiskImage, Image, Model, SimDisk, SimPmem, World};

pub use blocks::{BLOCK_BYTES, BLOCKS, Block, counting};
use reader::{Content, Refusal};
use words::Words;

/// Which policy a journal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Full,
    Words,
    /// It keeps versions in slots.
    Delta,
    /// As `Words`, with whole images in the disk-side log.
    Logged,
}

impl Policy for Kind {
    fn id(&self) -> PolicyId {
        match self {
            Self::Full => FullBlock.id(),
            Self::Words => Words.id(),
            Self::Delta => ByteDelta::ID,
            Self::Logged => PolicyId(0x7E58),
        }
    }

    fn place(&self, update: &Update<'_>, out: &mut Encoder<'_>) -> Placement {
        match self {
            Self::Full => FullBlock.place(update, out),
            Self::Words => Words.place(update, out),
            Self::Delta => ByteDelta::new().place(update, out),
            Self::Logged => match Words.place(update, out) {
                Placement::Image => Placement::DiskLog,
                other => other,
            },
        }
    }

    fn apply(&self, payload: &[u8], block: &mut [u8]) -> Result<(), ApplyError> {
        match self {
            Self::Full => FullBlock.apply(payload, block),
            Self::Words | Self::Logged => Words.apply(payload, block),
            Self::Delta => ByteDelta::new().apply(payload, block),
        }
    }

    fn logs_images(&self) -> bool {
        *self == Self::Full
    }

    fn rewrite_slot(&self, older: &[u8], newer: &[u8], rewrite: &mut dyn FnMut(Patch<'_>)) {
        match self {
            Self::Full => FullBlock.rewrite_slot(older, newer, rewrite),
            Self::Words | Self::Logged => Words.rewrite_slot(older, newer, rewrite),
            Self::Delta => ByteDelta::new().rewrite_slot(older, newer, rewrite),
        }
    }
}

/// The shape of a journal and of its device.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub kind: Kind,
    pub lanes: u16,
    pub lane_bytes: u64,
    pub shield_blocks: u32,
    pub unit_bytes: u32,
    pub protocol: Protocol,
    pub lane_slots: u32,
    /// Blocks of each lane in the disk-side log, in segments of two.
    pub lane_log_blocks: u32,
    pub id: [u8; 16],
}

impl Shape {
    pub const fn new(kind: Kind, lanes: u16) -> Self {
        Self {
            kind,
            lanes,
            lane_bytes: 1024,
            shield_blocks: 2,
            unit_bytes: 256,
            protocol: Protocol::OneFence,
            lane_slots: 0,
            lane_log_blocks: 0,
            id: *b"an id of a test.",
        }
    }

    pub fn geometry(&self) -> Geometry {
        Geometry {
            block_size: BlockSize::new(BLOCK_BYTES as u32).expect("a block size"),
            lanes: self.lanes,
            lane_bytes: self.lane_bytes,
            shield_blocks: self.shield_blocks,
            unit_bytes: self.unit_bytes,
            protocol: self.protocol,
            lane_slots: self.lane_slots,
            lane_log_blocks: self.lane_log_blocks,
            segment_blocks: if self.lane_log_blocks > 0 { 2 } else { 0 },
        }
    }

    pub fn span_bytes(&self) -> usize {
        let bytes = self.geometry().span_bytes().expect("a small span");
        usize::try_from(bytes).expect("a small span")
    }

    /// Blocks of the disk: of the store, and of the log behind them.
    pub fn disk_blocks(&self) -> u64 {
        BLOCKS + self.geometry().log_blocks()
    }

    /// Media that were just formatted.
    pub fn format(&self) -> Image {
        self.format_over(vec![0; self.span_bytes()])
    }

    /// Media that were just formatted, in a span that held something else.
    pub fn format_over(&self, span: Vec<u8>) -> Image {
        // A device that leaves garbage behind when the power goes needs the shield.
        let facts = DeviceFacts::new(32, Overwrite::MayLeaveGarbage);
        let disk = DiskImage::blank(self.geometry().block_size, self.disk_blocks(), facts);
        let world = World::boot(Image::from_pmem(span).with_disk(disk), Model::Torn8);
        let (pmem, geometry) = (world.pmem(), self.geometry());
        let kernels = PortableKernels;
        journal_core::format(pmem, NoHook, &kernels, &geometry, self.id, &self.kind, BLOCKS)
            .expect("formats");
        world.visible()
    }

    /// What a reader made from FORMAT.md alone finds.
    pub fn read_by_the_book(&self, image: &Image) -> Result<reader::Found, Refusal> {
        self.read_without(image, &BTreeSet::new())
    }

    /// What that reader finds where lines are missing.
    pub fn read_without(
        &self,
        image: &Image,
        missing: &BTreeSet<usize>,
    ) -> Result<reader::Found, Refusal> {
        let partners = reader::Partners {
            policy: self.kind.id().0,
            lanes_max: self.lanes,
            slots_max: self.geometry().slots(),
            blocks: self.disk_blocks(),
        };
        let apply = |payload: &[u8], block: &mut [u8]| self.kind.apply(payload, block).is_ok();
        reader::recover(image, missing, &partners, &apply)
    }

    /// Opens the journal in a world and does something with it.
    pub fn with<R>(
        &self,
        world: &World,
        work: impl FnOnce(&mut Opened<'_, SimPmem>) -> R,
    ) -> Result<R, OpenError> {
        let mut memory = Memory::new(&self.geometry());
        let mut journal = memory.open(world.pmem(), world.disk(0), self.kind)?;
        Ok(work(&mut journal))
    }

    /// Drives a journal, and keeps account of what it has to show.
    pub fn drive(&self, world: &World, acts: &[Act], truth: &mut Truth) {
        let mut acts = acts;
        loop {
            let reopen = acts.iter().position(|act| *act == Act::Reopen);
            let (now, later) = acts.split_at(reopen.unwrap_or(acts.len()));
            self.with(world, |journal| {
                for act in now {
                    truth.act(journal, act);
                }
            })
            .expect("opens");
            let Some((_, rest)) = later.split_first() else { return };
            acts = rest;
        }
    }

    /// The media after a list of acts on a journal that was just formatted.
    pub fn made_by(&self, acts: &[Act]) -> (Image, Truth) {
        let world = World::boot(self.format(), Model::Torn8);
        let mut truth = Truth::default();
        self.drive(&world, acts, &mut truth);
        (world.visible(), truth)
    }
}

pub type Opened<'m, P> = Journal<'m, Kind, On<P, SimDisk>>;

/// What a transaction does to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Fills it with bytes that count up from this one.
    Fill(u8),
    /// Puts this byte into two words.
    Touch(u8),
    /// Puts this byte into two words, given as patches.
    Patch(u8),
    /// Fills a block that is not live.
    Append(u8),
    Discard,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Commit(u16, Vec<(u64, What)>),
    /// A commit that is made durable later.
    Defer(u16, Vec<(u64, What)>),
    /// A commit with a note, the first of which begins notes.
    Noted(u16, Vec<(u64, What)>, [u64; 2]),
    Sync,
    Checkpoint,
    /// Copies what pins the head of a lane.
    Relog(u16),
    /// Folds frames into entries of slots.
    Fold,
    /// Gives back the slots of superseded versions.
    Garbage,
    /// A checkpoint whose last sync fails, so that its intent remains.
    FailedCheckpoint,
    /// The act before was cut short by a crash: a slot is torn. The maker of an image sees to it.
    TornSlot,
    Reopen,
}

/// What each block has to show; `None` once it was discarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truth(pub [Option<Block>; BLOCKS as usize]);

impl Default for Truth {
    fn default() -> Self {
        Self([Some([0; BLOCK_BYTES]); BLOCKS as usize])
    }
}

impl Truth {
    pub fn act<P: PmemSplit>(&mut self, journal: &mut Opened<'_, P>, act: &Act) {
        match act {
            Act::Commit(lane, changes) => {
                self.commit(journal, *lane, changes, None, Durability::Durable);
            }
            Act::Noted(lane, changes, note) => {
                journal.begin_notes().expect("begins notes");
                self.commit(journal, *lane, changes, Some(*note), Durability::Durable);
            }
            Act::Defer(lane, changes) => {
                self.commit(journal, *lane, changes, None, Durability::Deferred);
            }
            Act::Sync => journal.sync().expect("syncs"),
            Act::Checkpoint => drop(journal.checkpoint().expect("checkpoints")),
            Act::Relog(lane) => {
                let report = journal.relog(LaneNumber(*lane)).expect("re-logs");
                assert!(report.frames > 0, "{report:?}");
            }
            Act::Fold => drop(journal.fold().expect("folds")),
            Act::Garbage => drop(journal.collect_garbage().expect("collects garbage")),
            Act::FailedCheckpoint => {
                journal.checkpoint().expect_err("a fault was injected");
            }
            Act::TornSlot | Act::Reopen => unreachable!("the caller sees to it"),
        }
    }

    fn commit<P: PmemSplit>(
        &mut self,
        journal: &mut Opened<'_, P>,
        lane: u16,
        changes: &[(u64, What)],
        note: Option<[u64; 2]>,
        durability: Durability,
    ) {
        let before = self.0;
        for (block, what) in changes {
            let cell = &mut self.0[usize::try_from(*block).expect("a block")];
            *cell = match what {
                What::Fill(first) | What::Append(first) => Some(counting(*first)),
                What::Touch(byte) | What::Patch(byte) => {
                    let mut content = cell.expect("touches live blocks only");
                    (content[3], content[40]) = (*byte, *byte);
                    Some(content)
                }
                What::Discard => None,
            };
        }
        let patches: Vec<[Patch<'_>; 2]> = self
            .0
            .iter()
            .map(|block| {
                let bytes = |at: usize| block.as_ref().map_or(&[0][..], |block| &block[at..=at]);
                [3, 40].map(|at| Patch { at, bytes: bytes(at as usize) })
            })
            .collect();
        let operations: Vec<Operation<'_>> = changes
            .iter()
            .map(|(block, what)| {
                let at = usize::try_from(*block).expect("a block");
                let block = BlockNumber(*block);
                let Some(new) = &self.0[at] else { return Operation::Discard(block) };
                let mut update = Update::new(block, Change::Image(new));
                update.old = before[at].as_ref().map(|old| &old[..]);
                match what {
                    What::Patch(_) => update.change = Change::Patches(&patches[at]),
                    What::Append(_) => (update.kind, update.old) = (UpdateKind::Append, None),
                    _ => {}
                }
                Operation::Update(update)
            })
            .collect();
        let lane = LaneNumber(lane);
        let commit = |journal: &mut Opened<'_, P>| match note {
            Some(note) => journal.commit_noted(lane, &operations, note, durability),
            None => journal.commit(lane, &operations, durability),
        };
        let mut result = commit(journal);
        if let Err(CommitError::NoSpace { .. }) = result {
            journal.checkpoint().expect("checkpoints");
            result = commit(journal);
        }
        result.expect("commits");
    }
}

/// A journal's memory, owned.
pub struct Memory<P> {
    lanes: Vec<LaneMemory<P>>,
    entries: Vec<Entry>,
    nodes: Vec<Node>,
    batch: Vec<Batched>,
    front: Vec<u8>,
    encoded: Vec<u8>,
    blocks: Vec<u8>,
    slots: Vec<SlotState>,
}

impl<P: PmemSplit> Memory<P> {
    pub fn new(geometry: &Geometry) -> Self {
        let needs = Needs::of(geometry, 160);
        Self {
            lanes: (0..needs.lanes).map(|_| LaneMemory::EMPTY).collect(),
            entries: vec![Entry::EMPTY; needs.entries],
            nodes: vec![Node::EMPTY; needs.nodes],
            batch: vec![Batched::EMPTY; 4],
            front: vec![0; needs.front_bytes],
            encoded: vec![0; needs.encoded_bytes],
            blocks: vec![0; 2 * needs.blocks_bytes],
            slots: vec![SlotState::EMPTY; needs.slots],
        }
    }

    pub fn open(&mut self, pmem: P, disk: SimDisk, kind: Kind) -> Result<Opened<'_, P>, OpenError> {
        let memory = JournalMemory {
            lanes: &mut self.lanes,
            entries: &mut self.entries,
            nodes: &mut self.nodes,
            batch: &mut self.batch,
            front: &mut self.front,
            encoded: &mut self.encoded,
            blocks: &mut self.blocks,
            slots: &mut self.slots,
        };
        Journal::open(pmem, disk, kind, NoHook, PortableKernels, memory)
    }
}

/// Reads every block.
pub fn contents<P: PmemSplit>(journal: &mut Opened<'_, P>) -> Vec<Content> {
    let read = |number| {
        let mut block = [0; BLOCK_BYTES];
        match journal.read(BlockNumber(number), &mut block) {
            Ok(()) => Content::Is(block),
            Err(_) => Content::Unreadable,
        }
    };
    (0..BLOCKS).map(read).collect()
}

/// An error of opening, in the words of the format; `None` for errors of media.
pub fn refusal(error: &OpenError) -> Option<Refusal> {
    Some(match *error {
        OpenError::Superblock(SuperblockError::NotAJournal) => Refusal::NotAJournal,
        OpenError::Superblock(SuperblockError::Corrupt) => Refusal::Corrupt,
        OpenError::Superblock(SuperblockError::Unfinished) => Refusal::Unfinished,
        OpenError::Superblock(SuperblockError::Version { found }) => Refusal::Version(found),
        OpenError::Superblock(SuperblockError::Features { unknown }) => Refusal::Features(unknown),
        OpenError::Superblock(SuperblockError::Geometry) | OpenError::Geometry(_) => {
            Refusal::Geometry
        }
        OpenError::WrongPolicy { .. }
        | OpenError::WrongDevice { .. }
        | OpenError::MemoryTooShort { .. } => Refusal::Partners,
        OpenError::Rot { lane, sequence, .. } => {
            Refusal::Rot { lane: lane.raw(), sequence: sequence.raw() }
        }
        OpenError::SuperblockLost { .. } => Refusal::SuperblockLost,
        OpenError::Exhausted => Refusal::Exhausted,
        OpenError::RottenSlot { .. } => Refusal::RottenSlot,
        OpenError::RottenEntry { slot } => Refusal::RottenEntry { slot: slot.raw().into() },
        OpenError::Medium(error) if error.kind == MediumErrorKind::Poisoned => Refusal::Missing,
        _ => return None,
    })
}
