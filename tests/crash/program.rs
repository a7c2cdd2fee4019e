//! Programs on a journal as scenarios for the simulator, with the oracle that judges recovery.
//!
//! The core has one owner, so what it recovers is a prefix of the transactions in the order they
//! were committed, with at least all those that were acknowledged as durable; what an open has
//! shown, either way, stays so.

use full_block::FullBlock;
use journal_core::policy::{Change, Policy, Update};
use journal_core::units::{BlockSize, LaneNumber};
use journal_core::{
    BlockNumber, CheckpointReport, CommitError, DeviceFacts, Durability, Geometry, Journal,
    OpenError, Operation, Overwrite, PortableKernels,
};
use nvm_journal::Buffers;
use sim_disk::rng::mix;
use sim_disk::{DiskImage, Image, Mark, Mutator, Scenario, SimDisk, SimPmem, World};

use crate::delta::Words;

/// Bytes of a media unit, where the second superblock copy begins.
pub(crate) const SUPERBLOCK_UNIT: u64 = 256;

/// Blocks of the store.
pub(crate) const BLOCKS: usize = 4;
const BLOCK_BYTES: usize = 64;

type Block = [u8; BLOCK_BYTES];

/// What a transaction does to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change1 {
    /// Changes its first and last word.
    Write,
    /// Changes its first word only.
    Touch,
    /// Gives it up.
    Discard,
}

/// One step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A transaction through a lane.
    Commit(u16, Vec<(usize, Change1)>, Durability),
    /// A transaction that is stored in as many parts as there are lists, and then committed or
    /// given up.
    Stream(u16, Vec<Vec<(usize, Change1)>>, bool),
    /// Makes deferred transactions durable.
    Sync,
    /// Writes home, everything, and empties the lanes.
    Checkpoint,
    /// Writes one batch home.
    Batch,
    /// Drops from the lanes what can be dropped.
    Reclaim,
    /// Frees space at the head of a lane by copying; whether anything has to be copied.
    Relog(u16, bool),
    /// Closes the journal without ceremony and opens it again.
    Reopen,
}

/// Which policy the journal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    FullBlock,
    Words,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) kind: Kind,
    pub(crate) lanes: u16,
    pub(crate) lane_bytes: u64,
    pub(crate) overwrite: Overwrite,
    /// Blocks of a checkpoint's batch.
    pub(crate) batch: usize,
    /// Whether an open may say that a durable record is gone: media were damaged.
    pub(crate) may_report_rot: bool,
    pub(crate) steps: Vec<Step>,
    /// What is done after each recovery, to see that the journal goes on.
    pub(crate) steps_after: Vec<Step>,
    pub(crate) mutator: Mutator,
}

impl Program {
    pub(crate) fn new(kind: Kind, lanes: u16, steps: Vec<Step>) -> Self {
        Self {
            kind,
            lanes,
            lane_bytes: 4 * 192,
            overwrite: Overwrite::OldOrNew,
            batch: 2,
            may_report_rot: false,
            steps,
            steps_after: Vec::new(),
            mutator: Mutator::new(),
        }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        Geometry {
            block_size: BlockSize::new(BLOCK_BYTES as u32).expect("a block size"),
            lanes: self.lanes,
            lane_bytes: self.lane_bytes,
            shield_blocks: if self.kind == Kind::Words { 2 } else { 0 },
            unit_bytes: SUPERBLOCK_UNIT as u32,
        }
    }

    /// Runs steps on a journal of this program's policy.
    fn with_policy(&self, world: &World, run: &Run<'_>) -> Result<(), String> {
        match self.kind {
            Kind::FullBlock => self.run(world, FullBlock, run),
            Kind::Words => self.run(world, Words, run),
        }
    }

    /// Opens the journal and runs steps; a reopen begins anew with what is left.
    fn run(&self, world: &World, policy: impl Policy + Copy, run: &Run<'_>) -> Result<(), String> {
        let mut steps = run.steps;
        let mut first = true;
        loop {
            let mut buffers = Buffers::new(&self.geometry(), 64, self.batch);
            let mut journal = match self.open(world, policy, &mut buffers) {
                Err(OpenError::Rot { .. } | OpenError::SuperblockLost { .. })
                    if self.may_report_rot =>
                {
                    return Ok(());
                }
                opened => opened.map_err(|error| format!("open: {error}"))?,
            };
            if let Some(shown) = run.shown.filter(|_| first) {
                shown(&mut Access(&mut journal))?;
            }
            first = false;
            let mut left = steps.iter();
            let mut reopens = false;
            for step in left.by_ref() {
                if *step == Step::Reopen {
                    reopens = true;
                    break;
                }
                self.step(world, &mut journal, step)?;
            }
            steps = left.as_slice();
            if !reopens {
                return run.shown_after.map_or(Ok(()), |shown| shown(&mut Access(&mut journal)));
            }
        }
    }

    pub(crate) fn open<'m, L: Policy>(
        &self,
        world: &World,
        policy: L,
        buffers: &'m mut Buffers<SimPmem, Mutator>,
    ) -> Result<Opened<'m, L>, OpenError> {
        let (pmem, disk, hook) = (world.pmem(), world.disk(0), self.mutator.clone());
        Journal::open(pmem, disk, policy, hook, PortableKernels, buffers.borrow())
    }

    pub(crate) fn step<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        step: &Step,
    ) -> Result<(), String> {
        match step {
            Step::Commit(lane, changes, durability) => {
                self.commit(world, journal, *lane, changes, *durability)
            }
            Step::Stream(lane, parts, commits) => {
                self.stream(world, journal, *lane, parts, *commits)
            }
            Step::Sync => {
                journal.sync().map_err(|error| error.to_string())?;
                world.returned(SYNCED);
                Ok(())
            }
            Step::Checkpoint => {
                journal.checkpoint().map_err(|error| error.to_string())?;
                world.returned(SYNCED);
                Ok(())
            }
            Step::Batch => {
                let mut report = CheckpointReport::default();
                let result = journal.checkpoint_batch(&mut report);
                result.map(drop).map_err(|error| error.to_string())
            }
            Step::Reclaim => {
                let mut report = CheckpointReport::default();
                journal.reclaim(&mut report).map_err(|error| error.to_string())
            }
            Step::Relog(lane, must_copy) => {
                let report = journal.relog(LaneNumber(lane % self.lanes));
                let report = report.map_err(|error| error.to_string())?;
                let copies = report.frames > 0 && report.freed_bytes > report.copied_bytes;
                if *must_copy && !copies {
                    return Err(format!("nothing was copied: {report:?}"));
                }
                Ok(())
            }
            Step::Reopen => unreachable!("handled by the caller"),
        }
    }

    /// A streamed transaction over several lists of blocks, none of them twice.
    fn stream<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        lane: u16,
        parts: &[Vec<(usize, Change1)>],
        commits: bool,
    ) -> Result<(), String> {
        let label = Label { number: next_call(world), changes: parts.concat() };
        let mut images = Vec::new();
        for part in parts {
            images.push(Images::of(part, label.number, |block| {
                let mut old = [0; BLOCK_BYTES];
                let read = journal.read(BlockNumber(block as u64), &mut old);
                read.map(|()| old).map_err(|error| error.to_string())
            })?);
        }
        // Two lines and an image for each block and one list of names, two lines to close.
        let bytes = 192 * label.changes.len() as u64 + 128;
        let lane = LaneNumber(lane % self.lanes);
        if let Err(CommitError::NoSpace { .. }) = journal.begin(lane, bytes).map(drop) {
            journal.checkpoint().map_err(|error| error.to_string())?;
        }
        let mut streamed = journal.begin(lane, bytes).map_err(|error| error.to_string())?;
        if commits {
            world.called(label.encode());
        }
        for part in &images {
            streamed.write(&part.operations()).map_err(|error| error.to_string())?;
        }
        if !commits {
            streamed.abort();
            return Ok(());
        }
        streamed.commit().map_err(|error| error.to_string())?;
        world.returned(label.encode());
        Ok(())
    }

    fn commit<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        lane: u16,
        changes: &[(usize, Change1)],
        durability: Durability,
    ) -> Result<(), String> {
        let lane = LaneNumber(lane % self.lanes);
        let label = Label { number: next_call(world), changes: changes.to_vec() };
        let images = Images::of(changes, label.number, |block| {
            let mut old = [0; BLOCK_BYTES];
            let read = journal.read(BlockNumber(block as u64), &mut old);
            read.map(|()| old).map_err(|error| error.to_string())
        })?;
        let operations = images.operations();
        world.called(label.encode());
        let mut result = journal.commit(lane, &operations, durability);
        if let Err(CommitError::NoSpace { .. }) = result {
            journal.checkpoint().map_err(|error| error.to_string())?;
            result = journal.commit(lane, &operations, durability);
        }
        result.map_err(|error| error.to_string())?;
        if durability == Durability::Durable {
            world.returned(label.encode());
        }
        Ok(())
    }
}

/// The number of the next call of the journal's whole life.
fn next_call(world: &World) -> u64 {
    let calls = world.history();
    calls.iter().filter(|mark| matches!(mark, Mark::Called(_))).count() as u64 + 1
}

/// What a transaction makes of its blocks.
struct Images {
    changes: Vec<(usize, Change1)>,
    olds: Vec<Block>,
    news: Vec<Block>,
}

impl Images {
    fn of(
        changes: &[(usize, Change1)],
        number: u64,
        mut read: impl FnMut(usize) -> Result<Block, String>,
    ) -> Result<Self, String> {
        let mut images = Self { changes: changes.to_vec(), olds: Vec::new(), news: Vec::new() };
        for (block, change) in changes {
            let old = read(*block)?;
            images.news.push(changed(&old, number, *change));
            images.olds.push(old);
        }
        Ok(images)
    }

    fn operations(&self) -> Vec<Operation<'_>> {
        let images = self.olds.iter().zip(&self.news);
        let operations = self.changes.iter().zip(images).map(|((block, change), (old, new))| {
            let block = BlockNumber(*block as u64);
            if *change == Change1::Discard {
                return Operation::Discard(block);
            }
            let mut update = Update::new(block, Change::Image(new));
            update.old = Some(old);
            Operation::Update(update)
        });
        operations.collect()
    }
}

/// The label of a return that makes everything called so far durable.
const SYNCED: u64 = 0;

/// A call, packed into the label of its mark: its number, and two bits per block.
struct Label {
    number: u64,
    changes: Vec<(usize, Change1)>,
}

impl Label {
    fn encode(&self) -> u64 {
        self.changes.iter().fold(self.number << 16, |label, (block, change)| {
            let bits = match change {
                Change1::Write => 1,
                Change1::Touch => 2,
                Change1::Discard => 3,
            };
            label | bits << (2 * block)
        })
    }

    const fn number(label: u64) -> u64 {
        label >> 16
    }

    const fn change(label: u64, block: usize) -> Option<Change1> {
        match label >> (2 * block) & 3 {
            1 => Some(Change1::Write),
            2 => Some(Change1::Touch),
            3 => Some(Change1::Discard),
            _ => None,
        }
    }
}

/// The content after a change: the words it does not touch stay.
fn changed(old: &Block, number: u64, change: Change1) -> Block {
    let mut new = *old;
    if change != Change1::Discard {
        new[..8].copy_from_slice(&mix(number << 1).to_le_bytes());
    }
    if change == Change1::Write {
        new[56..].copy_from_slice(&mix(number << 1 | 1).to_le_bytes());
    }
    new
}

pub(crate) type Opened<'m, L> = Journal<'m, SimPmem, SimDisk, L, Mutator, PortableKernels>;

/// Reading a journal, whatever its policy.
struct Access<'a, 'm, L: Policy>(&'a mut Opened<'m, L>);

trait Read {
    fn block(&mut self, block: usize) -> Result<Block, String>;
}

impl<L: Policy> Read for Access<'_, '_, L> {
    fn block(&mut self, block: usize) -> Result<Block, String> {
        let mut content = [0; BLOCK_BYTES];
        let number = BlockNumber(block as u64);
        self.0.read(number, &mut content).map_err(|error| error.to_string())?;
        Ok(content)
    }
}

type Shown<'a> = &'a dyn Fn(&mut dyn Read) -> Result<(), String>;

/// What to do with an open journal.
struct Run<'a> {
    shown: Option<Shown<'a>>,
    steps: &'a [Step],
    shown_after: Option<Shown<'a>>,
}

/// What a block may hold: a content, or anything once it was discarded.
type Cell = Option<Block>;
type State = [Cell; BLOCKS];

fn after(state: &State, label: u64) -> State {
    let mut next = *state;
    for (block, cell) in next.iter_mut().enumerate() {
        match Label::change(label, block) {
            None => {}
            Some(Change1::Discard) => *cell = None,
            Some(change) => {
                let old = cell.unwrap_or([0; BLOCK_BYTES]);
                *cell = Some(changed(&old, Label::number(label), change));
            }
        }
    }
    next
}

fn digest(blocks: &[Block; BLOCKS]) -> u64 {
    let bytes = blocks.iter().flatten().copied();
    bytes.fold(1, |sum, byte| mix(sum ^ u64::from(byte)))
}

/// The digest of what a state shows; `None` where that is not determined.
fn digest_of(state: &State) -> Option<u64> {
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (block, cell) in blocks.iter_mut().zip(state) {
        *block = (*cell)?;
    }
    Some(digest(&blocks))
}

/// One of the states that a life may have begun with, and what its calls made of it.
#[derive(Clone, Debug)]
struct Life {
    states: Vec<State>,
    acknowledged: usize,
}

/// The states that the history allows now.
fn allowed(history: &[Mark]) -> Vec<Life> {
    let begin = |state| Life { states: vec![state], acknowledged: 0 };
    let mut lives = vec![begin([Some([0; BLOCK_BYTES]); BLOCKS])];
    for mark in history {
        match mark {
            Mark::Called(label) => {
                for life in &mut lives {
                    let last = life.states[life.states.len() - 1];
                    life.states.push(after(&last, *label));
                }
            }
            Mark::Returned(_) => {
                for life in &mut lives {
                    life.acknowledged = life.states.len() - 1;
                }
            }
            Mark::PowerLost | Mark::Killed => {
                let states = lives.iter().flat_map(|life| &life.states[life.acknowledged..]);
                lives = states.map(|state| begin(*state)).collect();
            }
            Mark::Recovered(shown) => {
                lives.retain(|life| {
                    digest_of(&life.states[0]).is_none_or(|digest| digest == *shown)
                });
            }
        }
    }
    lives
}

fn shows(state: &State, found: &[Block; BLOCKS]) -> bool {
    state.iter().zip(found).all(|(cell, block)| cell.is_none_or(|cell| cell == *block))
}

fn read_all(journal: &mut dyn Read) -> Result<[Block; BLOCKS], String> {
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (number, block) in blocks.iter_mut().enumerate() {
        *block = journal.block(number)?;
    }
    Ok(blocks)
}

/// Judges what a journal shows by what may have been done so far.
fn judge(world: &World, journal: &mut dyn Read) -> Result<[Block; BLOCKS], String> {
    let found = read_all(journal)?;
    let history = world.history();
    let fits = allowed(&history)
        .iter()
        .any(|life| life.states[life.acknowledged..].iter().any(|state| shows(state, &found)));
    if fits {
        return Ok(found);
    }
    let words: Vec<[u8; 2]> = found.iter().map(|block| [block[0], block[56]]).collect();
    Err(format!("blocks begin and end with {words:02x?}, which no allowed state does: {history:?}"))
}

impl Scenario for Program {
    fn name(&self) -> String {
        format!("{:?}, {} lanes: {:?}", self.kind, self.lanes, self.steps)
    }

    fn start(&self) -> Image {
        let geometry = self.geometry();
        let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
        let facts = DeviceFacts::new(32, self.overwrite);
        let disk = DiskImage::blank(geometry.block_size, BLOCKS as u64, facts);
        let world = World::boot(Image::blank(span).with_disk(disk), sim_disk::Model::Torn8);
        let id = *b"sixteen bytes id";
        let (hook, kernels) = (Mutator::new(), PortableKernels);
        let blocks = BLOCKS as u64;
        let formatted = match self.kind {
            Kind::FullBlock => journal_core::format(
                world.pmem(),
                hook,
                &kernels,
                &geometry,
                id,
                &FullBlock,
                blocks,
            ),
            Kind::Words => {
                journal_core::format(world.pmem(), hook, &kernels, &geometry, id, &Words, blocks)
            }
        };
        formatted.expect("formats");
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let run = Run { shown: None, steps: &self.steps, shown_after: None };
        self.with_policy(world, &run)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let shown = |journal: &mut dyn Read| {
            let found = judge(world, journal)?;
            world.recovered(digest(&found));
            Ok(())
        };
        let shown_after = |journal: &mut dyn Read| judge(world, journal).map(drop);
        let run =
            Run { shown: Some(&shown), steps: &self.steps_after, shown_after: Some(&shown_after) };
        self.with_policy(world, &run)
    }
}
