//! Programs on a journal as scenarios for the simulator. [`crate::oracle`] judges them.

use core::cell::RefCell;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use full_block::FullBlock;
use journal_core::policy::{Change, Kind as UpdateKind, Patch, Policy, Span, Update};
use journal_core::units::{BlockSize, LaneNumber};
use journal_core::{
    BlockNumber, CheckpointReport, CommitError, DeviceFacts, Durability, Geometry, Journal,
    OpenError, Operation, Overwrite, PortableKernels, Protocol, Row, WORD_BYTES,
};
use nvm_journal::Buffers;
use object_log::{ObjectLog, Settings};
use sim_disk::{
    CrashPoint, CrashPoints, DiskImage, Image, Mark, Model, Mutator, Rules, Scenario, SimDisk,
    SimPmem, World,
};

use crate::delta::Words;
use crate::oracle::{
    BLOCK_BYTES, BLOCKS, Block, EMPTY, Edit, Edits, Found, Label, SYNCED, State, digest, edited,
    judge, latest,
};
use byte_delta::ByteDelta;
use lcow::Lcow;

/// Bytes of a media unit, where the second superblock copy begins.
pub(crate) const SUPERBLOCK_UNIT: u64 = 256;

/// The journal's id.
pub(crate) const ID: [u8; 16] = *b"sixteen bytes id";

/// One step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A transaction through a lane.
    Commit(u16, Edits, Durability),
    /// A transaction that is stored in as many parts as there are lists, and then committed or
    /// given up.
    Stream(u16, Vec<Edits>, bool),
    /// Makes deferred transactions durable.
    Sync,
    /// Writes home, everything, and empties the lanes.
    Checkpoint,
    /// Writes one batch home.
    #[allow(dead_code, reason = "the tests have it, the laboratory does not")]
    Batch,
    /// Drops from the lanes what can be dropped.
    #[allow(dead_code, reason = "the tests have it, the laboratory does not")]
    Reclaim,
    /// Frees space at the head of a lane by copying; whether anything has to be copied.
    Relog(u16, bool),
    /// A transaction of one block whose content was written to a slot, and changed there, before.
    Active(u16, usize, Durability),
    /// Lets slots' entries say what the rings do.
    Fold,
    /// Gives back the slots of superseded versions.
    Garbage,
    /// Empties the rings, and leaves in slots what is there.
    Rings,
    /// Writes home what slots hold, one batch.
    Evict,
    /// Closes the journal without ceremony and opens it again.
    Reopen,
}

/// Which policy the journal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    FullBlock,
    Words,
    /// Objects of 16 bytes, four in a block.
    ObjectLog,
    ByteDelta,
    Lcow,
}

impl Kind {
    /// Whether what is logged may need what is home.
    pub(crate) const fn logs_deltas(self) -> bool {
        !matches!(self, Self::FullBlock)
    }

    /// Whether its policy keeps versions in slots.
    pub(crate) const fn has_slots(self) -> bool {
        matches!(self, Self::ByteDelta | Self::Lcow)
    }
}

/// The policy of objects, in the size of these blocks.
pub(crate) fn object_log() -> ObjectLog {
    ObjectLog::with(Settings::new().object_bytes(16)).expect("settings that can be")
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) kind: Kind,
    pub(crate) lanes: u16,
    pub(crate) lane_bytes: u64,
    pub(crate) overwrite: Overwrite,
    pub(crate) protocol: Protocol,
    /// Slots of each lane.
    pub(crate) lane_slots: u32,
    /// Blocks of a checkpoint's batch.
    pub(crate) batch: usize,
    /// Whether it acknowledges deferred transactions at once, which is a lie.
    pub(crate) promises_too_much: bool,
    /// Whether an open may say that a durable record is gone: media were damaged.
    pub(crate) may_report_rot: bool,
    /// What the media hold at first; an empty journal where it is not said.
    pub(crate) begin: Option<Arc<Begin>>,
    pub(crate) steps: Vec<Step>,
    /// What is done after each recovery, to see that the journal goes on. Of blocks that the crash
    /// may or may not have discarded they change no single words, since the rest is not known.
    pub(crate) steps_after: Vec<Step>,
    /// Whether the power goes once more after those, and takes all that was not made durable.
    pub(crate) crash_after: bool,
    pub(crate) mutator: Mutator,
    /// Where the rows of the recovery table are counted.
    pub(crate) rows: Arc<Rows>,
}

/// How often each row of the recovery table was reached.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    hits: [AtomicU64; Row::ALL.len()],
    behind: AtomicU64,
}

impl Rows {
    fn hit(&self, row: Row, times: u64) {
        self.hits[row as usize].fetch_add(times, Ordering::Relaxed);
    }

    /// How many lanes were found with records of their epoch behind their end.
    #[allow(dead_code, reason = "the tests ask, the laboratory does not")]
    pub(crate) fn lanes_with_records_behind(&self) -> u64 {
        self.behind.load(Ordering::Relaxed)
    }

    #[allow(dead_code, reason = "the laboratory prints them, the tests do not")]
    pub(crate) fn counts(&self) -> [(Row, u64); Row::ALL.len()] {
        Row::ALL.map(|row| (row, self.hits[row as usize].load(Ordering::Relaxed)))
    }
}

/// What the media hold before a program runs.
#[derive(Debug)]
pub(crate) struct Begin {
    image: Image,
    blocks: Found,
}

impl Begin {
    /// What the blocks hold.
    #[allow(dead_code, reason = "the laboratory looks at it, the tests do not")]
    pub(crate) const fn blocks(&self) -> &Found {
        &self.blocks
    }
}

/// The first call of a program that does not begin with an empty journal: what earlier calls wrote
/// is told apart from what it writes.
const FIRST_CALL: u64 = 1_000;

impl Program {
    pub(crate) fn new(kind: Kind, lanes: u16, steps: Vec<Step>) -> Self {
        Self {
            kind,
            lanes,
            lane_bytes: 4 * 192,
            overwrite: Overwrite::OldOrNew,
            protocol: Protocol::OneFence,
            lane_slots: if kind.has_slots() { 6 } else { 0 },
            batch: 2,
            promises_too_much: false,
            may_report_rot: false,
            begin: None,
            steps,
            steps_after: Vec::new(),
            crash_after: false,
            mutator: Mutator::new(),
            rows: Arc::default(),
        }
    }

    /// What this program leaves behind after a power loss: everything, but what was not durable
    /// of the first `lost_bytes` of lane 0. The journal was opened once after that.
    #[allow(dead_code, reason = "the laboratory begins with it, the tests do not")]
    pub(crate) fn leaves(&self, lost_bytes: u64) -> Result<Begin, String> {
        let world = World::boot(self.start(), Model::Torn8);
        self.program(&world)?;
        let mut history = world.history();
        history.push(Mark::PowerLost);
        let point = last_point(&world)?;
        let geometry = self.geometry();
        let lost_to = geometry.shield().raw() + geometry.shield_bytes() + lost_bytes;
        let kept = |index: usize| point.cells()[index].places()[0] >= lost_to;
        let world = World::boot(point.image(&choice(&point, kept)), Model::Torn8);
        let found = RefCell::new(None);
        let keep = |journal: &mut dyn Read| {
            let blocks = read_all(journal)?;
            judge(&history, &blocks, self.first_state())?;
            *found.borrow_mut() = Some(blocks);
            Ok(())
        };
        self.with_policy(&world, &Run { shown: Some(&keep), steps: &[], shown_after: None })?;
        let blocks = found.into_inner().ok_or("an open shows the blocks")?;
        Ok(Begin { image: world.visible(), blocks })
    }

    /// Takes the power away from a life that recovered and went on, with everything that was not
    /// made durable, and with every other place of it; both times the journal shows what it may.
    fn crash_again(&self, world: &World, rules: Rules) -> Result<(), String> {
        let mut history = world.history();
        history.push(Mark::PowerLost);
        let point = last_point(world)?;
        for keeps_some in [false, true] {
            let kept = |index: usize| keeps_some && index % 2 == 1;
            let world = World::boot(point.image(&choice(&point, kept)), rules);
            let shown = |journal: &mut dyn Read| {
                let found = read_all(journal)?;
                judge(&history, &found, self.first_state())
                    .map_err(|message| format!("after another crash: {message}"))
            };
            self.with_policy(&world, &Run { shown: Some(&shown), steps: &[], shown_after: None })?;
        }
        Ok(())
    }

    pub(crate) fn geometry(&self) -> Geometry {
        Geometry {
            block_size: BlockSize::new(BLOCK_BYTES as u32).expect("a block size"),
            lanes: self.lanes,
            lane_bytes: self.lane_bytes,
            shield_blocks: if self.kind.logs_deltas() { 2 } else { 0 },
            unit_bytes: SUPERBLOCK_UNIT as u32,
            protocol: self.protocol,
            lane_slots: self.lane_slots,
            lane_log_blocks: 0,
            segment_blocks: 0,
        }
    }

    /// Runs steps on a journal of this program's policy.
    fn with_policy(&self, world: &World, run: &Run<'_>) -> Result<(), String> {
        match self.kind {
            Kind::FullBlock => self.run(world, FullBlock, run),
            Kind::Words => self.run(world, Words, run),
            Kind::ObjectLog => self.run(world, object_log(), run),
            Kind::ByteDelta => self.run(world, ByteDelta::new(), run),
            Kind::Lcow => self.run(world, Lcow::new(), run),
        }
    }

    /// Opens the journal and runs steps; a reopen begins anew with what is left.
    fn run(&self, world: &World, policy: impl Policy + Copy, run: &Run<'_>) -> Result<(), String> {
        let mut steps = run.steps;
        let mut first = true;
        loop {
            let mut buffers = Buffers::new(&self.geometry(), 64, self.batch);
            let mut journal = match self.open(world, policy, &mut buffers) {
                Err(OpenError::Rot { row, .. }) if self.may_report_rot => {
                    self.rows.hit(row, 1);
                    return Ok(());
                }
                Err(OpenError::RottenSlot { .. }) if self.may_report_rot => {
                    self.rows.hit(Row::RottenSlot, 1);
                    return Ok(());
                }
                Err(OpenError::SuperblockLost { .. }) if self.may_report_rot => {
                    self.rows.hit(Row::SuperblockLost, 1);
                    return Ok(());
                }
                opened => opened.map_err(|error| format!("open: {error}"))?,
            };
            let recovery = journal.recovery();
            self.rows.hit(Row::KnownDurable, recovery.records - recovery.found);
            self.rows.hit(Row::Found, recovery.found);
            self.rows.hit(Row::Tail, u64::from(recovery.tails - recovery.torn_slots));
            self.rows.hit(Row::TornSlot, u64::from(recovery.torn_slots));
            self.rows.hit(Row::Void, u64::from(recovery.voids));
            let behind = u64::from(recovery.lanes_with_records_behind);
            self.rows.behind.fetch_add(behind, Ordering::Relaxed);
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
            Step::Commit(lane, edits, durability) => {
                self.commit(world, journal, *lane, edits, *durability)
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
                let result = journal.checkpoint_batch(journal_core::Scope::All, &mut report);
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
            Step::Active(lane, block, durability) => {
                self.activate(world, journal, *lane, *block, *durability)
            }
            Step::Fold => journal.fold().map(drop).map_err(|error| error.to_string()),
            Step::Garbage => journal.collect_garbage().map(drop).map_err(|error| error.to_string()),
            Step::Rings => {
                journal.checkpoint_rings().map_err(|error| error.to_string())?;
                world.returned(SYNCED);
                Ok(())
            }
            Step::Evict => journal.evict().map(drop).map_err(|error| error.to_string()),
            Step::Reopen => unreachable!("handled by the caller"),
        }
    }

    /// The number of the next call of the journal's whole life.
    fn next_call(&self, world: &World) -> u64 {
        let calls = world.history();
        let called = calls.iter().filter(|mark| matches!(mark, Mark::Called(_))).count() as u64;
        called + if self.begin.is_some() { FIRST_CALL } else { 1 }
    }

    /// The contents before the first call.
    fn first_state(&self) -> State {
        self.begin.as_ref().map_or(EMPTY, |begin| begin.blocks.map(Some))
    }

    /// The images of a transaction. What a block holds that is not live is nobody's business: it
    /// counts as zeroes, and is not shown to the policy.
    fn images<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        edits: &[(usize, Edit)],
        number: u64,
    ) -> Result<Images, String> {
        let now = latest(&world.history(), &self.first_state());
        let given = !matches!(self.kind, Kind::FullBlock | Kind::Words);
        let words_as =
            given.then_some(if number % 2 == 0 { WordsAs::Patch } else { WordsAs::Range });
        let mut images =
            Images { words_as, goes_home: self.kind == Kind::ByteDelta, blocks: Vec::new() };
        for (block, edit) in edits {
            let mut old = [0; BLOCK_BYTES];
            let is_live = now[*block].is_some();
            if is_live {
                let read = journal.read(BlockNumber(*block as u64), &mut old);
                read.map_err(|error| error.to_string())?;
            }
            let new = edited(&old, number, *edit);
            images.blocks.push(Edited {
                block: *block,
                edit: *edit,
                old: is_live.then_some(old),
                new,
            });
        }
        Ok(images)
    }

    /// A streamed transaction over several lists of blocks, none of them twice.
    fn stream<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        lane: u16,
        parts: &[Edits],
        commits: bool,
    ) -> Result<(), String> {
        let label = Label { number: self.next_call(world), edits: parts.concat() };
        let mut images = Vec::new();
        for part in parts {
            images.push(self.images(world, journal, part, label.number)?);
        }
        // Two lines and an image for each block and one list of names, two lines to close.
        let bytes = 192 * label.edits.len() as u64 + 128;
        let lane = LaneNumber(lane % self.lanes);
        if let Err(CommitError::NoSpace { .. }) = journal.begin(lane, bytes).map(drop) {
            journal.checkpoint().map_err(|error| error.to_string())?;
        }
        let mut streamed = journal.begin(lane, bytes).map_err(|error| error.to_string())?;
        if commits {
            world.called(label.encode());
        }
        for part in &images {
            let patches = part.patches();
            streamed.write(&part.operations(&patches)).map_err(|error| error.to_string())?;
        }
        if !commits {
            streamed.abort();
            return Ok(());
        }
        streamed.commit().map_err(|error| error.to_string())?;
        world.returned(label.encode());
        Ok(())
    }

    /// Writes something to a slot, makes the new content of it, and commits that; another slot is
    /// written and given back.
    fn activate<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        lane: u16,
        block: usize,
        durability: Durability,
    ) -> Result<(), String> {
        let lane = LaneNumber(lane % self.lanes);
        let edits = vec![(block, Edit::Write)];
        let label = Label { number: self.next_call(world), edits: edits.clone() };
        let images = self.images(world, journal, &edits, label.number)?;
        let new = &images.blocks[0].new;
        let begun = edited(new, label.number + 1, Edit::WriteAt);
        let active = journal.with_active(lane, |lane, common| {
            let has_two = lane.lane.free_slots() > 1;
            let given_up = has_two.then(|| lane.activate(common, &[0xEE; BLOCK_BYTES])).flatten();
            let mut active = lane.activate(common, &begun);
            if let Some(active) = &mut active {
                let change = Change::Ranges { image: new, ranges: &FIRST_WORD };
                lane.update_active(common, active, &change);
            }
            if let Some(given_up) = given_up {
                lane.deactivate(given_up);
            }
            active
        });
        let Some(active) = active.flatten() else {
            return self.commit(world, journal, lane.raw(), &edits, durability);
        };
        let operations = [Operation::Active(BlockNumber(block as u64), &active)];
        world.called(label.encode());
        let committed = journal.commit(lane, &operations, durability);
        committed.map_err(|error| error.to_string())?;
        if durability == Durability::Durable {
            world.returned(label.encode());
        }
        Ok(())
    }

    fn commit<L: Policy>(
        &self,
        world: &World,
        journal: &mut Opened<'_, L>,
        lane: u16,
        edits: &[(usize, Edit)],
        durability: Durability,
    ) -> Result<(), String> {
        let lane = LaneNumber(lane % self.lanes);
        let label = Label { number: self.next_call(world), edits: edits.to_vec() };
        let images = self.images(world, journal, edits, label.number)?;
        let patches = images.patches();
        let operations = images.operations(&patches);
        world.called(label.encode());
        let mut result = journal.commit(lane, &operations, durability);
        if let Err(CommitError::NoSpace { .. }) = result {
            journal.checkpoint().map_err(|error| error.to_string())?;
            result = journal.commit(lane, &operations, durability);
        }
        result.map_err(|error| error.to_string())?;
        if durability == Durability::Durable || self.promises_too_much {
            world.returned(label.encode());
        }
        Ok(())
    }
}

/// What a transaction makes of a block.
struct Edited {
    block: usize,
    edit: Edit,
    /// `None` where it is not live.
    old: Option<Block>,
    new: Block,
}

/// What a transaction makes of its blocks.
struct Images {
    /// Whether single words are given to the policy without the old image: in every other call as
    /// a range of the new one, in the others as a patch alone.
    words_as: Option<WordsAs>,
    /// Whether appends are written over what is home.
    goes_home: bool,
    blocks: Vec<Edited>,
}

#[derive(Clone, Copy)]
enum WordsAs {
    Range,
    Patch,
}

/// Where `Edit::WriteAt` changes something.
const FIRST_WORD: [Span; 1] = [Span { at: 0, len: WORD_BYTES as u32 }];

impl Images {
    fn patches(&self) -> Vec<[Patch<'_>; 1]> {
        let words = self.blocks.iter().map(|edited| &edited.new[..WORD_BYTES]);
        words.map(|bytes| [Patch { at: 0, bytes }]).collect()
    }

    fn operations<'a>(&'a self, patches: &'a [[Patch<'a>; 1]]) -> Vec<Operation<'a>> {
        let operations = self.blocks.iter().zip(patches).map(|(edited, patch)| {
            let block = BlockNumber(edited.block as u64);
            if edited.edit == Edit::Discard {
                return Operation::Discard(block);
            }
            let mut update = Update::new(block, Change::Image(&edited.new));
            match edited.edit {
                // Only what is not live may be appended to.
                Edit::Append if edited.old.is_none() || !self.goes_home => {
                    update.kind = UpdateKind::Append;
                }
                Edit::Append => {}
                Edit::Overwrite => {}
                // What is not live is written whole.
                Edit::WriteAt if edited.old.is_some() => {
                    let image = &edited.new;
                    update.change = Change::Ranges { image, ranges: &FIRST_WORD };
                    match self.words_as {
                        None => update.old = edited.old.as_ref().map(|old| &old[..]),
                        Some(WordsAs::Range) => {}
                        Some(WordsAs::Patch) => update.change = Change::Patches(patch),
                    }
                }
                _ => update.old = edited.old.as_ref().map(|old| &old[..]),
            }
            Operation::Update(update)
        });
        operations.collect()
    }
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

fn read_all(journal: &mut dyn Read) -> Result<Found, String> {
    let mut blocks = [[0; BLOCK_BYTES]; BLOCKS];
    for (number, block) in blocks.iter_mut().enumerate() {
        *block = journal.block(number)?;
    }
    Ok(blocks)
}

/// The crash at the end of a life.
fn last_point(world: &World) -> Result<CrashPoint, String> {
    let tape = world.tape();
    let points = CrashPoints::new(&world.start(), &tape, world.rules(), tape.len());
    points.last().ok_or_else(|| "a tape ends with a crash point".to_owned())
}

/// The crash that keeps everything in some places, and nothing in the others.
fn choice(point: &CrashPoint, kept: impl Fn(usize) -> bool) -> Vec<usize> {
    let cells = point.cells().iter().enumerate();
    cells.map(|(index, cell)| if kept(index) { cell.newest() } else { 0 }).collect()
}

fn format(world: &World, geometry: &Geometry, policy: &impl Policy) -> Result<(), OpenError> {
    let (hook, blocks) = (Mutator::new(), BLOCKS as u64);
    journal_core::format(world.pmem(), hook, &PortableKernels, geometry, ID, policy, blocks)
}

impl Scenario for Program {
    fn name(&self) -> String {
        let Self { kind, protocol, lanes, steps, .. } = self;
        format!("{kind:?}, {protocol:?}, {lanes} lanes: {steps:?}")
    }

    fn start(&self) -> Image {
        if let Some(begin) = &self.begin {
            return begin.image.clone();
        }
        let geometry = self.geometry();
        let span = usize::try_from(geometry.span_bytes().expect("small")).expect("small");
        let facts = DeviceFacts::new(32, self.overwrite);
        let disk = DiskImage::blank(geometry.block_size, BLOCKS as u64, facts);
        // Tail words are not zeroes before they are written.
        let mut pmem = Image::blank(span);
        let tails = geometry.tails().raw() as usize..geometry.lane(LaneNumber(0)).raw() as usize;
        pmem.pmem_mut()[tails].fill(0xA5);
        let world = World::boot(pmem.with_disk(disk), Model::Torn8);
        let formatted = match self.kind {
            Kind::FullBlock => format(&world, &geometry, &FullBlock),
            Kind::Words => format(&world, &geometry, &Words),
            Kind::ObjectLog => format(&world, &geometry, &object_log()),
            Kind::ByteDelta => format(&world, &geometry, &ByteDelta::new()),
            Kind::Lcow => format(&world, &geometry, &Lcow::new()),
        };
        formatted.expect("formats");
        world.visible()
    }

    fn program(&self, world: &World) -> Result<(), String> {
        let run = Run { shown: None, steps: &self.steps, shown_after: None };
        self.with_policy(world, &run)
    }

    fn recover(&self, world: &World) -> Result<(), String> {
        let judged = |journal: &mut dyn Read| {
            let found = read_all(journal)?;
            judge(&world.history(), &found, self.first_state()).map(|()| found)
        };
        let shown = |journal: &mut dyn Read| {
            world.recovered(digest(&judged(journal)?));
            Ok(())
        };
        let shown_after = |journal: &mut dyn Read| judged(journal).map(drop);
        let run =
            Run { shown: Some(&shown), steps: &self.steps_after, shown_after: Some(&shown_after) };
        self.with_policy(world, &run)?;
        if self.crash_after { self.crash_again(world, world.rules()) } else { Ok(()) }
    }
}
